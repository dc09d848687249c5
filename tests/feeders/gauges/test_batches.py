"""Gauges give the same hours however their samples are cut into batches, and never too much."""

from dataclasses import asdict

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.gauge_series import Stored, cut, stored
from support.intervals import every

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.hours.builder import HourTable
from rightslice.feeders.readings import Reading
from rightslice.ledger.closure import split_hour

DCGM = shipped_mapping("dcgm")
START = 1_000 * 3600.0
NAMES = {
    "DCGM_FI_DEV_FB_USED": 30_000.0,
    "DCGM_FI_DEV_FB_FREE": 10_000.0,
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_PROF_SM_ACTIVE": 1.0,
    "DCGM_FI_PROF_DRAM_ACTIVE": 1.0,
    "DCGM_FI_DEV_POWER_USAGE": 400.0,
}
BLANK = 140737488355328.0

# Before a history, so that the usual time between two scrapes is known.
STEADY = [(START - 3600 + 30.0 * number, 100.0) for number in range(20)]

# For each scrape: seconds since the one before, and each card's share of every field's highest
# value; None where the card was not told of, above 1 where the value was a blank.
Step = tuple[int, tuple[float | None, float | None]]
shares = st.one_of(st.none(), st.floats(0, 1), st.just(0.0), st.just(2.0))
steps = st.lists(
    st.tuples(st.sampled_from([30, 30, 30, 30, 45, 60, 400]), st.tuples(shares, shares)),
    min_size=2,
    max_size=60,
)


def labels(card: int, replica: str = "a") -> dict[str, str]:
    pod = {"pod": f"p{card}", "namespace": "n", "container": "c"} if card else {}
    return {
        "UUID": f"GPU-{card}",
        "Hostname": "node-1",
        "modelName": "NVIDIA A30",
        "prometheus_replica": replica,
        **pod,
    }


def scrapes(history: list[Step]) -> list[tuple[float, list[Reading]]]:
    """Turn a history into pages."""
    now, told = START, []
    known = [labels(card) for card in (0, 1)]
    for wait, cards in history:
        now += wait
        told.append(
            (
                now,
                [
                    Reading(name, known[card], BLANK if share > 1 else share * highest)
                    for card, share in enumerate(cards)
                    if share is not None
                    for name, highest in NAMES.items()
                ],
            )
        )
    return told


def series(history: list[Step], replica: str = "a", offset: float = 0.0) -> list[Stored]:
    """Turn a history into stored series."""
    samples: dict[tuple[str, int], list[tuple[float, float]]] = {}
    now = START + offset
    for wait, cards in history:
        now += wait
        for card, share in enumerate(cards):
            for name, highest in NAMES.items() if share is not None else ():
                value = BLANK if share is not None and share > 1 else (share or 0.0) * highest
                samples.setdefault((name, card), []).append((now, value))
    return [stored(name, labels(card, replica), rows) for (name, card), rows in samples.items()]


def told(table: HourTable) -> dict[tuple[int, str], dict[str, object]]:
    """Give everything in a table; numbers as near as sums of floats are."""

    def near(value: object) -> object:
        if isinstance(value, float):
            return pytest.approx(value, abs=1e-6)
        if isinstance(value, dict):
            return {key: near(one) for key, one in value.items()}
        return [near(one) for one in value] if isinstance(value, list) else value

    return {
        (hour, uuid): {name: near(value) for name, value in asdict(builder).items()}
        for hour, cards in table.hours.items()
        for uuid, builder in cards.items()
    }


@given(steps, st.sets(st.integers(0, 59)))
def test_pages_give_the_same_hours_however_many_are_summed_at_once(
    history: list[Step], settled_after: set[int]
) -> None:
    one_by_one, at_once = GaugeMapper(DCGM), GaugeMapper(DCGM)

    for number, (now, readings) in enumerate(scrapes(history)):
        one_by_one.feed(now, readings, every(30.0))
        at_once.feed(now, readings, every(30.0))
        one_by_one.settle()
        if number in settled_after:
            at_once.settle()

    assert told(at_once.table) == told(one_by_one.table)
    assert at_once.rejected_count == one_by_one.rejected_count


@given(steps)
def test_stored_series_give_the_hours_of_the_pages_that_they_came_from(history: list[Step]) -> None:
    pages, stored_series = GaugeMapper(DCGM), GaugeMapper(DCGM)
    stored_series.learn(one.labels for one in series(history))
    pages.learn(one.labels for one in series(history))
    rhythm = [stored("DCGM_FI_DEV_FB_USED", labels(card), STEADY) for card in (0, 1)]

    stored_series.take_series(rhythm)
    stored_series.take_series(series(history))
    for seconds, value in STEADY:
        readings = [Reading("DCGM_FI_DEV_FB_USED", one.labels, value) for one in rhythm]
        pages.feed(seconds, readings, every(30.0))
    for now, readings in scrapes(history):
        pages.feed(now, readings, stored_series._intervals.__getitem__)

    assert told(stored_series.table) == told(pages.table)


@given(steps, st.sets(st.integers(1, 4_000), max_size=4), st.booleans())
def test_series_give_the_same_hours_however_they_are_cut(
    history: list[Step], cuts: set[int], is_told_twice: bool
) -> None:
    whole, in_pieces = GaugeMapper(DCGM), GaugeMapper(DCGM)
    all_series = series(history)
    if is_told_twice:
        all_series += series(history, "b", 7.0)
    for mapper in (whole, in_pieces):
        mapper.learn(one.labels for one in all_series)
        for card in (0, 1):
            mapper.take_series([stored("DCGM_FI_DEV_FB_USED", labels(card), STEADY)])

    whole.take_series(all_series)
    assume(set(whole._intervals.values()) == {30.0})
    for piece in cut(all_series, (START + one for one in cuts)):
        in_pieces.take_series(piece)
        # A piece may have another rhythm than the whole, by its median.
        assume(set(in_pieces._intervals.values()) == {30.0})

    assert told(in_pieces.table) == told(whole.table)


@given(steps, steps)
def test_no_hour_holds_more_than_it_is_long_nor_less_than_nothing(
    history: list[Step], other: list[Step]
) -> None:
    mapper = GaugeMapper(DCGM)
    both = [*series(history), *series(other, "b", 7.0)]
    mapper.learn(one.labels for one in both)

    mapper.take_series(both)
    hours = sorted(mapper.table.hours)
    rows, _, workloads = mapper.hours(hours, START + 100_000)

    for row in rows:
        seconds = (
            row.observed_seconds,
            row.allocation_observed_seconds,
            row.allocated_seconds,
            row.busy_observed_seconds,
            row.busy_seconds,
            row.sm_observed_seconds,
            row.sm_active_seconds,
        )
        assert all(0 <= one <= row.owned_seconds + 1e-6 for one in seconds)
        assert row.energy_joules is None or row.energy_joules >= 0
        split = split_hour(row)
        parts = split.unknown + split.unallocated + split.busy + split.idle + split.unmeasured
        assert parts == split.owned
        for bins, interval in (
            (row.memory_bins, row.memory_interval_seconds),
            (row.sm_active_bins, row.sm_active_interval_seconds),
        ):
            # A mean stands for a whole minute of which a quarter may be missing.
            assert sum(bins or ()) * interval <= row.owned_seconds / 0.75 + interval
    assert all(0 <= one.allocated_seconds <= 3600 + 1e-6 for one in workloads)
