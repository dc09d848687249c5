"""What a simulated card does over time: the same for the same scenario and second, every run."""

import math
from dataclasses import dataclass

NOISE_STEP_SECONDS = 60.0
_MASK = 0xFFFFFFFF


def noise(seed: int, step: int) -> float:
    """Give a number in [0, 1) that looks random and is not: a 32-bit integer hash."""
    bits = (step * 0x9E3779B1 + seed * 0x85EBCA77) & _MASK
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & _MASK
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & _MASK
    return (bits ^ (bits >> 15)) / (_MASK + 1)


@dataclass(frozen=True, slots=True)
class Peak:
    """A level reached for `for_seconds` at the start of each `every_seconds`."""

    value: float
    every_seconds: float
    for_seconds: float

    def next_change(self, now_seconds: float) -> float:
        """Give the time at which the peak next starts or ends."""
        into_seconds = now_seconds % self.every_seconds
        left = self.for_seconds if into_seconds < self.for_seconds else self.every_seconds
        return now_seconds - into_seconds + left


@dataclass(frozen=True, slots=True)
class Level:
    """A value that wanders between `low` and `high`, a new one each minute."""

    low: float
    high: float
    peak: Peak | None = None
    seed: int = 0

    def at(self, now_seconds: float) -> float:
        peak = self.peak
        if peak is not None and now_seconds % peak.every_seconds < peak.for_seconds:
            return peak.value
        if self.low == self.high:
            return self.low
        step = int(now_seconds // NOISE_STEP_SECONDS)
        return self.low + (self.high - self.low) * noise(self.seed, step)

    def total(self, from_seconds: float, to_seconds: float) -> float:
        """Add the value up over time: watts give joules, a ratio gives seconds."""
        if self.peak is None and self.low == self.high:
            return self.low * (to_seconds - from_seconds)
        total, now_seconds = 0.0, from_seconds
        while now_seconds < to_seconds:
            until_seconds = min(self._next_change(now_seconds), to_seconds)
            total += self.at((now_seconds + until_seconds) / 2) * (until_seconds - now_seconds)
            now_seconds = until_seconds
        return total

    def mean(self, from_seconds: float, to_seconds: float) -> float:
        return self.total(from_seconds, to_seconds) / (to_seconds - from_seconds)

    def _next_change(self, now_seconds: float) -> float:
        change = (now_seconds // NOISE_STEP_SECONDS + 1) * NOISE_STEP_SECONDS
        if self.peak is not None:
            change = min(change, self.peak.next_change(now_seconds))
        # Rounding must not stop the walk.
        return max(change, math.nextafter(now_seconds, math.inf))
