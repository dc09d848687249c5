"""What a workload needs of a card, and whether a tier gives it. Decided by rank, not by fit."""

from dataclasses import dataclass
from fractions import Fraction

from rightslice.advice.policy import Policy
from rightslice.contract.histogram import edge_at_or_below, mean_at_most, share_at_or_below
from rightslice.profile.profile import Signal, UsageProfile

SECONDS_PER_MINUTE = 60.0
# Shares are sums of floats; a rank missed by less than this is met.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes, and the quantile of compute for people to read (a ratio of the whole card).

    `memory_bytes` is None where the need cannot be seen; `compute_*` are None without a signal.
    """

    memory_peak_bytes: int | None
    memory_headroom_ratio: float
    memory_bytes: int | None
    compute_rank: float
    compute_factor: float
    compute_quantile_ratio: float | None
    compute_quantile_low_ratio: float | None
    compute_quantile_high_ratio: float | None


@dataclass(frozen=True, slots=True)
class ComputeFit:
    """Whether a share of the card's compute is enough, with the numbers it was decided by.

    `share_of_time_ratio` is the exact share of observed time at or below `edge_ratio`, the highest
    histogram edge not above the share divided by the headroom factor. `is_borderline` says that a
    finer histogram might have decided the other way. `mean_ratio` is a bound that the mean demand
    is not above.
    """

    fits: bool
    available_ratio: float
    edge_ratio: float | None
    share_of_time_ratio: float | None
    minutes_above_per_day: float | None
    is_borderline: bool
    mean_ratio: float | None = None
    mean_fits: bool = True


def needs_of(profile: UsageProfile, policy: Policy) -> Needs:
    """Work out a workload's needs from its profile."""
    headroom = policy.memory_headroom(profile.observed_hours)
    peak_bytes = profile.memory_used_peak_bytes
    compute = profile.compute_quantile(policy.compute.rank)
    return Needs(
        memory_peak_bytes=peak_bytes,
        memory_headroom_ratio=float(headroom),
        memory_bytes=None
        if peak_bytes is None or profile.memory_is_pre_allocated
        else int(peak_bytes * (1 + headroom)),
        compute_rank=policy.compute.rank,
        compute_factor=float(policy.compute.factor),
        compute_quantile_ratio=compute[0] if compute else None,
        compute_quantile_low_ratio=compute[1] if compute else None,
        compute_quantile_high_ratio=compute[2] if compute else None,
    )


def compute_fit(profile: UsageProfile, available: Fraction, policy: Policy) -> ComputeFit:
    """Tell whether `available`, a share of the present card, is enough compute.

    It is when at least `rank` of the observed means lie at or below the share divided by the
    headroom factor, and the mean at or below the share itself: where more is asked for over the
    day than a tier can do, the work left over never ends. A busy gauge in place of SM activity is
    an upper bound: it decides as if every busy second were a full one.
    """
    if profile.signal is Signal.NONE:
        return ComputeFit(False, float(available), None, None, None, False)
    limit = float(available / policy.compute.factor)
    edge = edge_at_or_below(limit)
    bins = profile.compute_bin_seconds
    above = minutes_above_per_day(profile, float(available))
    if edge is None:
        return ComputeFit(False, float(available), None, None, above, False)
    share = share_at_or_below(bins, edge)
    mean = mean_at_most(bins)
    mean_fits = mean <= float(available) + RANK_TOLERANCE
    by_rank = share >= policy.compute.rank - RANK_TOLERANCE
    is_exact = abs(edge - limit) <= 1e-9 or limit >= 1.0
    quantile = profile.compute_quantile(policy.compute.rank)
    maybe = not by_rank and not is_exact and quantile is not None and quantile[0] <= limit
    return ComputeFit(
        fits=by_rank and mean_fits,
        available_ratio=float(available),
        edge_ratio=edge,
        share_of_time_ratio=share,
        minutes_above_per_day=above,
        is_borderline=maybe,
        mean_ratio=mean,
        mean_fits=mean_fits or not by_rank,
    )


def minutes_above_per_day(profile: UsageProfile, available_ratio: float) -> float | None:
    """Back-test: minutes of an observed day in which the workload would have been stretched."""
    edge = edge_at_or_below(min(available_ratio, 1.0))
    if edge is None:
        return None
    share = share_at_or_below(profile.compute_bin_seconds, edge)
    return max(1.0 - share, 0.0) * 24 * SECONDS_PER_MINUTE
