"""What a card's use looks like over a window: coverage, needs' raw numbers, idle class."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rightslice.contract.histogram import bin_index, quantile, share_at_or_below, total_weight
from rightslice.profile.usage import CardUsage, Holder

SECONDS_PER_HOUR = 3600.0
# A serving engine's pool: memory flat at 70 % of the card and more. Flat: nine of ten hourly
# peaks within 2 % of the card below the maximum, and hardly a sample more than a bin below it.
PRE_ALLOCATED_RATIO = 0.70
FLAT_RATIO = 0.02
BELOW_POOL_SHARE = 0.05
# An idle CUDA context with its libraries takes some hundred MiB; a loaded model takes more.
CONTEXT_ONLY_BYTES = 1024**3
# "Zero compute" is less than one second in a thousand: a health check is not work.
NO_COMPUTE_RATIO = 0.001
# Rollouts put two pods of one service into one hour; sharers meet in many.
SHARED_HOURS_LEAST = 2
SHARED_HOURS_RATIO = 0.05
# Guidance of the price pages: below 30 % of its memory, a share is too big.
OVERSIZED_MEMORY_RATIO = 0.30
UNDERUSED_COMPUTE_RATIO = 0.5
# Below this share of its time, what a signal did not see may be what matters: it decides nothing.
LEAST_COVERAGE_RATIO = 0.8
# A better signal must have been there for most of the time in which the next one was.
BETTER_SIGNAL_RATIO = 0.9


class Signal(StrEnum):
    """Where the compute figure comes from, best first."""

    SM_ACTIVE = "sm_active"
    GR_ENGINE_ACTIVE = "gr_engine_active"
    BUSY = "busy"
    NONE = "none"


class IdleClass(StrEnum):
    """Why a card's money is or is not well spent."""

    UNKNOWN = "unknown"
    UNALLOCATED = "unallocated"
    NEVER_USED = "never_used"
    PARKED = "parked"
    UNDERUSED = "underused"
    OVERSIZED_MEMORY = "oversized_vram"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class UsageProfile:
    """One card over one window. Bins are seconds at each level of the contract's edges."""

    uuid: str
    node: str
    card_name: str
    source: str
    start: datetime
    # When the card was last seen; its start where it never was.
    end: datetime
    observed_hours: float
    # Shares of the card's time in which memory, holders and compute were observed.
    coverage_ratio: float
    holder_coverage_ratio: float
    compute_coverage_ratio: float
    memory_total_bytes: int | None
    memory_used_peak_bytes: int | None
    memory_is_pre_allocated: bool
    signal: Signal
    compute_bin_seconds: tuple[float, ...]
    compute_interval_seconds: float
    busy_ratio: float | None
    allocated_ratio: float | None
    idle_class: IdleClass
    holders: tuple[Holder, ...]
    is_shared: bool
    most_cards: int
    quality: tuple[str, ...]

    def compute_quantile(self, rank: float) -> tuple[float, float, float] | None:
        """Interpolate for people: (value, lower edge, upper edge); None without a signal."""
        if self.signal is Signal.NONE:
            return None
        return quantile(self.compute_bin_seconds, rank)

    def share_of_time_at_or_below(self, edge: float) -> float | None:
        """Give the exact share of observed time with compute at or below a contract edge."""
        if self.signal is Signal.NONE:
            return None
        return share_at_or_below(self.compute_bin_seconds, edge)


def usage_profile(usage: CardUsage) -> UsageProfile:
    """Describe one card's use from its sums."""
    signal, bins = _compute_signal(usage)
    observed_seconds = float(usage.observed_seconds)
    owned_seconds = float(usage.owned_seconds)
    busy_seen_seconds = float(usage.busy_observed_seconds)
    busy_ratio = float(usage.kernel_seconds) / busy_seen_seconds if busy_seen_seconds else None
    known_seconds = float(usage.owned_seconds - usage.unknown_seconds)
    allocated_ratio = float(usage.allocated_seconds) / known_seconds if known_seconds else None

    def coverage(seconds: float) -> float:
        return min(seconds / owned_seconds, 1.0) if owned_seconds else 0.0

    return UsageProfile(
        uuid=usage.uuid,
        node=usage.node,
        card_name=usage.name,
        source=usage.source,
        start=usage.first_hour,
        end=usage.observed_until or usage.first_hour,
        observed_hours=observed_seconds / SECONDS_PER_HOUR,
        coverage_ratio=coverage(observed_seconds),
        holder_coverage_ratio=coverage(known_seconds),
        compute_coverage_ratio=coverage(total_weight(bins)),
        memory_total_bytes=usage.memory_total_bytes,
        memory_used_peak_bytes=usage.memory_used_peak_bytes,
        memory_is_pre_allocated=is_pre_allocated(usage),
        signal=signal,
        compute_bin_seconds=bins,
        compute_interval_seconds=usage.compute_interval_seconds,
        busy_ratio=busy_ratio,
        allocated_ratio=allocated_ratio,
        idle_class=_idle_class(
            usage, bins, busy_ratio, coverage(known_seconds), coverage(busy_seen_seconds)
        ),
        holders=usage.holders,
        is_shared=usage.shared_hour_count
        > max(SHARED_HOURS_LEAST, SHARED_HOURS_RATIO * usage.hour_count),
        most_cards=max((holder.most_cards for holder in usage.holders), default=1),
        quality=usage.quality,
    )


def is_pre_allocated(usage: CardUsage) -> bool:
    """Tell whether memory is an engine's pool, of which the true need cannot be seen."""
    total, peak = usage.memory_total_bytes, usage.memory_used_peak_bytes
    low, bins = usage.memory_peak_low_bytes, usage.memory_seconds
    if not total or peak is None or low is None or not bins:
        return False
    # A pool may stand on an edge, so the bin below its own is taken for it as well.
    below = sum(bins[: max(bin_index(peak / total) - 1, 0)])
    return (
        peak >= PRE_ALLOCATED_RATIO * total
        and peak - low <= FLAT_RATIO * total
        and below <= BELOW_POOL_SHARE * total_weight(bins)
    )


def _compute_signal(usage: CardUsage) -> tuple[Signal, tuple[float, ...]]:
    """Choose the most trusted signal that was observed for most of the time."""
    sm_seconds = total_weight(usage.sm_active_bin_seconds)
    busy_seconds = total_weight(usage.busy_bin_seconds)
    if sm_seconds and sm_seconds >= BETTER_SIGNAL_RATIO * busy_seconds:
        return Signal.SM_ACTIVE, usage.sm_active_bin_seconds
    if not busy_seconds:
        return Signal.NONE, ()
    if usage.busy_signal == Signal.GR_ENGINE_ACTIVE:
        return Signal.GR_ENGINE_ACTIVE, usage.busy_bin_seconds
    return Signal.BUSY, usage.busy_bin_seconds


def _idle_class(
    usage: CardUsage,
    bins: tuple[float, ...],
    busy_ratio: float | None,
    holder_coverage_ratio: float,
    busy_coverage_ratio: float,
) -> IdleClass:
    if not usage.observed_seconds or holder_coverage_ratio < LEAST_COVERAGE_RATIO:
        return IdleClass.UNKNOWN
    if not usage.allocated_seconds:
        return IdleClass.UNALLOCATED
    if busy_ratio is None or busy_coverage_ratio < LEAST_COVERAGE_RATIO:
        return IdleClass.UNKNOWN
    peak_bytes, total_bytes = usage.memory_used_peak_bytes, usage.memory_total_bytes
    if busy_ratio <= NO_COMPUTE_RATIO and peak_bytes is not None:
        context_only = peak_bytes <= CONTEXT_ONLY_BYTES
        return IdleClass.NEVER_USED if context_only else IdleClass.PARKED
    if bins and quantile(bins, 0.95)[0] <= UNDERUSED_COMPUTE_RATIO:
        return IdleClass.UNDERUSED
    if peak_bytes and total_bytes and peak_bytes <= OVERSIZED_MEMORY_RATIO * total_bytes:
        return IdleClass.OVERSIZED_MEMORY
    return IdleClass.OK
