"""Old hours go by whole months, after their days were summed; nothing is lost of money."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from support.usage import START, at_hour, card_hour, port_hour, slice_hour, workload_hour

from rightslice.ledger.audit import audit
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.maintenance import plan, tidy, wait_seconds
from rightslice.ledger.parquet import HOUR_TABLES
from rightslice.ledger.retention import drop_hours, first_kept_month
from rightslice.ledger.rows import EngineHour, OomHour, OwnerHour

END = START + timedelta(days=3)
KEPT = timedelta(days=90)


def of_every_kind(index: int) -> Batch:
    who = ("pod", "serving", "chat-0", "server", at_hour(index), "rightslice")
    return Batch(
        [card_hour(index)],
        [workload_hour(index=index)],
        slices=[slice_hour(index=index)],
        ports=[port_hour(index)],
        ooms=[OomHour(*who, "device_alloc", 1)],
        engines=[EngineHour(*who, "vllm")],
        owners=[
            OwnerHour("c", "n", "Deployment", "o", at_hour(index), "kube", 3600, 1, 1, 1, 0, 0)
        ],
    )


def filled(hours: int = 72) -> Ledger:
    ledger = Ledger.open()
    told = [of_every_kind(index) for index in range(hours)]
    ledger.replace_hours(
        Batch(
            **{
                field.name: [row for batch in told for row in getattr(batch, field.name)]
                for field in fields(Batch)
            }
        )
    )
    return ledger


def hours_left(ledger: Ledger) -> dict[str, int]:
    return {
        table: ledger.read("read", f"SELECT count(*) FROM {table}")[0][0] for table in HOUR_TABLES
    }


@pytest.mark.parametrize(
    ("now", "kept_days", "first"),
    [
        pytest.param(datetime(2026, 12, 1, 3, tzinfo=UTC), 90, (2026, 9), id="within a month"),
        pytest.param(datetime(2026, 11, 29, 23, tzinfo=UTC), 90, (2026, 8), id="its last day"),
        pytest.param(datetime(2026, 11, 30, tzinfo=UTC), 90, (2026, 9), id="its first moment"),
        pytest.param(datetime(2028, 2, 29, tzinfo=UTC), 730, (2026, 3), id="leap day"),
    ],
)
def test_months_that_reach_into_the_retention_are_kept_whole(
    now: datetime, kept_days: int, first: tuple[int, int]
) -> None:
    assert first_kept_month(now, timedelta(days=kept_days)) == datetime(*first, 1, tzinfo=UTC)


def test_less_than_90_days_is_refused() -> None:
    with pytest.raises(ValueError, match="want to keep 90 days at least, got 89 days"):
        first_kept_month(END, timedelta(days=89))


def test_hours_of_every_table_go_and_the_sums_of_cards_stay_as_they_were() -> None:
    ledger = filled()
    ledger.roll_up(END)
    before = ledger.card_usage(START, END)

    days = list(drop_hours(ledger, START + timedelta(days=2)))

    assert days == [START, START + timedelta(days=1)]
    assert hours_left(ledger) == dict.fromkeys(HOUR_TABLES, 24)
    assert ledger.card_usage(START, END) == before
    assert audit(ledger, END).findings == []
    ledger.close()


def test_a_day_that_is_not_summed_stays_whole() -> None:
    ledger = filled()
    ledger.roll_up(START + timedelta(days=1))

    assert list(drop_hours(ledger, END)) == [START]
    assert hours_left(ledger) == dict.fromkeys(HOUR_TABLES, 48)
    ledger.close()


def test_hours_of_ports_on_a_day_without_cards_go_too() -> None:
    ledger = Ledger.open()
    ledger.replace_hours(Batch(ports=[port_hour(0)]))

    assert list(drop_hours(ledger, END)) == [START]
    assert hours_left(ledger) == dict.fromkeys(HOUR_TABLES, 0)
    ledger.close()


def test_dropping_can_end_between_two_days() -> None:
    ledger = filled()
    ledger.roll_up(END)

    done = tidy(ledger, END + timedelta(days=400), None)
    assert done.dropped_day_count == 0
    stopped = next(drop_hours(ledger, END))

    assert stopped == START
    assert hours_left(ledger)["card_hour"] == 48
    ledger.close()


def test_late_hours_of_a_dropped_day_are_left_out_and_those_of_other_days_are_not() -> None:
    ledger = filled()
    ledger.roll_up(END)
    list(drop_hours(ledger, START + timedelta(days=1)))
    before = ledger.card_usage(START, START + timedelta(days=1))

    late = [replace(card_hour(index), busy_seconds=1) for index in (3, 30)]
    ledger.replace_hours(replace(of_every_kind(4), cards=late))
    ledger.roll_up(END)

    assert hours_left(ledger) == dict.fromkeys(HOUR_TABLES, 48) | {
        "slice_hour": 47  # of the hour that was told anew, no slice was told
    }
    assert ledger.card_usage(START, START + timedelta(days=1)) == before
    assert audit(ledger, END).findings == []
    ledger.close()


def test_a_day_is_summed_seven_hours_after_its_end() -> None:
    settled = START + timedelta(days=1, hours=7)

    assert plan(settled, None, settled).sum_before == START + timedelta(days=1)


def test_without_a_retention_nothing_is_dropped() -> None:
    assert plan(END, None, END).drop_before is None


def test_age_is_counted_from_the_ledgers_end_when_the_clock_is_far_ahead() -> None:
    ahead = END + timedelta(days=3650)

    assert plan(ahead, KEPT, END).drop_before == first_kept_month(END, KEPT)
    assert plan(ahead, KEPT, None).drop_before is None


def test_a_round_sums_and_drops() -> None:
    ledger = filled()
    later = datetime(2027, 1, 15, tzinfo=UTC)
    ledger.replace_hours(Batch([replace(card_hour(), hour=later)]))

    done = tidy(ledger, later, KEPT)

    assert (done.summed_day_count, done.dropped_day_count) == (3, 3)
    assert hours_left(ledger)["card_hour"] == 1
    assert tidy(ledger, later, KEPT).dropped_day_count == 0
    ledger.close()


def test_a_round_that_failed_is_tried_again_sooner() -> None:
    assert wait_seconds(failed=True) < wait_seconds(failed=False) == 3600
