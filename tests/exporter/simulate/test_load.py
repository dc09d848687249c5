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
