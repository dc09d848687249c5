"""Histograms lose nothing on their way into the ledger and back but fractions of a millisecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger.levels import bin_seconds, levels_of

COUNTS = st.lists(st.floats(0, 3600), min_size=BIN_COUNT, max_size=BIN_COUNT)


def test_only_levels_that_occur_are_kept() -> None:
    bins = [0.0] * BIN_COUNT
    bins[3], bins[28] = 2.5, 1.0

    assert levels_of(bins, 60.0) == ([3, 28], [150_000, 60_000])


def test_no_histogram_is_no_histogram() -> None:
    assert levels_of(None, 60.0) == (None, None)


def test_an_amount_below_a_millisecond_takes_no_room() -> None:
    assert levels_of([0.000_000_1] + [0.0] * (BIN_COUNT - 1), 60.0) == ([], [])


def test_a_histogram_of_other_edges_is_refused() -> None:
    with pytest.raises(ValueError, match="29 bins, got 3"):
        levels_of([1.0, 2.0, 3.0], 60.0)


@given(COUNTS, st.sampled_from([1.0, 15.0, 60.0]))
def test_a_histogram_comes_back_to_the_millisecond(counts: list[float], interval: float) -> None:
    levels, amounts = levels_of(counts, interval)

    seconds = bin_seconds(zip(levels or (), amounts or (), strict=True))

    assert seconds or not any(count * interval >= 0.0005 for count in counts)
    for count, back in zip(counts, seconds or [0.0] * BIN_COUNT, strict=True):
        assert back == pytest.approx(count * interval, abs=0.000_51)
