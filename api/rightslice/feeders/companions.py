"""What pages beside the cards' tell: whose workloads are, and how their serving engines fare.

Both are told of workloads that hold cards, and of no others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rightslice.feeders.engines.mapper import EngineMapper
from rightslice.feeders.engines.mapping import EngineMapping, shipped_engine_mappings
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.owners.mapper import OwnerMapper
from rightslice.feeders.owners.teams import TeamRule
from rightslice.feeders.readings import Reading
from rightslice.ledger.batch import Batch


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """What the user says of workloads: rules for their teams, and which engines are understood."""

    team_rules: Sequence[TeamRule] = ()
    engine_mappings: Sequence[EngineMapping] = field(default_factory=shipped_engine_mappings)

    def companions(self) -> "Companions":
        return Companions(OwnerMapper(self.team_rules), EngineMapper(self.engine_mappings))


@dataclass(slots=True)
class Companions:
    """Takes in pages in the order of time, and completes what was told of cards."""

    owners: OwnerMapper = field(default_factory=OwnerMapper)
    engines: EngineMapper = field(default_factory=EngineMapper)

    def feed(
        self,
        target: str,
        now_seconds: float,
        readings: Sequence[Reading],
        interval_seconds: float,
        labels: Mapping[str, str],
    ) -> None:
        """Take in a target's page, as far as it is one of those; `target` is its URL."""
        names = {reading.name for reading in readings}
        self.engines.places.learn(target, readings)
        if self.engines.knows(names):
            self.engines.feed(target, now_seconds, readings, labels)
        if any(map(self.owners.knows, names)):
            self.owners.feed(
                target,
                now_seconds,
                readings,
                cluster=labels.get("cluster", ""),
                interval_seconds=interval_seconds,
            )

    def complete(self, batch: Batch, hours: Iterable[int], hour: int) -> Batch:
        """Add what is known of the workloads in a batch, and their owners' and engines' hours.

        What our exporter told counts from when it did, what is new otherwise from `hour` on.
        """
        for told in batch.workload_attributes:
            key = (told.kind, told.namespace, told.pod, told.container)
            self.owners.want([key], int(told.since.timestamp() // SECONDS_PER_HOUR))
        for row in batch.workloads:
            key = (row.kind, row.namespace, row.pod, row.container)
            self.owners.want([key], int(row.hour.timestamp() // SECONDS_PER_HOUR))
            self.engines.places.learn_workload(*key)
        self.owners.know(batch.workload_attributes)
        attributes = self.owners.attributes(hour)
        hours = list(hours)
        return replace(
            batch,
            workload_attributes=attributes,
            owners=self.owners.rows(hours),
            engines=self.engines.rows(hours),
        )

    def written(self) -> None:
        """Note that all there was to write is written."""
        self.owners.written()
        self.engines.written()

    def forget(self, target: str) -> None:
        """Drop what is remembered of a target that is read no more."""
        self.engines.forget(target)

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.owners.forget_before(hour)
        self.engines.forget_before(hour)

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self.owners.start_over()
        self.engines.start_over(now_seconds)

    def state(self, from_hour: int) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold."""
        return {"owners": self.owners.state(from_hour), "engines": self.engines.state(from_hour)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self.owners.restore(state["owners"])
        self.engines.restore(state["engines"])
