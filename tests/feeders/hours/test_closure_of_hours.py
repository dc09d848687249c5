"""Whatever happens to scrapes, exporters, clocks, pods and instances: every hour adds up."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.our_pages import HOUR
from support.played_exporter import PlayedExporter

from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.ledger.batch import Batch
from rightslice.ledger.closure import split_hour
from rightslice.ledger.rows import CardHour, SliceHour

PARTS = ("unknown", "unallocated", "busy", "idle", "unmeasured")
CLOCK_STEP_SECONDS = 60.0
PODS = ("begin a-1", "begin b-2", "end a-1", "end b-2")
QUIET = st.sampled_from(("scrape", "miss", *PODS))
CLOCK = ("ahead", "back", "a little back")
LOUD = st.sampled_from(
    ("scrape", "scrape", "miss", "restart", "reshape 1", "restart of the service", *CLOCK, *PODS)
)


def play(
    events: list[str], *, is_cut: bool
) -> tuple[RightsliceMapper, PlayedExporter, list[float]]:
    """Play minutes of some events; gives the mapper, and what was watched at each scrape."""
    exporter, mapper = PlayedExporter(is_cut), RightsliceMapper()
    latest_seconds, watched = 0.0, []
    for event in events:
        exporter.minute()
        what, _, which = event.partition(" ")
        if event == "restart":
            exporter.restart()
        elif what == "begin":
            exporter.begin_pod(which)
        elif what == "end":
            exporter.end_pod(which)
        elif what == "reshape":
            exporter.reshape(which)
        elif event == "restart of the service":
            mapper, before = RightsliceMapper(), mapper
            mapper.restore(json.loads(json.dumps(before.state())))
        else:
            exporter.clock_seconds += {"ahead": 1000.0, "back": -500.0, "a little back": -30.0}.get(
                event, 0.0
            )
        if event == "miss":
            continue
        now_seconds = exporter.now_seconds
        if now_seconds < latest_seconds - CLOCK_STEP_SECONDS:
            mapper.start_over(now_seconds)
            latest_seconds = now_seconds
        latest_seconds = max(latest_seconds, now_seconds)
        page = exporter.page()
        mapper.feed("t", now_seconds, page, interval_seconds=60.0, is_whole_page=True)
        watched.append(exporter.watched)
    return mapper, exporter, watched


def all_rows(mapper: RightsliceMapper, exporter: PlayedExporter) -> Batch:
    last_hour = int(max(exporter.now_seconds, 0.0) // 3600) + 1
    for hour in range(HOUR - 1, last_hour):
        mapper.tables.carry(hour)
    return mapper.rows(range(HOUR - 1, last_hour + 1), exporter.now_seconds)


def assert_adds_up(row: CardHour | SliceHour) -> None:
    split = split_hour(row)
    parts = [getattr(split, name) for name in PARTS]
    assert min(parts) >= 0
    assert sum(parts) == split.owned <= 3_600_000


def assert_not_negative(row: object) -> None:
    names = type(row).__dataclass_fields__  # type: ignore[attr-defined]  # all rows are dataclasses
    for name in names:
        value = getattr(row, name)
        if isinstance(value, int | float):
            assert value >= 0, f"{name} of {row}"


@given(st.lists(LOUD, min_size=10, max_size=150), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_hour_adds_up_and_nothing_is_negative(events: list[str], is_cut: bool) -> None:
    mapper, exporter, _ = play(events, is_cut=is_cut)

    rows = all_rows(mapper, exporter)

    for card in rows.cards:
        assert_adds_up(card)
    for part in rows.slices:
        assert_adds_up(part)
    for any_row in (*rows.cards, *rows.slices, *rows.workloads):
        assert_not_negative(any_row)


@given(st.lists(QUIET, min_size=10, max_size=150), st.booleans())
@settings(max_examples=100, deadline=None)
def test_hours_sum_to_what_the_counters_grew(events: list[str], is_cut: bool) -> None:
    mapper, exporter, watched = play(events, is_cut=is_cut)

    rows = all_rows(mapper, exporter)

    grown = watched[-1] - watched[0] if watched else 0.0
    assert sum(row.allocation_observed_seconds for row in rows.cards) == pytest.approx(grown)
    assert sum(row.observed_seconds for row in rows.cards) == pytest.approx(grown)


@given(st.lists(LOUD, min_size=10, max_size=150))
@settings(max_examples=100, deadline=None)
def test_a_cut_card_is_the_sum_of_its_instances(events: list[str]) -> None:
    mapper, exporter, _ = play(events, is_cut=True)

    rows = all_rows(mapper, exporter)

    for card in rows.cards:
        parts = [split_hour(row) for row in rows.slices if row.hour == card.hour]
        closed = split_hour(card)
        # Each is half of the card; the first minute of an instance is told of the whole card.
        assert closed.busy == pytest.approx(sum(part.busy for part in parts) / 2, abs=3)
        assert sum(part.owned for part in parts) / 2 <= closed.owned + 3


@given(st.lists(QUIET, min_size=10, max_size=120))
@settings(max_examples=100, deadline=None)
def test_pods_hold_a_card_for_no_longer_than_they_were_there(events: list[str]) -> None:
    mapper, exporter, _ = play(events, is_cut=False)

    rows = all_rows(mapper, exporter)

    for card in rows.cards:
        pods = [row for row in rows.workloads if row.hour == card.hour]
        assert sum(row.busy_seconds for row in pods) <= card.busy_seconds + 1e-6
        assert all(row.allocated_seconds <= 3600.0 for row in pods)
