"""Differences counters ourselves: resets, first sights and gaps, without extrapolation."""

from dataclasses import dataclass, field
from typing import NamedTuple

# A clock that runs 2 s ahead must not turn a plausible first value into an implausible one.
CLOCK_EXCESS_SECONDS = 2.0
# One missed scrape, and a late one, are everyday; a counter that grew unseen for longer was read
# again after an outage.
BRIDGED_INTERVALS = 2.5
# A process that is started anew starts later than that.
RESTART_SECONDS = 1.0

Bins = tuple[float, ...]
# A metric's name and the values of its labels.
Key = tuple[str, ...]


class Growth(NamedTuple):
    """How much a counter grew in (start, end], in wall seconds."""

    start_seconds: float
    end_seconds: float
    amount: float

    def is_bridged(self, usual_interval_seconds: float) -> bool:
        """Tell whether this spans an outage: nobody saw how it was spread over its time."""
        span_seconds = self.end_seconds - self.start_seconds
        return span_seconds > BRIDGED_INTERVALS * usual_interval_seconds


@dataclass(frozen=True, slots=True)
class BinGrowth:
    """How much each bin of a histogram grew in (start, end], in wall seconds."""

    start_seconds: float
    end_seconds: float
    amounts: Bins


@dataclass(frozen=True, slots=True)
class KeyText:
    """The keys of series, and how they are written into a state."""

    keys: list[Key] = field(default_factory=list)
    text: str = "[[],[]]"


@dataclass(slots=True)
class Target:
    """The last scrape of one exporter process, and the last value of each of its counters.

    Of a histogram the bins are kept together: each bin's own count, not what lies below it.
    """

    last_seconds: float | None = None
    process_start_seconds: float | None = None
    values: dict[Key, tuple[float, float]] = field(default_factory=dict)
    bins: dict[Key, tuple[float, Bins]] = field(default_factory=dict)
    value_keys: KeyText = field(default_factory=KeyText, compare=False)
    bin_keys: KeyText = field(default_factory=KeyText, compare=False)


@dataclass(slots=True)
class Scrape:
    """One scrape of a target while it is being differenced."""

    target: Target
    now_seconds: float
    since_seconds: float | None
    restarted: bool

    def grow(self, key: Key, value: float, seconds_per_unit: float) -> Growth | None:
        """Difference one counter; None where nothing can be said of the time before.

        `seconds_per_unit` is the least time in which the counter can grow by one. A counter seen
        for the first time on a known target, or after a restart, counts from 0 where that is
        possible in the time since the target's last scrape.
        """
        before = self.target.values.get(key)
        self.target.values[key] = (self.now_seconds, value)
        if before is not None and not self.restarted:
            if before[0] >= self.now_seconds:
                self.target.values[key] = before
                return None
            if value >= before[1]:
                return Growth(before[0], self.now_seconds, value - before[1])
        start_seconds = self._began_seconds(before[0] if before else None, value * seconds_per_unit)
        return None if start_seconds is None else Growth(start_seconds, self.now_seconds, value)

    def grow_bins(self, key: Key, counts: Bins, interval_seconds: float) -> BinGrowth | None:
        """Difference a histogram of which each observation stands for an interval.

        None where nothing can be said, and where nothing was observed.
        """
        before = self.target.bins.get(key)
        self.target.bins[key] = (self.now_seconds, counts)
        if before is not None and not self.restarted:
            if before[0] >= self.now_seconds:
                self.target.bins[key] = before
                return None
            if before[1] == counts:
                return None
            grown = tuple(after - then for after, then in zip(counts, before[1], strict=True))
            if min(grown) >= 0:
                return BinGrowth(before[0], self.now_seconds, grown)
        needed_seconds = sum(counts) * interval_seconds
        start_seconds = self._began_seconds(before[0] if before else None, needed_seconds)
        if start_seconds is None or not needed_seconds:
            return None
        return BinGrowth(start_seconds, self.now_seconds, counts)

    def grow_register(self, key: Key, value: float, seconds_per_unit: float) -> Growth | None:
        """Difference what a device counts by itself, whoever reads it and since when.

        What it holds when it is first seen was counted before. A restart of the reader changes
        nothing, unless the register had wrapped and is told from its own start again: then, and
        where that cannot be excluded, nothing can be said. One that falls while it is watched was
        reset, and counts from 0.
        """
        before = self.target.values.get(key)
        self.target.values[key] = (self.now_seconds, value)
        if before is None:
            return None
        if before[0] >= self.now_seconds:
            self.target.values[key] = before
            return None
        amount = value - before[1]
        if amount < 0:
            was_watched = before[0] == self.since_seconds and not self.restarted
            if not was_watched:
                return None
            amount = value
        possible_seconds = self.now_seconds - before[0] + CLOCK_EXCESS_SECONDS
        if amount * seconds_per_unit > possible_seconds:
            return None
        return Growth(before[0], self.now_seconds, amount)

    def _began_seconds(self, before_seconds: float | None, needed_seconds: float) -> float | None:
        """Tell from when on a counter counted that stood at 0 then; None where it cannot have."""
        since_seconds = self.since_seconds if before_seconds is None else before_seconds
        if since_seconds is None:
            return None
        start_seconds = since_seconds
        if self.restarted and self.target.process_start_seconds is not None:
            # What a process counted, it counted after it started.
            start_seconds = max(since_seconds, self.target.process_start_seconds)
        possible_seconds = self.now_seconds - start_seconds + CLOCK_EXCESS_SECONDS
        return None if needed_seconds > possible_seconds else start_seconds


def open_scrape(
    target: Target, now_seconds: float, process_start_seconds: float | None
) -> Scrape | None:
    """Begin to take in a scrape; None for one that is not newer than the last."""
    since_seconds = target.last_seconds
    if since_seconds is not None and now_seconds <= since_seconds:
        return None
    known = target.process_start_seconds
    restarted = (
        known is not None
        and process_start_seconds is not None
        and abs(process_start_seconds - known) > RESTART_SECONDS
    )
    if process_start_seconds is not None:
        target.process_start_seconds = process_start_seconds
    target.last_seconds = now_seconds
    return Scrape(target, now_seconds, since_seconds, restarted)
