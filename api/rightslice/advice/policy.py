"""The thresholds of advice, each with its reason. They are settings, never constants in code."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from rightslice.profile.profile import LEAST_COVERAGE_RATIO


class Isolation(StrEnum):
    """How far a tenant is kept from its neighbours, weakest first."""

    SOFT = "soft"
    VM = "vm"
    HARD = "hard"


ISOLATION_ORDER = tuple(Isolation)


@dataclass(frozen=True, slots=True)
class ComputePolicy:
    """Compute need = the quantile at `rank` of 60 s means, times `factor`."""

    rank: float
    factor: Fraction


# Compute can be squeezed: a burst above its share is stretched, not killed. Measured on a public
# serving trace, sizing by p95 x 1.2 left 0.07 % of later minutes above the slice.
COMPUTE_POLICIES: dict[str, ComputePolicy] = {
    "balanced": ComputePolicy(0.95, Fraction(6, 5)),
    "latency": ComputePolicy(0.99, Fraction(6, 5)),
    "batch": ComputePolicy(0.90, Fraction(1)),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the advice may rest on and how much room it leaves."""

    compute: ComputePolicy = COMPUTE_POLICIES["balanced"]
    required_isolation: Isolation = Isolation.VM
    # Below 12 h the maximum of the next hours was missed for one pod in eight of that trace.
    least_observed_hours: float = 12.0
    # Below 80 % of its life, what was not seen may be what matters.
    least_coverage_ratio: float = LEAST_COVERAGE_RATIO
    # An exporter that fell silent is mended within hours; a card not seen for longer may have
    # ended, and what has ended saves nothing.
    gone_after_hours: float = 6.0
    # Memory cannot be squeezed: the maximum counts, and more room the shorter the history.
    memory_headroom_ratio: float = 0.10
    memory_headroom_below_week_ratio: float = 0.20
    memory_headroom_below_day_ratio: float = 0.30

    def memory_headroom(self, observed_hours: float) -> Fraction:
        """Give the headroom above the memory maximum, by the length of the history."""
        if observed_hours >= 7 * 24:
            return Fraction(str(self.memory_headroom_ratio))
        if observed_hours >= 24:
            return Fraction(str(self.memory_headroom_below_week_ratio))
        return Fraction(str(self.memory_headroom_below_day_ratio))


DEFAULT_POLICY = Policy()
