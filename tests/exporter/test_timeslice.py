"""The estimate of wait: its limits, what it makes of odd blocks, and what always holds."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.timeslice import (
    Block,
    block_seconds,
    is_inconsistent,
    reserved_slot_wait,
    waits,
)

# So many that nothing is left to correct.
MANY_SAMPLES = 10**6
ROUNDING = 1e-9


def block(
    *busy_ratios: float,
    device: float | None = None,
    sample_count: int = MANY_SAMPLES,
    samples: Sequence[float] = (),
    switches: float | None = None,
) -> Block[int]:
    """Give a block whose contexts are numbered; the card is as busy as they are together."""
    return Block(dict(enumerate(busy_ratios)), device, sample_count, samples, switches)


def wait_ratios(one: Block[int]) -> list[float]:
    return [wait.wait_ratio for wait in waits(one).values()]


def test_one_context_never_waits_and_could_not() -> None:
    (alone,) = waits(block(0.7, device=0.9)).values()

    assert (alone.busy_ratio, alone.wait_ratio, alone.upper_bound_ratio) == (0.7, 0.0, 0.0)
    assert not alone.may_be_low


def test_a_card_without_contexts_has_no_waits() -> None:
    assert waits(block()) == {}


def test_where_nobody_was_seen_busy_nobody_waits() -> None:
    assert wait_ratios(block(0.0, 0.0, 0.0, sample_count=0, samples=[0.0] * 36)) == [0.0] * 3


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_those_who_always_have_work_wait_whenever_they_are_not_served(count: int) -> None:
    assert wait_ratios(block(*[1 / count] * count)) == pytest.approx([1 - 1 / count] * count)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_on_a_full_card_the_time_for_switching_is_wait_too(count: int) -> None:
    full = block(*[0.96 / count] * count, device=1.0)

    assert wait_ratios(full) == pytest.approx([1 - 0.96 / count] * count)


def test_at_light_load_one_waits_where_busy_times_meet_by_chance() -> None:
    assert wait_ratios(block(0.010, 0.020)) == pytest.approx([0.0002, 0.0002], rel=0.05)


def test_equal_contexts_wait_equally() -> None:
    first, *others = wait_ratios(block(0.15, 0.15, 0.15, 0.15))

    assert others == pytest.approx([first] * 3)


def test_half_of_the_time_for_switching_is_counted_unless_the_card_is_full() -> None:
    without, with_all = (wait_ratios(block(0.3, 0.3, device=device))[0] for device in (0.6, 0.7))
    stretched = wait_ratios(block(0.35, 0.35))[0] + 0.05

    assert with_all == pytest.approx((without + stretched) / 2)


def test_few_samples_are_corrected_by_one_in_their_number() -> None:
    few, many = block(0.3, 0.2, sample_count=21), block(0.3, 0.2)

    assert wait_ratios(few) == pytest.approx([1.05 * wait for wait in wait_ratios(many)])


def test_unequal_samples_of_a_full_card_are_seen_to_be_chance() -> None:
    sampled = block(0.4, 0.6, sample_count=36)

    assert sum(wait_ratios(sampled)) > sum(wait_ratios(replace(sampled, sample_count=0)))


def test_a_pause_of_all_is_no_time_to_wait_in() -> None:
    in_bursts = [1.0] * 18 + [0.0] * 18
    at_once, spread = (block(0.25, 0.25, samples=samples) for samples in (in_bursts, [0.5] * 36))

    assert wait_ratios(at_once) == pytest.approx([0.25, 0.25])
    assert wait_ratios(spread) == pytest.approx([1 / 12, 1 / 12], abs=1e-6)


def test_single_idle_samples_are_no_pause() -> None:
    assert wait_ratios(block(0.25, 0.25, samples=[1.0, 0.0, 0.0] * 12)) == pytest.approx(
        wait_ratios(block(0.25, 0.25))
    )


def test_without_the_card_s_own_busy_time_the_contexts_are_all_there_is() -> None:
    assert waits(block(0.3, 0.4)) == waits(block(0.3, 0.4, device=0.7))


def test_contexts_that_are_more_than_the_card_are_scaled_to_it() -> None:
    scaled = waits(block(0.6, 0.3, device=0.6))

    assert [wait.busy_ratio for wait in scaled.values()] == pytest.approx([0.4, 0.2])


def test_contexts_without_the_card_s_own_are_at_most_a_whole_card() -> None:
    assert sum(wait.busy_ratio for wait in waits(block(0.9, 0.9)).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param(0.9, True, id="the card tells much more"),
        pytest.param(0.1, True, id="the card tells much less"),
        pytest.param(0.7, False, id="switching"),
        pytest.param(None, False, id="the card tells nothing"),
    ],
)
def test_sources_that_are_far_apart_are_told(device: float | None, *, expected: bool) -> None:
    assert is_inconsistent(block(0.2, 0.3, device=device)) is expected


def test_a_card_much_busier_than_its_contexts_is_not_believed() -> None:
    assert waits(block(0.2, 0.3, device=0.9)) == waits(block(0.2, 0.3))


def test_more_contexts_than_samples_are_no_failure() -> None:
    crowded = block(*[0.01] * 50, device=0.5, sample_count=3, samples=[0.5] * 3, switches=90.0)

    assert all(0 <= wait.wait_ratio <= wait.upper_bound_ratio for wait in waits(crowded).values())


# What the counter of switches adds.

LONG_KERNELS = [0.2, 1.0] * 18


def test_many_switches_beside_long_kernels_are_short_turns_that_waited_for_slices() -> None:
    beside = block(0.62, 0.10, samples=LONG_KERNELS)
    _, estimated = wait_ratios(beside)
    _, by_turns = wait_ratios(replace(beside, switches_per_second=200.0))

    assert estimated < 0.08
    assert 100 * 0.5 * 0.002 < by_turns < 100 * 0.002


def test_with_two_on_a_card_one_that_was_not_seen_is_known_by_its_switches() -> None:
    one = block(0.6, 0.0, samples=LONG_KERNELS)
    (_, unseen), (_, idle) = (
        wait_ratios(replace(one, switches_per_second=switches)) for switches in (100.0, 0.0)
    )

    assert unseen > 50 * 0.5 * 0.002
    assert idle == 0.0


def test_one_that_is_idle_gets_none_of_the_others_switches() -> None:
    _, light, idle = wait_ratios(block(0.62, 0.10, 0.0, samples=LONG_KERNELS, switches=200.0))

    assert light > 0.08
    assert idle == 0.0


def test_where_all_kernels_are_short_switches_raise_nothing() -> None:
    even = block(0.5, 0.1, samples=[0.58, 0.62] * 18)

    assert wait_ratios(replace(even, switches_per_second=900.0)) == wait_ratios(even)


def test_without_switches_nobody_waits() -> None:
    apart = block(0.25, 0.25, samples=[0.5] * 36, switches=0.2)

    assert max(wait_ratios(apart)) <= 0.2 * 0.030


@pytest.mark.parametrize(
    "switches", [pytest.param(0.1, id="fewer than contexts"), pytest.param(1e9, id="impossible")]
)
def test_a_counter_that_cannot_be_right_is_not_believed(switches: float) -> None:
    assert waits(block(0.3, 0.2, 0.1, switches=switches)) == waits(block(0.3, 0.2, 0.1))


@pytest.mark.parametrize(
    ("busy_ratios", "samples", "switches", "marked"),
    [
        pytest.param((0.6, 0.1), LONG_KERNELS, None, [False, True], id="light beside heavy"),
        pytest.param((0.6, 0.0), LONG_KERNELS, None, [False, True], id="not seen beside heavy"),
        pytest.param((0.6, 0.1), LONG_KERNELS, 90.0, [False, False], id="switches are counted"),
        pytest.param((0.3, 0.3), LONG_KERNELS, None, [False, False], id="equals"),
        pytest.param((0.6, 0.1), [0.7] * 36, None, [False, False], id="short kernels only"),
        pytest.param((0.9, 0.1), [1.0] * 36, None, [False, True], id="a full card"),
    ],
)
def test_an_estimate_that_may_be_low_is_marked(
    busy_ratios: tuple[float, ...],
    samples: Sequence[float],
    switches: float | None,
    marked: Sequence[bool],
) -> None:
    told = waits(block(*busy_ratios, samples=samples, switches=switches))

    assert [wait.may_be_low for wait in told.values()] == marked


# Blocks and reserved slots.


@pytest.mark.parametrize(
    ("context_count", "seconds"),
    [(0, 5.0), (2, 5.0), (9, 5.0), (12, 48 / 7.2), (15, 8.0), (99, 8.0)],
)
def test_a_block_is_long_enough_for_its_contexts_and_short_enough_for_the_driver(
    context_count: int, seconds: float
) -> None:
    assert block_seconds(context_count) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("busy_ratio", "share", "wait_ratio"),
    [
        pytest.param(0.0, 0.25, 0.0, id="idle"),
        pytest.param(0.1, 0.25, 0.3, id="three parts wait for each that is served"),
        pytest.param(0.25, 0.25, 0.75, id="always work"),
        pytest.param(0.6, 0.5, 0.4, id="more than its share"),
        pytest.param(0.7, 1.0, 0.0, id="the whole card"),
    ],
)
def test_with_slots_of_its_own_a_vgpu_waits_for_its_slot(
    busy_ratio: float, share: float, wait_ratio: float
) -> None:
    assert reserved_slot_wait(busy_ratio, share) == pytest.approx(wait_ratio)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=f"share of a vGPU.*got {share}"):
        reserved_slot_wait(0.1, share)


# What always holds.

ratios = st.floats(0.0, 1.0)
blocks = st.builds(
    Block,
    busy_ratios=st.dictionaries(st.integers(0, 20), ratios, max_size=10),
    device_busy_ratio=st.none() | ratios,
    sample_count=st.integers(0, 60),
    device_samples=st.lists(ratios | st.just(0.0) | st.just(1.0), max_size=60),
    switches_per_second=st.none() | st.floats(0.0),
)


@given(blocks)
def test_a_wait_is_never_below_0_nor_above_its_bound(one: Block[int]) -> None:
    for wait in waits(one).values():
        assert 0 <= wait.wait_ratio <= wait.upper_bound_ratio
        assert wait.busy_ratio + wait.upper_bound_ratio <= 1 + ROUNDING


@given(blocks)
def test_contexts_are_never_busier_than_their_card(one: Block[int]) -> None:
    told = one.device_busy_ratio
    most = 1.0 if told is None else told

    assert sum(wait.busy_ratio for wait in waits(one).values()) <= most + ROUNDING


@given(blocks, st.randoms(use_true_random=False))
def test_the_order_of_contexts_plays_no_part(one: Block[int], random: Random) -> None:
    items = list(one.busy_ratios.items())
    random.shuffle(items)

    other = waits(replace(one, busy_ratios=dict(items)))

    for key, wait in waits(one).items():
        assert other[key].wait_ratio == pytest.approx(wait.wait_ratio, abs=1e-6)


@given(ratios, st.floats(0.001, 1.0))
def test_a_vgpu_is_never_busy_and_waiting_for_more_than_all_the_time(
    busy_ratio: float, share: float
) -> None:
    assert 0 <= reserved_slot_wait(busy_ratio, share) <= 1 - busy_ratio


@pytest.mark.parametrize("sample_seconds", [1 / 7.2, 1 / 6, 1.0])
def test_a_pause_is_as_long_whatever_a_sample_stands_for(sample_seconds: float) -> None:
    count = round(5 / sample_seconds)
    half_idle = [1.0] * (count - count // 2) + [0.0] * (count // 2)
    busy_share = sum(half_idle) / len(half_idle)
    block = Block(
        {0: busy_share / 2, 1: busy_share / 2},
        busy_share,
        1_000_000,
        half_idle,
        device_sample_seconds=sample_seconds,
    )

    # While the card is not idle both always want it.
    assert waits(block)[0].wait_ratio == pytest.approx(busy_share / 2)
