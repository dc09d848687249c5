"""When targets are scraped: spread, steady, and patient with those that fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.targets.schedule import (
    LONGEST_BACKOFF_SECONDS,
    next_slot,
    next_try,
    offset_seconds,
    pause_seconds,
)

INTERVALS = st.floats(1.0, 300.0)


def test_targets_are_spread_evenly_over_the_interval() -> None:
    quarters = [int(offset_seconds(f"http://n{n}:19400/metrics", 60.0) // 15) for n in range(1000)]

    assert all(200 < quarters.count(quarter) < 300 for quarter in range(4))


def test_a_targets_place_is_the_same_after_a_restart() -> None:
    assert offset_seconds("http://n1:19400/metrics", 60.0) == pytest.approx(4.42617, abs=1e-4)


@given(st.floats(0, 1e6), INTERVALS, st.floats(-2e9, 1e6))
def test_the_next_slot_is_later_and_within_one_interval(
    after: float, interval: float, slot: float
) -> None:
    found = next_slot(after, interval, slot)

    assert after - 1e-5 <= found <= after + interval + 1e-5
    assert abs((found - slot) / interval - round((found - slot) / interval)) < 1e-5


@pytest.mark.parametrize(
    ("failure_count", "pause"),
    [(0, 0.0), (1, 2.0), (2, 15.0), (3, 30.0), (4, 60.0), (5, 120.0), (6, 180.0), (10**6, 180.0)],
)
def test_the_first_retry_is_soon_and_later_ones_ever_rarer(
    failure_count: int, pause: float
) -> None:
    assert pause_seconds(failure_count, 15.0) == pause


def test_a_target_read_seldom_anyway_is_never_asked_less_often_than_usual() -> None:
    assert pause_seconds(1, 1.0) == 1.0
    assert pause_seconds(50, 300.0) == 300.0


@given(INTERVALS, st.integers(0, 100), st.floats(0, 300), st.floats(0, 1))
def test_the_next_try_is_later_than_now_and_not_for_ever(
    interval: float, failure_count: int, slot: float, duration_ratio: float
) -> None:
    now = 1000.0
    started = now - duration_ratio * interval

    found = next_try(started, now, interval, slot, failure_count)

    assert now <= found <= now + max(LONGEST_BACKOFF_SECONDS, interval) + interval + 1e-6


def test_a_scrape_in_its_slot_is_followed_by_the_next_slot_and_none_is_skipped() -> None:
    assert next_try(100.0, 100.001, 15.0, 10.0, 0) == 115.0
    assert next_try(99.9999, 99.9999, 15.0, 10.0, 0) == 115.0  # woken a little early
    assert next_try(100.0, 114.0, 15.0, 10.0, 0) == 115.0  # slow, but not too slow
    assert next_try(100.0, 114.999, 15.0, 10.0, 2) == 130.0
