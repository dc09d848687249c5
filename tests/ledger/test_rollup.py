"""A window says the same whether its days were summed before or not."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import START, UUID, at_hour, bins, card_hour, workload_hour

from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import CardHour, WorkloadHour
from rightslice.profile.usage import CardUsage

DAYS = 3
END = START + timedelta(days=DAYS)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    opened = Ledger.open()
    yield opened
    opened.close()


def uneven(index: int, uuid: str = UUID) -> CardHour:
    """An hour unlike the one before it."""
    return replace(
        card_hour(index, uuid),
        observed_seconds=3600 - index * 1.001,
        allocated_seconds=(index * 977) % 3600,
        busy_seconds=(index * 613) % 1800,
        memory_used_peak_bytes=(index * 7919) % 1_000_003,
        busy_bins=bins({(index % 20) / 20 + 0.01: 1.0}, 60 - index / 7),
        sm_active_bins=bins({0.03: 1.0}, 60) if index % 2 else None,
        sm_active_interval_seconds=60.0 if index % 2 else 0.0,
        busy_signal="gr_engine_active" if index % 5 == 0 else "busy",
        energy_joules=index * 1000.4,
        quality=(f"doubt-{index % 3}",),
    )


def pods(index: int, uuid: str = UUID) -> list[WorkloadHour]:
    """One pod in even hours, two in odd ones."""
    names = ["chat", "batch"][: 1 + index % 2]
    return [workload_hour(name, index, uuid) for name in names]


def filled(ledger: Ledger) -> Ledger:
    hours = range(DAYS * 24)
    cards = (UUID, "GPU-2")
    ledger.replace_hours(
        Batch(
            [uneven(index, uuid) for index in hours for uuid in cards],
            [row for index in hours for uuid in cards for row in pods(index, uuid)],
        )
    )
    return ledger


def usage(ledger: Ledger, start: datetime = START, end: datetime = END) -> list[CardUsage]:
    return ledger.card_usage(start, end)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_any_window_says_the_same_from_summed_days(data: st.DataObject) -> None:
    ledger = filled(Ledger.open())
    start = data.draw(st.integers(0, DAYS * 24 - 1))
    end = data.draw(st.integers(start + 1, DAYS * 24))
    rolled = data.draw(st.integers(0, DAYS))
    window = at_hour(start), at_hour(end)
    before = usage(ledger, *window)

    assert ledger.roll_up(START + timedelta(days=rolled)) == rolled

    assert usage(ledger, *window) == before
    ledger.close()


def test_a_day_is_summed_once(ledger: Ledger) -> None:
    filled(ledger)

    assert [ledger.roll_up(END), ledger.roll_up(END)] == [DAYS, 0]


def test_a_day_that_is_not_over_is_not_summed(ledger: Ledger) -> None:
    filled(ledger)

    assert ledger.roll_up(END - timedelta(minutes=1)) == DAYS - 1


def test_a_day_that_is_told_anew_counts_as_told(ledger: Ledger) -> None:
    filled(ledger)
    ledger.roll_up(END)

    ledger.replace_hours(Batch([replace(uneven(5), allocated_seconds=3600, busy_seconds=3600)]))

    told_anew = usage(ledger)
    assert ledger.roll_up(END) == 1
    assert usage(ledger) == told_anew
    fresh = filled(Ledger.open())
    fresh.replace_hours(Batch([replace(uneven(5), allocated_seconds=3600, busy_seconds=3600)]))
    assert usage(fresh) == told_anew
    fresh.close()


def test_workloads_that_are_told_anew_count_as_told(ledger: Ledger) -> None:
    filled(ledger)
    ledger.roll_up(END)

    ledger.replace_hours(Batch(workloads=[workload_hour("late", 6)]))

    holders = {holder.pod for holder in usage(ledger, at_hour(0), at_hour(24))[-1].holders}
    assert "late" in {
        holder.pod for card in usage(ledger, at_hour(0), at_hour(24)) for holder in card.holders
    }
    assert "chat" in holders


def test_a_day_without_hours_is_no_day(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour(0), card_hour(49)]))

    assert ledger.roll_up(END) == 2


def test_histograms_that_were_never_told_stay_untold_in_a_summed_day(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour(0)]))
    ledger.roll_up(END)

    (card,) = usage(ledger)

    assert card.sm_active_bin_seconds == ()
    assert sum(card.busy_bin_seconds) == 3600
