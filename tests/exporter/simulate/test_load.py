"""What a simulated card does over time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.simulate.load import Level, Peak, noise

times = st.floats(min_value=0, max_value=4e9)
seeds = st.integers(min_value=0, max_value=2**32 - 1)


@given(seeds, st.integers(min_value=0, max_value=2**40))
def test_noise_is_a_share_and_the_same_each_time(seed: int, step: int) -> None:
    assert 0 <= noise(seed, step) < 1
    assert noise(seed, step) == noise(seed, step)


def test_noise_spreads_over_its_range() -> None:
    shares = sorted(noise(7, step) for step in range(1000))

    assert shares[100] == pytest.approx(0.1, abs=0.05)
    assert shares[500] == pytest.approx(0.5, abs=0.05)
    assert shares[900] == pytest.approx(0.9, abs=0.05)


def test_cards_with_different_seeds_differ() -> None:
    assert [noise(1, step) for step in range(5)] != [noise(2, step) for step in range(5)]


@given(seeds, times)
def test_a_level_stays_within_its_bounds(seed: int, now_seconds: float) -> None:
    assert 3 <= Level(3, 5, seed=seed).at(now_seconds) <= 5


def test_a_level_is_a_new_one_each_minute() -> None:
    level = Level(0, 1, seed=3)

    assert level.at(0) == level.at(59.9)
    assert level.at(0) != level.at(60)


@given(times)
def test_a_level_without_a_range_never_moves(now_seconds: float) -> None:
    assert Level(4, 4).at(now_seconds) == 4


@pytest.mark.parametrize(
    ("now_seconds", "value"),
    [
        pytest.param(0, 9, id="start of the day"),
        pytest.param(899, 9, id="still in the peak"),
        pytest.param(900, 1, id="after the peak"),
        pytest.param(86399, 1, id="end of the day"),
        pytest.param(86400, 9, id="next day"),
    ],
)
def test_a_peak_comes_once_in_its_period(now_seconds: float, value: float) -> None:
    assert Level(1, 1, Peak(9, 86400, 900)).at(now_seconds) == value


@pytest.mark.parametrize(
    ("level", "total"),
    [
        pytest.param(Level(4, 4), 4 * 3600, id="constant"),
        pytest.param(Level(1, 1, Peak(11, 3600, 60)), 3600 + 600, id="one peak"),
        pytest.param(Level(1, 1, Peak(11, 600, 60)), 3600 + 6 * 600, id="several peaks"),
    ],
)
def test_a_level_adds_up_over_time(level: Level, total: float) -> None:
    assert level.total(0, 3600) == pytest.approx(total)
    assert level.mean(0, 3600) == pytest.approx(total / 3600)


@given(seeds, st.floats(min_value=0, max_value=7200), st.floats(min_value=0, max_value=7200))
def test_parts_of_a_total_add_up_to_the_whole(seed: int, first: float, second: float) -> None:
    level = Level(2, 9, Peak(20, 700, 45), seed)
    middle, end = sorted((first, second))

    parts = level.total(0, middle) + level.total(middle, end)

    assert parts == pytest.approx(level.total(0, end))


def test_a_total_follows_the_value_of_each_minute() -> None:
    level = Level(0, 1, seed=3)

    expected = sum(60 * level.at(minute * 60) for minute in range(10))

    assert level.total(0, 600) == pytest.approx(expected)
