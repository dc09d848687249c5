"""Replicas over time: means are weighted by time, and what was not seen is unknown."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.owners.metrics import Thing
from rightslice.feeders.owners.replicas import ReplicaCounts
from rightslice.ledger.rows import OwnerHour

HOUR = 490_000
START = HOUR * 3600.0
OWNER = Thing("prod", "chat", "Deployment", "chat")
INTERVAL = 30.0

Readings = list[tuple[float, int]]


def counted(readings: Readings, interval_seconds: float = INTERVAL) -> ReplicaCounts:
    counts = ReplicaCounts()
    for seconds, replicas in readings:
        counts.read(START + seconds, replicas, interval_seconds)
    return counts


def row(counts: ReplicaCounts, hour: int = HOUR) -> OwnerHour:
    found = counts.row(OWNER, hour)
    assert found is not None
    return found


def test_a_reading_stands_for_the_time_since_the_one_before() -> None:
    told = row(counted([(0, 1), (30, 1), (60, 4)]))

    assert (told.observed_seconds, told.replicas_mean) == (60, 2.5)
    assert (told.replicas_min, told.replicas_max) == (1, 4)
    assert (told.scale_up_count, told.scale_down_count) == (1, 0)


def test_one_reading_tells_of_no_time() -> None:
    assert counted([(30, 3)]).row(OWNER, HOUR) is None


def test_the_time_of_an_outage_is_unknown() -> None:
    told = row(counted([(0, 2), (30, 2), (1830, 2)]))

    assert told.observed_seconds == 30 + 2 * INTERVAL


def test_a_change_over_an_outage_is_one_event_in_the_hour_in_which_it_was_seen() -> None:
    counts = counted([(3570, 2), (3600, 2), (9000, 5)])

    assert row(counts).scale_up_count == 0
    assert row(counts, HOUR + 2).scale_up_count == 1
    assert counts.row(OWNER, HOUR + 1) is None


def test_a_reading_across_the_edge_is_split_by_time() -> None:
    counts = counted([(3590, 1), (3620, 3)])

    assert row(counts).observed_seconds == 10
    assert row(counts, HOUR + 1).observed_seconds == 20


@pytest.mark.parametrize("seconds", [pytest.param(60, id="same"), pytest.param(40, id="older")])
def test_a_reading_that_is_not_newer_is_ignored(seconds: float) -> None:
    assert counted([(30, 1), (60, 1), (seconds, 9)]) == counted([(30, 1), (60, 1)])


steps = st.lists(
    st.tuples(st.floats(min_value=0.5, max_value=500), st.integers(0, 50)), min_size=2, max_size=60
)


def readings_of(steps: list[tuple[float, int]]) -> Readings:
    seconds, found = 0.0, []
    for step, replicas in steps:
        seconds += step
        found.append((seconds, replicas))
    return found


@given(steps)
def test_all_hours_together_are_the_covered_time(steps: list[tuple[float, int]]) -> None:
    readings = readings_of(steps)
    counts = counted(readings)
    rows = [found for hour in counts.hours if (found := counts.row(OWNER, hour))]
    covered = [
        (min(after - before, 2 * INTERVAL), replicas)
        for (before, _), (after, replicas) in pairwise(readings)
    ]

    assert math.isclose(
        sum(one.observed_seconds for one in rows),
        sum(seconds for seconds, _ in covered),
        rel_tol=1e-6,
    )
    assert math.isclose(
        sum(one.observed_seconds * one.replicas_mean for one in rows),
        sum(seconds * replicas for seconds, replicas in covered),
        rel_tol=1e-6,
        abs_tol=1e-6,
    )
    assert all(one.observed_seconds <= 3600 + 1e-6 for one in rows)


@given(steps)
def test_a_mean_lies_between_least_and_most(steps: list[tuple[float, int]]) -> None:
    counts = counted(readings_of(steps))
    rows = [found for hour in counts.hours if (found := counts.row(OWNER, hour))]

    assert all(one.replicas_min <= one.replicas_mean <= one.replicas_max for one in rows)


@given(steps)
def test_each_change_is_an_event_of_one_hour(steps: list[tuple[float, int]]) -> None:
    readings = readings_of(steps)
    counts = counted(readings)
    pairs = [(before, after) for (_, before), (_, after) in pairwise(readings)]

    ups = sum(told.up_count for told in counts.hours.values())
    downs = sum(told.down_count for told in counts.hours.values())

    assert ups == sum(after > before for before, after in pairs)
    assert downs == sum(after < before for before, after in pairs)


@given(steps, st.integers(0, 60))
def test_a_restart_in_between_changes_nothing(steps: list[tuple[float, int]], cut: int) -> None:
    readings = readings_of(steps)
    state = json.loads(json.dumps(counted(readings[:cut]).state(0)))
    resumed = ReplicaCounts.restored(state)
    for seconds, replicas in readings[cut:]:
        resumed.read(START + seconds, replicas, INTERVAL)

    assert resumed == counted(readings)
