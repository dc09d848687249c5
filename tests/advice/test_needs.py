"""What a workload needs, and the rule of rank that decides whether a share is enough."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import GIB, usage_profile_of

from rightslice.advice.needs import ComputeFit, compute_fit, minutes_above_per_day, needs_of
from rightslice.advice.policy import COMPUTE_POLICIES, DEFAULT_POLICY, ComputePolicy, Policy
from rightslice.profile.profile import Signal

TWENTIETH = Fraction(1, 20)
# What a day has of minutes, times the share of the time above.
MINUTES_PER_DAY = 24 * 60

levels = st.dictionaries(
    st.floats(min_value=0, max_value=1), st.integers(1, 100), min_size=1, max_size=6
)
shares = st.fractions(min_value=Fraction(1, 1000), max_value=1)


@pytest.mark.parametrize(
    ("observed_hours", "headroom_ratio", "needed_gib"),
    [
        pytest.param(336, 0.10, 3.74, id="two weeks"),
        pytest.param(100, 0.20, 4.08, id="four days"),
        pytest.param(13, 0.30, 4.42, id="half a day"),
    ],
)
def test_memory_need_is_the_maximum_and_its_headroom(
    observed_hours: float, headroom_ratio: float, needed_gib: float
) -> None:
    needs = needs_of(usage_profile_of(observed_hours=observed_hours), DEFAULT_POLICY)

    assert needs.memory_peak_bytes == int(3.4 * GIB)
    assert needs.memory_headroom_ratio == headroom_ratio
    assert needs.memory_bytes == pytest.approx(needed_gib * GIB, abs=2)


def test_no_memory_used_is_a_need_of_zero_not_an_unknown_one() -> None:
    assert needs_of(usage_profile_of(memory_gib=0), DEFAULT_POLICY).memory_bytes == 0


def test_memory_never_read_is_an_unknown_need() -> None:
    profile = replace(usage_profile_of(), memory_used_peak_bytes=None)

    assert needs_of(profile, DEFAULT_POLICY).memory_bytes is None


def test_reserved_memory_is_an_unknown_need_that_keeps_its_peak() -> None:
    needs = needs_of(replace(usage_profile_of(), memory_is_pre_allocated=True), DEFAULT_POLICY)

    assert needs.memory_bytes is None
    assert needs.memory_peak_bytes == int(3.4 * GIB)


def test_compute_is_told_by_its_quantile_and_the_ends_of_its_bin() -> None:
    profile = usage_profile_of(compute={0.04: 0.948, 0.12: 0.05, 0.5: 0.002})

    needs = needs_of(profile, DEFAULT_POLICY)

    assert needs.compute_rank == 0.95
    assert needs.compute_factor == 1.2
    assert needs.compute_quantile_ratio == pytest.approx(0.12)
    assert needs.compute_quantile_low_ratio == 5 / 42
    assert needs.compute_quantile_high_ratio == 1 / 7


def test_compute_never_measured_is_an_unknown_need() -> None:
    profile = replace(usage_profile_of(), signal=Signal.NONE, compute_bin_seconds=())

    needs = needs_of(profile, DEFAULT_POLICY)

    assert needs.compute_quantile_ratio is None
    assert compute_fit(profile, TWENTIETH, DEFAULT_POLICY) == ComputeFit(
        False, 0.05, None, None, None, False
    )


@pytest.mark.parametrize(
    ("share_of_time", "fits"),
    [
        pytest.param(0.96, True, id="96 % of the minutes"),
        pytest.param(0.95, True, id="95 %"),
        pytest.param(0.949, False, id="94.9 %"),
    ],
)
@pytest.mark.parametrize("level", [0.032, 1 / 24], ids=["within the bin", "on the edge"])
def test_a_twentieth_is_enough_when_95_percent_of_the_means_are_at_or_below_a_24th(
    share_of_time: float, fits: bool, level: float
) -> None:
    profile = usage_profile_of(compute={level: share_of_time, 0.1: 1 - share_of_time})

    fit = compute_fit(profile, TWENTIETH, DEFAULT_POLICY)

    assert fit.fits is fits
    assert fit.edge_ratio == 1 / 24
    assert fit.share_of_time_ratio == pytest.approx(share_of_time)
    assert not fit.is_borderline


def test_a_tier_that_does_less_than_the_mean_demand_never_fits() -> None:
    burst = usage_profile_of(compute={0.04: 0.955, 1.0: 0.045})

    fit = compute_fit(burst, TWENTIETH, DEFAULT_POLICY)

    assert fit.share_of_time_ratio == pytest.approx(0.955)
    assert fit.mean_ratio == pytest.approx(0.955 / 24 + 0.045)
    assert (fit.fits, fit.mean_fits) == (False, False)


@pytest.mark.parametrize(
    ("name", "compute", "fits"),
    [
        pytest.param("latency", {0.04: 0.985, 0.1: 0.015}, False, id="latency asks for 99 %"),
        pytest.param("latency", {0.04: 0.99, 0.1: 0.01}, True, id="latency has 99 %"),
        pytest.param(
            "batch", {0.03: 0.50, 0.05: 0.40, 0.1: 0.10}, True, id="batch takes the whole share"
        ),
        pytest.param("batch", {0.05: 0.89, 0.3: 0.11}, False, id="batch asks for 90 %"),
        pytest.param("balanced", {0.05: 0.95, 0.3: 0.05}, False, id="balanced leaves headroom"),
    ],
)
def test_the_policy_sets_rank_and_headroom(
    name: str, compute: dict[float, float], fits: bool
) -> None:
    policy = Policy(compute=COMPUTE_POLICIES[name])

    assert compute_fit(usage_profile_of(compute=compute), TWENTIETH, policy).fits is fits


@pytest.mark.parametrize(
    ("compute", "fits", "is_borderline"),
    [
        pytest.param({0.03: 0.96, 0.1: 0.04}, True, False, id="enough at the lower edge"),
        pytest.param({0.02: 0.94, 0.035: 0.06}, False, True, id="perhaps enough"),
        pytest.param({0.02: 0.90, 0.2: 0.10}, False, False, id="certainly not enough"),
    ],
)
def test_a_factor_without_an_edge_takes_the_next_lower_one_and_says_so(
    compute: dict[float, float], fits: bool, is_borderline: bool
) -> None:
    policy = Policy(compute=ComputePolicy(0.95, Fraction(3, 2)))  # 1/30 is no edge

    fit = compute_fit(usage_profile_of(compute=compute), TWENTIETH, policy)

    assert (fit.edge_ratio, fit.fits, fit.is_borderline) == (0.03, fits, is_borderline)


def test_a_share_below_the_first_edge_is_never_enough() -> None:
    idle = usage_profile_of(compute={0.0: 1.0})

    fit = compute_fit(idle, Fraction(1, 200), DEFAULT_POLICY)

    assert (fit.fits, fit.edge_ratio, fit.minutes_above_per_day) == (False, None, None)


def test_the_whole_card_without_headroom_is_always_enough() -> None:
    policy = Policy(compute=ComputePolicy(1.0, Fraction(1)))

    fit = compute_fit(usage_profile_of(compute={1.0: 1.0}), Fraction(1), policy)

    assert fit.fits
    assert fit.minutes_above_per_day == 0


def test_a_busy_gauge_decides_as_if_every_busy_second_were_a_full_one() -> None:
    profile = replace(usage_profile_of(compute={0.3: 1.0}), signal=Signal.BUSY)

    assert not compute_fit(profile, TWENTIETH, DEFAULT_POLICY).fits


def test_the_back_test_counts_the_minutes_of_a_day_above_the_share() -> None:
    profile = usage_profile_of(compute={0.04: 0.95, 0.3: 0.05})

    assert minutes_above_per_day(profile, 0.05) == pytest.approx(0.05 * MINUTES_PER_DAY)
    assert minutes_above_per_day(profile, 1.0) == 0
    assert minutes_above_per_day(profile, 2.0) == 0


@settings(deadline=None)
@given(levels, shares, shares)
def test_a_larger_share_is_enough_wherever_a_smaller_one_is(
    compute: dict[float, float], first: Fraction, second: Fraction
) -> None:
    profile = usage_profile_of(compute=compute)

    small = compute_fit(profile, min(first, second), DEFAULT_POLICY)
    large = compute_fit(profile, max(first, second), DEFAULT_POLICY)

    assert large.fits or not small.fits


@settings(deadline=None)
@given(levels, shares)
def test_what_fits_is_never_borderline(compute: dict[float, float], share: Fraction) -> None:
    fit = compute_fit(usage_profile_of(compute=compute), share, DEFAULT_POLICY)

    assert not (fit.fits and fit.is_borderline)
