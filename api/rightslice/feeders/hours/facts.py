"""Collects what readings tell of slices, workloads, ports and incidents, hour by hour.

A value's name is its row's field; where its parts must be kept apart until the row is made, such
as the seconds of each reason, a slash and the part follow: "throttled_seconds/sw_thermal".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.counter_state import dense, sparse
from rightslice.ledger.rows import Bins

PART = "/"

Entity = tuple[str, ...]


@dataclass(slots=True)
class Facts:
    """One thing's hour while it is being told; a value is there where it was told, if only as 0."""

    values: dict[str, float] = field(default_factory=dict)
    bins: dict[str, list[float]] = field(default_factory=dict)
    quality: list[str] = field(default_factory=list)

    def add(self, name: str, amount: float) -> None:
        self.values[name] = self.values.get(name, 0.0) + amount

    def see_peak(self, name: str, value: float) -> None:
        self.values[name] = max(self.values.get(name, value), value)

    def put(self, name: str, value: float) -> None:
        self.values[name] = value

    def add_to_bin(self, name: str, index: int, amount: float) -> None:
        bins = self.bins.get(name)
        if bins is None:
            bins = self.bins[name] = [0.0] * BIN_COUNT
        bins[index] += amount

    def note(self, flag: str) -> None:
        """Remember a doubt about this hour."""
        if flag not in self.quality:
            self.quality.append(flag)

    def seconds(self, name: str) -> float:
        """Give seconds that are none where nobody told of any."""
        return self.values.get(name, 0.0)

    def whole(self, name: str) -> int | None:
        value = self.values.get(name)
        return None if value is None else round(value)

    def parts(self, name: str) -> dict[str, float]:
        """Give a value's parts by their names."""
        start = name + PART
        return {
            key[len(start) :]: value for key, value in self.values.items() if key.startswith(start)
        }

    def histogram(self, name: str) -> Bins | None:
        return whole_bins(self.bins.get(name, ()))


def whole_bins(counts: Iterable[float]) -> Bins | None:
    """Give a histogram's counts, None for an empty one.

    Differences of floats may leave a trace below zero.
    """
    counts = tuple(max(count, 0.0) for count in counts)
    return counts if any(counts) else None


@dataclass(slots=True)
class FactTable:
    """The open hours of all things of one kind."""

    hours: dict[int, dict[Entity, Facts]] = field(default_factory=dict)
    # What was told something since it was last written.
    changed: dict[int, set[Entity]] = field(default_factory=dict, compare=False)

    def at(self, entity: Entity, hour: int) -> Facts:
        """Give a thing's hour, made when first asked for."""
        self.changed.setdefault(hour, set()).add(entity)
        things = self.hours.setdefault(hour, {})
        facts = things.get(entity)
        if facts is None:
            facts = things[entity] = Facts()
        return facts

    def told(
        self, hours: Iterable[int], *, changed_only: bool = False
    ) -> Iterator[tuple[int, Entity, Facts]]:
        """Give what was told in some hours, in order."""
        for hour in hours:
            things = self.hours.get(hour, {})
            chosen = self.changed.get(hour, set()) & things.keys() if changed_only else things
            for entity in sorted(chosen):
                yield hour, entity, things[entity]

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.hours = {known: told for known, told in self.hours.items() if known >= hour}
        self.changed = {known: told for known, told in self.changed.items() if known >= hour}

    def forget_from(self, hour: int) -> None:
        """Drop an hour and all after it."""
        self.hours = {known: told for known, told in self.hours.items() if known < hour}
        self.changed = {known: told for known, told in self.changed.items() if known < hour}

    def state(self, from_hour: int) -> dict[str, Any]:
        """Give the hours from one on, in a shape that JSON can hold: names stand there once."""
        numbers: dict[str, int] = {}
        hours = {
            str(hour): [_written(entity, facts, numbers) for entity, facts in things.items()]
            for hour, things in self.hours.items()
            if hour >= from_hour
        }
        return {"names": list(numbers), "hours": hours}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        names = state["names"]
        self.hours = {
            int(hour): {
                tuple(entity): Facts(
                    {names[number]: value for number, value in zip(*values, strict=True)},
                    {names[number]: list(dense(kept)) for number, kept in bins},
                    quality,
                )
                for entity, values, bins, quality in rows
            }
            for hour, rows in state["hours"].items()
        }


def _written(entity: Entity, facts: Facts, numbers: dict[str, int]) -> tuple[Any, ...]:
    """Give a thing's hour with numbers for names, and without the empty bins."""
    values = [numbers.setdefault(name, len(numbers)) for name in facts.values]
    bins = [
        (numbers.setdefault(name, len(numbers)), sparse(counts))
        for name, counts in facts.bins.items()
    ]
    return entity, (values, list(facts.values.values())), bins, facts.quality
