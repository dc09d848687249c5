"""Quantiles of histograms with anybody's edges."""

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.engines.quantile import quantile

INF = math.inf


def test_a_quantile_is_interpolated_in_its_bucket() -> None:
    assert quantile({1.0: 50, 2.0: 100, INF: 100}, 0.99) == pytest.approx(1.98)


def test_above_the_last_finite_edge_that_edge_is_given() -> None:
    assert quantile({1.0: 10, INF: 100}, 0.99) == 1.0


@pytest.mark.parametrize(
    "cumulative",
    [
        pytest.param({}, id="no buckets"),
        pytest.param({1.0: 0.0, INF: 0.0}, id="no observations"),
        pytest.param({INF: 7.0}, id="no finite edge"),
    ],
)
def test_of_nothing_nothing_is_told(cumulative: dict[float, float]) -> None:
    assert quantile(cumulative, 0.99) is None


def test_buckets_that_fall_count_as_no_observations() -> None:
    assert quantile({1.0: 100, 2.0: 90, INF: 100}, 0.5) == pytest.approx(0.5)


def test_an_edge_below_zero_is_its_own_quantile() -> None:
    assert quantile({-1.0: 10, 0.0: 10, INF: 10}, 0.99) == -1.0


counts = st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(any)
rank = st.floats(0.01, 1.0)


@given(counts, rank)
def test_a_quantile_lies_in_the_bucket_that_holds_its_rank(bins: list[int], rank: float) -> None:
    edges = [float(edge) for edge in range(1, len(bins))]
    cumulative = dict(zip([*edges, INF], accumulate(bins), strict=True))

    found = quantile(cumulative, rank)

    assert found is not None
    below = sum(count for edge, count in zip(edges, bins, strict=False) if edge < found)
    assert below <= rank * sum(bins) * (1 + 1e-9)
    assert 0 <= found <= edges[-1]


@given(counts, rank, rank)
def test_a_higher_rank_never_has_a_lower_quantile(bins: list[int], one: float, two: float) -> None:
    edges = [*(float(edge) for edge in range(1, len(bins))), INF]
    cumulative = dict(zip(edges, accumulate(bins), strict=True))

    low, high = quantile(cumulative, min(one, two)), quantile(cumulative, max(one, two))

    assert low is not None
    assert high is not None
    assert low <= high + 1e-9
