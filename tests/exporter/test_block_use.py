"""A block's use of a card, divided among workloads: nothing is lost, and nothing counted twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.block_use import MOST_SAMPLES, BlockUse, BusyBlock, use_of
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.tenancy import WHOLE_CARD, Key
from rightslice.exporter.timeslice import INCONSISTENT_RATIO, SAMPLES_PER_SECOND

TRAIN: Key = (WHOLE_CARD, Workload("pod", "team-a", "train-0", "main"))
CHAT: Key = (WHOLE_CARD, Workload("pod", "team-b", "chat-0", "engine"))
LINT: Key = (WHOLE_CARD, Workload("process", "ada", "python3"))
ROUNDING = 1e-9
SAMPLE_SECONDS = 1 / 6


def card(busy_ratio: float, sample_count: int = 30) -> BusyBlock:
    """Give 5 s of a card that was as busy in each of its samples."""
    block = BusyBlock()
    for _ in range(sample_count):
        block.add(5.0 / sample_count, busy_ratio)
    return block


def told(
    processes: dict[int, Key | None],
    shares: dict[int, float] | None,
    of_card: BusyBlock,
    switches_per_second: float | None = None,
) -> BlockUse:
    block = use_of(processes, shares, of_card, switches_per_second)
    assert block is not None
    return block


def busy_ratios(block: BlockUse) -> dict[Key, float]:
    return {key: use.busy_ratio for key, use in block.by_workload.items()}


# What the card's own samples add up to.


def test_samples_of_different_lengths_are_weighed_by_their_time() -> None:
    block = BusyBlock()
    block.add(1.0, 1.0)
    block.add(3.0, 0.2)

    assert block.busy_ratio == pytest.approx(0.4)
    assert block.busy_seconds == pytest.approx(1.6)
    assert block.covered_seconds == 4.0
    assert list(block.busy_ratios) == [1.0, 0.2]


def test_a_block_without_time_has_no_share() -> None:
    assert (BusyBlock().busy_ratio, BusyBlock().process_sample_count) == (None, 0)


@pytest.mark.parametrize("sample_count", [5, 30, 120])
def test_process_samples_are_counted_by_their_own_pace_whatever_the_card_s_is(
    sample_count: int,
) -> None:
    assert card(0.5, sample_count).process_sample_count == round(5.0 * SAMPLES_PER_SECOND)


def test_samples_that_found_the_card_idle_were_credited_to_no_process() -> None:
    block = BusyBlock()
    for busy_ratio in (0.0, 0.0, 0.0, 0.9):
        block.add(1.25, busy_ratio)

    assert block.process_sample_count == round(5.0 * SAMPLES_PER_SECOND / 4)


def test_samples_that_nobody_takes_do_not_pile_up_and_their_time_counts() -> None:
    block = card(0.5, 10_000)

    assert len(block.busy_ratios) == MOST_SAMPLES
    assert block.covered_seconds == pytest.approx(5.0)


# One context, or none.


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({7: 0.2}, id="the driver's samples of the process say less"),
        pytest.param(None, id="and are not told"),
    ],
)
def test_one_that_is_alone_has_exactly_what_the_card_had_and_never_waits(
    shares: dict[int, float] | None,
) -> None:
    of_card = card(0.7)

    block = told({7: TRAIN}, shares, of_card)

    (use,) = block.by_workload.values()
    assert use.busy_ratio == of_card.busy_ratio
    assert (use.wait_ratio, use.upper_bound_ratio) == (0.0, 0.0)
    assert (use.is_estimated, use.may_be_low) == (False, False)
    assert (block.unattributed_ratio, block.is_inconsistent) == (0.0, False)


@pytest.mark.parametrize(
    ("own_ratio", "card_ratio", "has_strangers", "had_ratio"),
    [
        pytest.param(0.0, 0.1, False, 0.1, id="so little use that the driver may have missed it"),
        pytest.param(0.0, 0.7, False, 0.0, id="much use, and none of it its own"),
        pytest.param(0.2, 0.7, True, 0.2, id="somebody else had some of it"),
        pytest.param(0.8, 0.7, True, 0.7, id="no more than the card had"),
    ],
)
def test_one_that_is_alone_is_not_charged_with_what_came_and_went_unseen(
    own_ratio: float, card_ratio: float, has_strangers: bool, had_ratio: float
) -> None:
    block = use_of({7: TRAIN}, {7: own_ratio}, card(card_ratio), None, has_strangers=has_strangers)

    assert block is not None
    assert busy_ratios(block) == {TRAIN: pytest.approx(had_ratio)}
    assert block.unattributed_ratio == pytest.approx(card_ratio - had_ratio)


def test_one_that_is_alone_on_a_card_that_tells_nothing_has_what_its_own_samples_say() -> None:
    block = told({7: TRAIN}, {7: 0.2}, BusyBlock())

    assert busy_ratios(block) == {TRAIN: 0.2}
    assert block.unattributed_ratio is None


def test_where_neither_card_nor_process_tells_anything_there_is_no_use() -> None:
    assert use_of({7: TRAIN}, None, BusyBlock(), None) is None
    assert use_of({}, None, BusyBlock(), None) is None


def test_what_one_that_is_alone_and_hidden_had_is_nobody_s() -> None:
    block = told({7: None}, {7: 0.2}, card(0.7))

    assert block.by_workload == {}
    assert block.unattributed_ratio == pytest.approx(0.7)


def test_what_a_card_without_contexts_did_is_nobody_s() -> None:
    block = told({}, {}, card(0.7))

    assert block.by_workload == {}
    assert block.unattributed_ratio == pytest.approx(0.7)


# Several.


def test_each_has_its_share_and_what_is_left_of_the_card_is_nobody_s() -> None:
    block = told({7: TRAIN, 8: CHAT}, {7: 0.3, 8: 0.2}, card(0.6))

    assert busy_ratios(block) == {TRAIN: pytest.approx(0.3), CHAT: pytest.approx(0.2)}
    assert block.unattributed_ratio == pytest.approx(0.1)
    assert not block.is_inconsistent


def test_their_wait_is_an_estimate_below_what_the_others_had() -> None:
    block = told({7: TRAIN, 8: CHAT}, {7: 0.3, 8: 0.2}, card(0.6))

    uses = block.by_workload
    assert all(use.is_estimated for use in uses.values())
    assert uses[TRAIN].upper_bound_ratio == pytest.approx(0.3)
    assert 0 < uses[TRAIN].wait_ratio < uses[TRAIN].upper_bound_ratio


def test_the_contexts_of_one_workload_are_added_up() -> None:
    apart = told({7: TRAIN, 8: CHAT, 9: LINT}, {7: 0.3, 8: 0.2, 9: 0.1}, card(0.6)).by_workload

    together = told({7: TRAIN, 8: CHAT, 9: TRAIN}, {7: 0.3, 8: 0.2, 9: 0.1}, card(0.6)).by_workload

    first, second, sum_of_both = apart[TRAIN], apart[LINT], together[TRAIN]
    assert sum_of_both.busy_ratio == pytest.approx(first.busy_ratio + second.busy_ratio)
    assert sum_of_both.wait_ratio == pytest.approx(first.wait_ratio + second.wait_ratio)
    assert sum_of_both.upper_bound_ratio == pytest.approx(
        first.upper_bound_ratio + second.upper_bound_ratio
    )
    assert together[CHAT] == apart[CHAT]


def test_one_context_whose_wait_may_be_low_makes_its_workload_s_so() -> None:
    long_kernels = BusyBlock()
    for busy_ratio in [0.2, 1.0] * 15:
        long_kernels.add(SAMPLE_SECONDS, busy_ratio)

    shares = {7: 0.05, 8: 0.3, 9: 0.25}  # the first is light beside the others

    block = told({7: TRAIN, 8: TRAIN, 9: CHAT}, shares, long_kernels)

    assert {key: use.may_be_low for key, use in block.by_workload.items()} == {
        TRAIN: True,
        CHAT: False,
    }


def test_a_pause_of_all_is_no_time_to_wait_in() -> None:
    in_bursts = BusyBlock()
    for busy_ratio in [1.0] * 15 + [0.0] * 15:
        in_bursts.add(SAMPLE_SECONDS, busy_ratio)
    at_once, spread = (
        told({7: TRAIN, 8: CHAT}, {7: 0.25, 8: 0.25}, of_card) for of_card in (in_bursts, card(0.5))
    )

    assert at_once.by_workload[TRAIN].wait_ratio > 2 * spread.by_workload[TRAIN].wait_ratio


def test_counted_switches_bound_the_wait() -> None:
    processes: dict[int, Key | None] = {7: TRAIN, 8: CHAT}
    apart = told(processes, {7: 0.3, 8: 0.2}, card(0.5), switches_per_second=0.2)

    assert max(use.wait_ratio for use in apart.by_workload.values()) <= 0.2 * 0.030


def test_what_hidden_contexts_had_is_nobody_s() -> None:
    block = told({7: TRAIN, 8: None, 9: None}, {7: 0.3, 8: 0.2, 9: 0.1}, card(0.6))

    assert busy_ratios(block) == {TRAIN: pytest.approx(0.3)}
    assert block.unattributed_ratio == pytest.approx(0.3)


def test_beside_a_hidden_context_one_waits_as_beside_any_other() -> None:
    beside_hidden = told({7: TRAIN, 8: None}, {7: 0.3, 8: 0.2}, card(0.5)).by_workload

    assert (
        beside_hidden[TRAIN]
        == told({7: TRAIN, 8: CHAT}, {7: 0.3, 8: 0.2}, card(0.5)).by_workload[TRAIN]
    )


def test_several_whose_shares_are_not_told_have_no_use_that_can_be_told() -> None:
    assert use_of({7: TRAIN, 8: CHAT}, None, card(0.7), None) is None


def test_several_on_a_card_that_tells_nothing_have_their_shares_and_no_rest() -> None:
    block = told({7: TRAIN, 8: CHAT}, {7: 0.3, 8: 0.2}, BusyBlock())

    assert busy_ratios(block) == {TRAIN: pytest.approx(0.3), CHAT: pytest.approx(0.2)}
    assert (block.unattributed_ratio, block.is_inconsistent) == (None, False)


def test_shares_that_are_more_than_the_card_are_scaled_to_it() -> None:
    block = told({7: TRAIN, 8: CHAT}, {7: 0.6, 8: 0.2}, card(0.6))

    assert busy_ratios(block) == {TRAIN: pytest.approx(0.45), CHAT: pytest.approx(0.15)}
    assert block.unattributed_ratio == 0.0


@pytest.mark.parametrize(
    ("of_card", "is_inconsistent"),
    [
        (0.5 - INCONSISTENT_RATIO - 0.05, True),
        (0.5, False),
        (0.5 + INCONSISTENT_RATIO + 0.05, True),
    ],
)
def test_a_card_that_is_far_from_its_contexts_is_told(
    of_card: float, *, is_inconsistent: bool
) -> None:
    block = told({7: TRAIN, 8: CHAT}, {7: 0.3, 8: 0.2}, card(of_card))

    assert block.is_inconsistent is is_inconsistent


# What always holds.

processes_with_shares = st.dictionaries(
    st.integers(1, 99),
    st.tuples(st.sampled_from([TRAIN, CHAT, LINT, None]), st.floats(0.0, 1.0)),
    max_size=8,
)


@given(told_of=processes_with_shares, busy_ratio=st.floats(0.0, 1.0))
def test_what_workloads_had_and_what_was_nobody_s_is_what_the_card_had(
    told_of: dict[int, tuple[Key | None, float]], busy_ratio: float
) -> None:
    """It holds however far the shares are from the card: too many are scaled, too few believed."""
    processes = {process_id: key for process_id, (key, _) in told_of.items()}
    shares = {process_id: share for process_id, (_, share) in told_of.items()}
    of_card = card(busy_ratio)

    block = told(processes, shares, of_card)

    assert block.unattributed_ratio is not None
    assert block.unattributed_ratio >= 0
    total = sum(busy_ratios(block).values()) + block.unattributed_ratio
    assert total == pytest.approx(of_card.busy_ratio, abs=ROUNDING)


@given(told_of=processes_with_shares, busy_ratio=st.floats(0.0, 1.0))
def test_nobody_waits_less_than_not_at_all_or_longer_than_others_had_the_card(
    told_of: dict[int, tuple[Key | None, float]], busy_ratio: float
) -> None:
    processes = {process_id: key for process_id, (key, _) in told_of.items()}
    shares = {process_id: share for process_id, (_, share) in told_of.items()}

    block = told(processes, shares, card(busy_ratio))

    assert all(
        0 <= use.wait_ratio <= use.upper_bound_ratio + ROUNDING
        for use in block.by_workload.values()
    )
