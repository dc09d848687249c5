"""How many replicas an owner had in an hour: weighted by time, from readings at any interval.

A reading stands for the time since the one before it, but for no more than two intervals of it:
the rest is unknown. So a mean is of the time that was seen, and lies between least and most.
"""

from dataclasses import dataclass, field
from typing import Any

from rightslice.contract.sampling import COVERED_INTERVALS
from rightslice.feeders.hours.spread import hour_of, hour_start, spread
from rightslice.feeders.owners.metrics import SOURCE_KUBE, Thing
from rightslice.ledger.rows import OwnerHour


@dataclass(slots=True)
class ReplicaHour:
    """What was seen of one owner in one hour. Counts are of changes up and down.

    `is_autoscaled` is None where nobody tells of autoscalers.
    """

    observed_seconds: float = 0.0
    replica_seconds: float = 0.0
    least: int = 0
    most: int = 0
    up_count: int = 0
    down_count: int = 0
    is_autoscaled: bool | None = None

    def cover(self, seconds: float, replicas: int) -> None:
        """Take in that there were so many replicas for a time."""
        if seconds <= 0:
            return
        known = self.observed_seconds > 0
        self.least = min(self.least, replicas) if known else replicas
        self.most = max(self.most, replicas) if known else replicas
        self.observed_seconds += seconds
        self.replica_seconds += seconds * replicas

    @property
    def mean(self) -> float:
        """Give the mean over the time that was seen; rounding must not move it out of its range."""
        mean = self.replica_seconds / self.observed_seconds
        return min(max(mean, float(self.least)), float(self.most))


@dataclass(slots=True)
class ReplicaCounts:
    """The replicas of one owner: its last reading, and its open hours."""

    last_seconds: float | None = None
    last_replicas: int = 0
    hours: dict[int, ReplicaHour] = field(default_factory=dict)

    def read(
        self,
        now_seconds: float,
        replicas: int,
        interval_seconds: float,
        *,
        is_autoscaled: bool | None = None,
    ) -> None:
        """Take in a reading; one that is not newer than the last is ignored.

        A change is one event, in the hour in which it was seen, however large it is: what lay
        between two readings, nobody knows.
        """
        before_seconds, before = self.last_seconds, self.last_replicas
        if before_seconds is not None and now_seconds <= before_seconds:
            return
        self.last_seconds, self.last_replicas = now_seconds, replicas
        if before_seconds is None:
            return
        covered = min(now_seconds - before_seconds, COVERED_INTERVALS * interval_seconds)
        for hour, seconds in spread(now_seconds - covered, now_seconds, covered):
            self._hour(hour).cover(seconds, replicas)
        seen = self._hour(hour_of(now_seconds))
        if is_autoscaled is not None:
            seen.is_autoscaled = is_autoscaled
        if replicas != before:
            seen.up_count += replicas > before
            seen.down_count += replicas < before

    def _hour(self, hour: int) -> ReplicaHour:
        return self.hours.setdefault(hour, ReplicaHour())

    def row(self, owner: Thing, hour: int) -> OwnerHour | None:
        """Give an hour's row; None where no time of it was seen."""
        told = self.hours.get(hour)
        if told is None or not told.observed_seconds:
            return None
        return OwnerHour(
            cluster=owner.cluster,
            namespace=owner.namespace,
            owner_kind=owner.kind,
            owner=owner.name,
            hour=hour_start(hour),
            source=SOURCE_KUBE,
            observed_seconds=told.observed_seconds,
            replicas_mean=told.mean,
            replicas_min=told.least,
            replicas_max=told.most,
            scale_up_count=told.up_count,
            scale_down_count=told.down_count,
            is_autoscaled=told.is_autoscaled,
        )

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.hours = {known: told for known, told in self.hours.items() if known >= hour}

    def state(self, from_hour: int) -> list[Any]:
        """Give everything, hours from `from_hour` on, in a shape that JSON can hold."""
        hours = [
            [
                hour,
                told.observed_seconds,
                told.replica_seconds,
                told.least,
                told.most,
                told.up_count,
                told.down_count,
                told.is_autoscaled,
            ]
            for hour, told in sorted(self.hours.items())
            if hour >= from_hour
        ]
        return [self.last_seconds, self.last_replicas, hours]

    @classmethod
    def restored(cls, state: list[Any]) -> "ReplicaCounts":
        """Take up what `state` gave."""
        last_seconds, last_replicas, hours = state
        return cls(
            last_seconds, last_replicas, {hour: ReplicaHour(*parts) for hour, *parts in hours}
        )
