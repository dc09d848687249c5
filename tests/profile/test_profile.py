"""What a card's use looks like: coverage, signal, reserved memory, idle class."""

from dataclasses import replace
from decimal import Decimal

import pytest
from support.usage import END, GIB, START, WINDOW_HOURS, bins, card_usage_of, holder

from rightslice.profile.profile import IdleClass, Signal, is_pre_allocated, usage_profile
from rightslice.profile.usage import CardUsage

SECONDS = Decimal(WINDOW_HOURS * 3600)
CHAT = card_usage_of()
NOTHING = replace(
    CHAT,
    observed_seconds=Decimal(0),
    unknown_seconds=SECONDS,
    busy_seconds=Decimal(0),
    idle_seconds=Decimal(0),
    busy_observed_seconds=Decimal(0),
    allocated_seconds=Decimal(0),
    busy_bin_seconds=(),
    sm_active_bin_seconds=(),
    busy_signal="",
)
FREE = replace(
    CHAT,
    unallocated_seconds=SECONDS,
    busy_seconds=Decimal(0),
    idle_seconds=Decimal(0),
    allocated_seconds=Decimal(0),
)
# A serving engine's pool: 36 of 40 GiB from its start to its end.
POOL = replace(
    CHAT,
    memory_used_peak_bytes=36 * GIB,
    memory_peak_low_bytes=36 * GIB,
    memory_seconds=bins({0.9: 1.0}, float(SECONDS)),
)


def test_the_profile_spans_its_hours_and_says_how_much_was_observed() -> None:
    usage = replace(CHAT, observed_seconds=SECONDS * 3 / 4)

    profile = usage_profile(usage)

    assert (profile.start, profile.end) == (START, END)
    assert profile.observed_hours == WINDOW_HOURS * 0.75
    assert profile.coverage_ratio == 0.75


def test_a_card_never_owned_has_no_coverage() -> None:
    usage = replace(NOTHING, owned_seconds=Decimal(0), unknown_seconds=Decimal(0))

    profile = usage_profile(usage)

    assert profile.coverage_ratio == 0.0
    assert profile.allocated_ratio is None


def test_busy_counts_against_the_time_in_which_it_was_observed() -> None:
    usage = replace(
        CHAT,
        kernel_seconds=Decimal(120),
        busy_observed_seconds=Decimal(480),
    )

    assert usage_profile(usage).busy_ratio == 0.25


def test_held_counts_against_the_time_in_which_holders_were_known() -> None:
    usage = replace(CHAT, unknown_seconds=SECONDS / 2, allocated_seconds=SECONDS / 4)

    assert usage_profile(usage).allocated_ratio == 0.5


def test_busy_that_nobody_observed_is_unknown_not_zero() -> None:
    assert usage_profile(NOTHING).busy_ratio is None


@pytest.mark.parametrize(
    ("usage", "signal"),
    [
        pytest.param(CHAT, Signal.SM_ACTIVE, id="SM activity first"),
        pytest.param(
            replace(CHAT, sm_active_bin_seconds=bins({0.03: 0.95}, float(SECONDS))),
            Signal.SM_ACTIVE,
            id="SM activity with a small gap",
        ),
        pytest.param(
            replace(CHAT, sm_active_bin_seconds=bins({0.03: 0.5}, float(SECONDS))),
            Signal.BUSY,
            id="SM activity half of the time only",
        ),
        pytest.param(
            replace(CHAT, sm_active_bin_seconds=(), busy_signal="gr_engine_active"),
            Signal.GR_ENGINE_ACTIVE,
            id="engine activity next",
        ),
        pytest.param(replace(CHAT, sm_active_bin_seconds=()), Signal.BUSY, id="busy gauge last"),
        pytest.param(replace(CHAT, busy_bin_seconds=()), Signal.SM_ACTIVE, id="SM activity alone"),
        pytest.param(NOTHING, Signal.NONE, id="nothing observed"),
    ],
)
def test_the_most_trusted_signal_that_was_observed_is_used(
    usage: CardUsage, signal: Signal
) -> None:
    assert usage_profile(usage).signal is signal


def test_without_a_signal_there_are_no_quantiles_and_no_shares() -> None:
    profile = usage_profile(NOTHING)

    assert profile.compute_quantile(0.95) is None
    assert profile.share_of_time_at_or_below(0.05) is None


def test_quantiles_come_with_the_edges_of_their_bin() -> None:
    profile = usage_profile(card_usage_of(compute={0.03: 0.5, 0.10: 0.5}))

    value, lower, upper = profile.compute_quantile(0.75) or (0, 0, 0)

    assert lower == 1 / 12
    assert upper == 0.10
    assert value == pytest.approx((lower + upper) / 2)
    assert profile.share_of_time_at_or_below(0.05) == 0.5


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(POOL, True, id="flat at 90 %"),
        pytest.param(
            replace(POOL, memory_used_peak_bytes=28 * GIB, memory_peak_low_bytes=28 * GIB),
            True,
            id="flat at 70 %",
        ),
        pytest.param(
            replace(POOL, memory_used_peak_bytes=28 * GIB - 1, memory_peak_low_bytes=28 * GIB - 1),
            False,
            id="flat just below 70 %",
        ),
        pytest.param(
            replace(POOL, memory_peak_low_bytes=int(35.2 * GIB) + 1), True, id="2 % of play"
        ),
        pytest.param(replace(POOL, memory_peak_low_bytes=35 * GIB), False, id="hourly peaks vary"),
        pytest.param(
            replace(POOL, memory_seconds=bins({0.9: 0.95, 0.3: 0.05}, float(SECONDS))),
            True,
            id="a restart now and then",
        ),
        pytest.param(
            replace(POOL, memory_seconds=bins({0.9: 0.94, 0.3: 0.06}, float(SECONDS))),
            False,
            id="often far below its peak",
        ),
        pytest.param(
            replace(POOL, memory_seconds=bins({0.9: 0.5, 0.8: 0.5}, float(SECONDS))),
            True,
            id="a pool on the edge of a bin",
        ),
        pytest.param(CHAT, False, id="small and flat"),
        pytest.param(replace(POOL, memory_seconds=()), False, id="no histogram"),
        pytest.param(replace(POOL, memory_total_bytes=None), False, id="total unknown"),
        pytest.param(replace(POOL, memory_used_peak_bytes=None), False, id="peak unknown"),
        pytest.param(replace(POOL, memory_peak_low_bytes=None), False, id="never held"),
    ],
)
def test_reserved_memory_is_told_by_its_flatness(usage: CardUsage, expected: bool) -> None:
    assert is_pre_allocated(usage) is expected
    assert usage_profile(usage).memory_is_pre_allocated is expected


@pytest.mark.parametrize(
    ("usage", "idle_class"),
    [
        pytest.param(NOTHING, IdleClass.UNKNOWN, id="nothing observed is not idle"),
        pytest.param(
            replace(CHAT, unknown_seconds=SECONDS, allocated_seconds=Decimal(0)),
            IdleClass.UNKNOWN,
            id="holders never known",
        ),
        pytest.param(
            replace(CHAT, busy_observed_seconds=Decimal(0)),
            IdleClass.UNKNOWN,
            id="held, but busy not observable",
        ),
        pytest.param(FREE, IdleClass.UNALLOCATED, id="held by nobody"),
        pytest.param(
            card_usage_of(memory_gib=1.0, busy_share=0.001),
            IdleClass.NEVER_USED,
            id="a context and no work",
        ),
        pytest.param(
            card_usage_of(memory_gib=0.0, busy_share=0.0),
            IdleClass.NEVER_USED,
            id="held and not even a context",
        ),
        pytest.param(
            card_usage_of(memory_gib=1.1, busy_share=0.001),
            IdleClass.PARKED,
            id="a model loaded and no work",
        ),
        pytest.param(CHAT, IdleClass.UNDERUSED, id="a little work"),
        pytest.param(
            card_usage_of(busy_share=0.9, compute={0.9: 1.0}),
            IdleClass.OVERSIZED_MEMORY,
            id="much work in little memory",
        ),
        pytest.param(
            card_usage_of(memory_gib=30, busy_share=0.9, compute={0.9: 1.0}),
            IdleClass.OK,
            id="much work in much memory",
        ),
        pytest.param(
            replace(card_usage_of(busy_share=0.0), memory_used_peak_bytes=None),
            IdleClass.UNDERUSED,
            id="no work, memory unknown: neither parked nor never used",
        ),
    ],
)
def test_the_idle_class_says_why_money_is_not_well_spent(
    usage: CardUsage, idle_class: IdleClass
) -> None:
    assert usage_profile(usage).idle_class is idle_class


def test_holders_and_compute_have_a_coverage_of_their_own() -> None:
    seen = tuple(second / 4 for second in CHAT.sm_active_bin_seconds)
    usage = replace(CHAT, unknown_seconds=SECONDS / 2, sm_active_bin_seconds=seen)

    profile = usage_profile(replace(usage, busy_bin_seconds=()))

    assert profile.coverage_ratio == 1.0
    assert profile.holder_coverage_ratio == 0.5
    assert profile.compute_coverage_ratio == pytest.approx(0.25)


def test_a_card_whose_holders_were_hardly_seen_is_of_no_idle_class() -> None:
    usage = replace(CHAT, allocated_seconds=Decimal(0), unknown_seconds=SECONDS - 60)

    assert usage_profile(usage).idle_class is IdleClass.UNKNOWN


def test_a_card_whose_kernels_were_hardly_seen_is_not_called_never_used() -> None:
    usage = replace(
        CHAT, memory_used_peak_bytes=1, kernel_seconds=Decimal(0), busy_observed_seconds=Decimal(60)
    )

    assert usage_profile(usage).idle_class is IdleClass.UNKNOWN


def test_kernels_of_nobody_known_still_make_a_card_busy() -> None:
    usage = replace(CHAT, busy_seconds=Decimal(0), kernel_seconds=SECONDS / 2)

    assert usage_profile(usage).busy_ratio == 0.5


@pytest.mark.parametrize(
    ("hour_count", "shared_hours", "is_shared"),
    [
        pytest.param(24, 2, False, id="a rollout"),
        pytest.param(24, 3, True, id="three of a day"),
        pytest.param(336, 16, False, id="rollouts of two weeks"),
        pytest.param(336, 17, True, id="one hour in twenty"),
        pytest.param(336, 0, False, id="never"),
    ],
)
def test_a_card_is_shared_when_workloads_meet_in_more_than_rollouts(
    hour_count: int, shared_hours: int, is_shared: bool
) -> None:
    usage = replace(CHAT, hour_count=hour_count, shared_hour_count=shared_hours)

    assert usage_profile(usage).is_shared is is_shared


def test_the_widest_job_of_the_window_counts() -> None:
    usage = replace(CHAT, holders=(holder("chat-0"), holder("ring-0", most_cards=8)))

    assert usage_profile(usage).most_cards == 8
    assert usage_profile(replace(CHAT, holders=())).most_cards == 1
