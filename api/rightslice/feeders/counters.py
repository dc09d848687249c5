"""Differences counters ourselves: resets, first sights and gaps, without extrapolation."""

from collections.abc import Hashable
from dataclasses import dataclass, field

# A clock that runs 2 s ahead must not turn a plausible first value into an implausible one.
CLOCK_EXCESS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Growth:
    """How much a counter grew in (start, end], in wall seconds."""

    start_seconds: float
    end_seconds: float
    amount: float


@dataclass(slots=True)
class Target:
    """The last scrape of one exporter process, and the last value of each of its counters."""

    last_seconds: float | None = None
    process_start_seconds: float | None = None
    values: dict[Hashable, tuple[float, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Scrape:
    """One scrape of a target while it is being differenced."""

    target: Target
    now_seconds: float
    since_seconds: float | None
    restarted: bool

    def grow(self, key: Hashable, value: float, seconds_per_unit: float) -> Growth | None:
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
        since_seconds = self.since_seconds if before is None else before[0]
        if since_seconds is None:
            return None
        start_seconds = since_seconds
        if self.restarted and self.target.process_start_seconds is not None:
            # What a process counted, it counted after it started.
            start_seconds = max(since_seconds, self.target.process_start_seconds)
        possible = (self.now_seconds - start_seconds + CLOCK_EXCESS_SECONDS) / seconds_per_unit
        if value > possible:
            return None
        return Growth(start_seconds, self.now_seconds, value)


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
        and abs(process_start_seconds - known) > 1.0
    )
    if process_start_seconds is not None:
        target.process_start_seconds = process_start_seconds
    target.last_seconds = now_seconds
    return Scrape(target, now_seconds, since_seconds, restarted)
