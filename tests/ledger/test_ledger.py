"""Hours are replaced all or nothing, and a window's sums are exact."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import (
    A100_40GB,
    GIB,
    START,
    UUID,
    at_hour,
    bins,
    card_hour,
    holder,
    workload_hour,
)

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, FeederState, Ledger, LedgerError
from rightslice.ledger.rows import SOURCE_DCGM, SOURCE_RIGHTSLICE, CardHour
from rightslice.profile.usage import CardUsage

FEEDER = "prometheus"
MONTH = timedelta(days=30)
TOO_LARGE = 1e9  # seconds: more than the column holds
OTHER = "GPU-00000000-0000-0000-0000-000000000002"


def usages(ledger: Ledger, start: datetime = START, length: timedelta = MONTH) -> list[CardUsage]:
    return ledger.card_usage(start, start + length)


def pods(ledger: Ledger) -> list[str]:
    """The pods of every card, sorted."""
    return sorted(held.pod for usage in usages(ledger) for held in usage.holders)


def whole(usage: CardUsage) -> Decimal:
    """The sum of the places in which a second may lie."""
    return (
        usage.unknown_seconds
        + usage.unallocated_seconds
        + usage.busy_seconds
        + usage.idle_seconds
        + usage.unmeasured_seconds
    )


def test_an_empty_ledger_has_no_span_no_usage_and_no_state(ledger: Ledger) -> None:
    assert ledger.span() is None
    assert usages(ledger) == []
    assert ledger.feeder_state(FEEDER) is None


def test_an_hour_comes_back_as_it_was_put(ledger: Ledger) -> None:
    attributes = CardAttributes(UUID, START, "node-1", A100_40GB)

    ledger.replace_hours(Batch([card_hour()], [workload_hour()], [attributes]))

    assert usages(ledger) == [
        CardUsage(
            uuid=UUID,
            node="node-1",
            name=A100_40GB,
            first_hour=START,
            observed_until=START + timedelta(hours=1),
            hour_count=1,
            source=SOURCE_RIGHTSLICE,
            owned_seconds=Decimal(3600),
            observed_seconds=Decimal(3600),
            unknown_seconds=Decimal(0),
            unallocated_seconds=Decimal(1800),
            busy_seconds=Decimal(900),
            idle_seconds=Decimal(900),
            unmeasured_seconds=Decimal(0),
            unrequested_busy_seconds=Decimal(0),
            busy_observed_seconds=Decimal(3600),
            kernel_seconds=Decimal(900),
            allocated_seconds=Decimal(1800),
            memory_total_bytes=40 * GIB,
            memory_used_peak_bytes=3 * GIB,
            memory_peak_low_bytes=3 * GIB,
            memory_seconds=bins({0.075: 1.0}, 3600),
            busy_bin_seconds=bins({0.03: 1.0}, 3600),
            sm_active_bin_seconds=(),
            busy_signal="busy",
            compute_interval_seconds=60.0,
            quality=(),
            holders=(replace(holder(), hour_count=1, last_hour=START),),
            shared_hour_count=0,
        )
    ]


def test_what_was_not_told_stays_unknown(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([CardHour(UUID, START, SOURCE_RIGHTSLICE)]))

    usage = usages(ledger)[0]
    assert usage.unknown_seconds == 3600
    assert (usage.memory_total_bytes, usage.memory_used_peak_bytes) == (None, None)
    assert usage.memory_peak_low_bytes is None
    assert (usage.memory_seconds, usage.busy_bin_seconds, usage.busy_signal) == ((), (), "")
    assert (usage.node, usage.name, usage.holders) == ("", "", ())


def test_putting_an_hour_again_changes_nothing(ledger: Ledger) -> None:
    batch = Batch(
        [card_hour(0), card_hour(1)],
        [workload_hour(index=0), workload_hour(index=1)],
        [CardAttributes(UUID, START, "node-1", A100_40GB)],
    )
    ledger.replace_hours(batch)
    once = usages(ledger)

    ledger.replace_hours(batch)

    assert usages(ledger) == once


def test_putting_an_hour_again_replaces_it(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()]))

    ledger.replace_hours(Batch([replace(card_hour(), busy_seconds=60.0)]))

    assert usages(ledger)[0].busy_seconds == 60
    assert usages(ledger)[0].owned_seconds == 3600


def test_other_hours_and_cards_stay_as_they_are(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour(0), card_hour(1), card_hour(0, OTHER)]))

    ledger.replace_hours(Batch([replace(card_hour(0), busy_seconds=0.0)]))

    assert [usage.busy_seconds for usage in usages(ledger)] == [900, 900]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        pytest.param(SOURCE_DCGM, SOURCE_RIGHTSLICE, SOURCE_RIGHTSLICE, id="ours replaces dcgm's"),
        pytest.param(SOURCE_RIGHTSLICE, SOURCE_DCGM, SOURCE_RIGHTSLICE, id="dcgm's leaves ours"),
        pytest.param("other", SOURCE_DCGM, SOURCE_DCGM, id="dcgm's replaces another's"),
        pytest.param(SOURCE_DCGM, "other", SOURCE_DCGM, id="another's leaves dcgm's"),
    ],
)
@pytest.mark.parametrize("together", [False, True], ids=["one after the other", "in one batch"])
def test_the_more_trusted_source_tells_of_an_hour(
    ledger: Ledger, first: str, second: str, kept: str, together: bool
) -> None:
    rows = [card_hour(0, source=first), card_hour(0, source=second)]
    batches = [Batch(rows)] if together else [Batch([row]) for row in rows]

    for batch in batches:
        ledger.replace_hours(batch)

    assert [(usage.source, usage.hour_count) for usage in usages(ledger)] == [(kept, 1)]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        pytest.param(SOURCE_DCGM, SOURCE_RIGHTSLICE, ["new"], id="ours replaces dcgm's"),
        pytest.param(SOURCE_RIGHTSLICE, SOURCE_DCGM, ["old"], id="dcgm's leaves ours"),
        pytest.param(SOURCE_DCGM, SOURCE_DCGM, ["new"], id="the same replaces its own"),
    ],
)
def test_the_more_trusted_source_tells_of_workloads(
    ledger: Ledger, first: str, second: str, kept: list[str]
) -> None:
    ledger.replace_hours(Batch([card_hour(source=first)], [workload_hour("old", source=first)]))

    ledger.replace_hours(Batch([card_hour(source=second)], [workload_hour("new", source=second)]))

    assert pods(ledger) == kept


@pytest.mark.parametrize(
    "left", [pytest.param([], id="alone"), pytest.param(["ocr-0"], id="beside one that stays")]
)
def test_a_workload_that_is_gone_when_an_hour_is_told_again_is_gone(
    ledger: Ledger, left: list[str]
) -> None:
    stays = [workload_hour(pod, source=SOURCE_RIGHTSLICE) for pod in left]
    gone = workload_hour("chat-0", source=SOURCE_RIGHTSLICE)
    ledger.replace_hours(Batch([card_hour()], [gone, *stays]))

    ledger.replace_hours(Batch([card_hour()], stays))

    assert pods(ledger) == left


def test_a_window_holds_the_hours_that_begin_in_it(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour(index) for index in range(5)]))

    usage = ledger.card_usage(at_hour(1), at_hour(4))[0]

    assert (usage.first_hour, usage.observed_until) == (at_hour(1), at_hour(4))
    assert usage.hour_count == 3
    assert usage.owned_seconds == 3 * 3600


def test_moments_of_any_zone_mean_the_same_hour(ledger: Ledger) -> None:
    shanghai = START.astimezone(timezone(timedelta(hours=8)))

    ledger.replace_hours(Batch([replace(card_hour(), hour=shanghai)]))

    assert ledger.span() == (START, at_hour(1))
    assert usages(ledger, shanghai)[0].first_hour == START


def test_the_span_ends_where_the_last_hour_has_come_to(ledger: Ledger) -> None:
    open_hour = replace(card_hour(1), owned_seconds=90.5)

    ledger.replace_hours(Batch([card_hour(0), open_hour]))

    assert ledger.span() == (START, at_hour(1) + timedelta(seconds=90.5))


def test_cards_come_by_node_and_uuid(ledger: Ledger) -> None:
    placed = [("GPU-b", "node-1"), ("GPU-c", "node-2"), ("GPU-a", "node-2")]

    ledger.replace_hours(
        Batch(
            [card_hour(0, uuid) for uuid, _ in placed],
            attributes=[CardAttributes(uuid, START, node, A100_40GB) for uuid, node in placed],
        )
    )

    assert [usage.uuid for usage in usages(ledger)] == ["GPU-b", "GPU-a", "GPU-c"]


def test_a_card_that_moved_sits_where_it_sat_at_the_end_of_the_window(ledger: Ledger) -> None:
    ledger.replace_hours(
        Batch(
            [card_hour(0), card_hour(1), card_hour(2)],
            attributes=[
                CardAttributes(UUID, at_hour(2), "node-2", A100_40GB),
                CardAttributes(UUID, at_hour(0), "node-1", A100_40GB),
                CardAttributes(UUID, at_hour(1), "node-1", A100_40GB),
            ],
        )
    )

    assert ledger.card_usage(START, at_hour(2))[0].node == "node-1"
    assert ledger.card_usage(START, at_hour(3))[0].node == "node-2"


def test_what_is_told_last_of_a_moment_holds_however_often_it_is_told(ledger: Ledger) -> None:
    # Two exporters on one node may know it by two names.
    told = [
        CardAttributes(UUID, START, "node-1", A100_40GB),
        CardAttributes(UUID, START, "node-1.example", A100_40GB),
    ]

    for _ in range(5):
        ledger.replace_hours(Batch([card_hour()], attributes=told))

    assert usages(ledger)[0].node == "node-1.example"
    assert ledger.read("count", "SELECT count(*) FROM card_attribute") == [(1,)]


def test_holders_tell_how_many_cards_they_hold_at_once(ledger: Ledger) -> None:
    cards = [f"GPU-{number}" for number in range(4)]

    ledger.replace_hours(
        Batch(
            [card_hour(index, uuid) for uuid in cards for index in range(2)],
            [workload_hour("ring", 0, uuid) for uuid in cards]
            + [workload_hour("chat", 1, cards[0])],
        )
    )

    first = usages(ledger)[0]
    assert [(held.pod, held.hour_count, held.most_cards) for held in first.holders] == [
        ("chat", 1, 1),
        ("ring", 1, 4),
    ]


def test_the_low_memory_peak_is_of_held_hours_only(ledger: Ledger) -> None:
    held = [replace(card_hour(index), memory_used_peak_bytes=8 * GIB) for index in range(5)]
    free = [
        replace(card_hour(index), allocated_seconds=0.0, memory_used_peak_bytes=GIB)
        for index in range(5, 10)
    ]

    ledger.replace_hours(Batch([*held, *free]))

    usage = usages(ledger)[0]
    assert usage.memory_peak_low_bytes == 8 * GIB
    assert usage.memory_used_peak_bytes == 8 * GIB


def test_bins_of_different_intervals_add_as_seconds(ledger: Ledger) -> None:
    by_minute = replace(card_hour(0), busy_bins=bins({0.2: 1.0}, 60), busy_interval_seconds=60.0)
    by_second = replace(card_hour(1), busy_bins=bins({0.2: 1.0}, 3600), busy_interval_seconds=1.0)

    ledger.replace_hours(Batch([by_minute, by_second]))

    assert usages(ledger)[0].busy_bin_seconds == bins({0.2: 1.0}, 7200)


def test_doubts_about_hours_are_told_once_each(ledger: Ledger) -> None:
    ledger.replace_hours(
        Batch(
            [
                replace(card_hour(0), quality=("clamped", "gap")),
                replace(card_hour(1), quality=("clamped",)),
                card_hour(2),
            ]
        )
    )

    assert usages(ledger)[0].quality == ("clamped", "gap")


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.builds(
            replace,
            st.just(card_hour()),
            owned_seconds=st.floats(0, 3600),
            allocation_observed_seconds=st.floats(0, 4000),
            allocated_seconds=st.floats(0, 4000),
            busy_observed_seconds=st.floats(0, 4000),
            busy_seconds=st.floats(0, 4000),
            unrequested_busy_seconds=st.floats(0, 4000),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_the_parts_of_a_window_sum_to_its_owned_seconds_exactly(rows: list[CardHour]) -> None:
    ledger = Ledger.open()

    ledger.replace_hours(
        Batch([replace(row, hour=at_hour(index)) for index, row in enumerate(rows)])
    )

    usage = usages(ledger)[0]
    assert whole(usage) == usage.owned_seconds
    assert usage.allocated_seconds == (
        usage.busy_seconds + usage.idle_seconds + usage.unmeasured_seconds
    )
    ledger.close()


@settings(deadline=None, max_examples=15)
@given(
    counts=st.lists(
        st.lists(st.integers(0, 60), min_size=BIN_COUNT, max_size=BIN_COUNT).filter(any),
        min_size=2,
        max_size=6,
    ),
    data=st.data(),
)
def test_histograms_merge_the_same_however_the_window_is_cut(
    counts: list[list[int]], data: st.DataObject
) -> None:
    ledger = Ledger.open()
    end = len(counts)
    cut = data.draw(st.integers(1, end - 1))
    ledger.replace_hours(
        Batch(
            [
                replace(card_hour(index), busy_bins=tuple(float(count) for count in row))
                for index, row in enumerate(counts)
            ]
        )
    )

    before = ledger.card_usage(START, at_hour(cut))[0].busy_bin_seconds
    after = ledger.card_usage(at_hour(cut), at_hour(end))[0].busy_bin_seconds

    together = ledger.card_usage(START, at_hour(end))[0].busy_bin_seconds
    assert tuple(x + y for x, y in zip(before, after, strict=True)) == together
    assert sum(together) == 60.0 * sum(map(sum, counts))
    ledger.close()


def test_the_state_of_a_feeder_comes_back(ledger: Ledger) -> None:
    state = FeederState(at_hour(3), {"last": {"GPU-1": [1.5, None]}, "name": "köln"})

    ledger.replace_hours(Batch([]), FEEDER, FeederState(at_hour(2), {}))
    ledger.replace_hours(Batch([]), FEEDER, state)

    assert ledger.feeder_state(FEEDER) == state
    assert ledger.feeder_state("scraper") is None


def test_a_batch_that_fails_half_way_changes_nothing(ledger: Ledger) -> None:
    before_state = FeederState(at_hour(1), {"hours": 1})
    ledger.replace_hours(Batch([card_hour()], [workload_hour()]), FEEDER, before_state)
    before = usages(ledger)
    changed = [replace(card_hour(), busy_seconds=1.0), card_hour(0, OTHER)]
    broken = replace(workload_hour(), allocated_seconds=TOO_LARGE)

    with pytest.raises(LedgerError, match=r"cannot write hours: .*nothing of it was written"):
        ledger.replace_hours(Batch(changed, [broken]), FEEDER, FeederState(at_hour(2), {}))

    assert usages(ledger) == before
    assert ledger.feeder_state(FEEDER) == before_state


@pytest.mark.parametrize(
    ("cards", "state"),
    [
        pytest.param([replace(card_hour(), busy_seconds=math.nan)], {}, id="no number"),
        pytest.param([card_hour()], {"time": START}, id="a state that JSON cannot hold"),
    ],
)
def test_values_that_cannot_be_stored_change_nothing(
    ledger: Ledger, cards: list[CardHour], state: dict[str, object]
) -> None:
    with pytest.raises((ValueError, TypeError)):
        ledger.replace_hours(Batch(cards), FEEDER, FeederState(START, state))

    assert usages(ledger) == []
    assert ledger.feeder_state(FEEDER) is None


def test_a_failed_batch_can_be_put_right(ledger: Ledger) -> None:
    broken = replace(workload_hour(), allocated_seconds=TOO_LARGE)
    with pytest.raises(LedgerError):
        ledger.replace_hours(Batch([card_hour()], [broken]))

    ledger.replace_hours(Batch([card_hour()], [workload_hour()]))

    assert pods(ledger) == ["chat-0"]


def test_hours_of_utc_come_back_in_utc(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()], [workload_hour()]))

    usage = usages(ledger)[0]

    assert usage.first_hour.tzinfo is UTC
    assert usage.holders[0].last_hour.tzinfo is UTC
