"""What a simulated card does over time: the same for the same scenario and second, every run."""

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
