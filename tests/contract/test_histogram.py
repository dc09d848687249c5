"""Shares are exact at an edge; quantiles say how far they may be off."""

from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.contract.histogram import (
    BIN_COUNT,
    RATIO_EDGES,
    bin_index,
    edge_at_or_below,
    quantile,
    share_at_or_below,
    total_weight,
)

HEADROOM_FACTOR = 1.2

ratios = st.floats(min_value=0, max_value=1)
edges = st.sampled_from(RATIO_EDGES)
ranks = st.floats(min_value=0, max_value=1)
observations = st.lists(ratios, min_size=1, max_size=60)
weights = st.lists(
    st.floats(min_value=0, max_value=1e6), min_size=BIN_COUNT, max_size=BIN_COUNT
).filter(lambda bins: sum(bins) > 1e-6)


def bins_of(values: list[float]) -> list[float]:
    """Count observations into bins."""
    indices = [bin_index(value) for value in values]
    return [float(indices.count(index)) for index in range(BIN_COUNT)]


def test_edges_rise_from_above_zero_to_the_whole_card() -> None:
    assert list(RATIO_EDGES) == sorted(set(RATIO_EDGES))
    assert RATIO_EDGES[0] > 0
    assert RATIO_EDGES[-1] == 1.0
    assert len(RATIO_EDGES) + 1 == BIN_COUNT


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(1 / 20, id="twentieth"),
        pytest.param(1 / 16, id="sixteenth"),
        pytest.param(1 / 10, id="tenth"),
        pytest.param(1 / 7, id="1g of seven"),
        pytest.param(1 / 4, id="1g of four"),
        pytest.param(2 / 7, id="2g of seven"),
        pytest.param(3 / 7, id="3g of seven"),
        pytest.param(1 / 2, id="half"),
        pytest.param(4 / 7, id="4g of seven"),
        pytest.param(1.0, id="whole"),
    ],
)
def test_a_tier_share_is_an_edge_with_and_without_headroom(share: float) -> None:
    assert share in RATIO_EDGES
    assert edge_at_or_below(share / HEADROOM_FACTOR) == pytest.approx(
        share / HEADROOM_FACTOR, rel=1e-9
    )


@pytest.mark.parametrize(
    ("ratio", "index"),
    [
        pytest.param(0.0, 0, id="zero"),
        pytest.param(0.01, 0, id="on the first edge"),
        pytest.param(0.0100001, 1, id="just above the first edge"),
        pytest.param(1.0, BIN_COUNT - 2, id="whole card"),
        pytest.param(1.1, BIN_COUNT - 1, id="more than there is"),
    ],
)
def test_a_bin_holds_its_upper_edge(ratio: float, index: int) -> None:
    assert bin_index(ratio) == index


@pytest.mark.parametrize(
    ("ratio", "edge"),
    [
        pytest.param(0.0099, None, id="below the first edge"),
        pytest.param(0.01, 0.01, id="the first edge"),
        pytest.param(0.3 / HEADROOM_FACTOR, 0.25, id="an edge but for float noise"),
        pytest.param(0.2499, 5 / 21, id="between two edges"),
        pytest.param(7.0, 1.0, id="above the last edge"),
    ],
)
def test_the_edge_below_a_ratio_is_found(ratio: float, edge: float | None) -> None:
    assert edge_at_or_below(ratio) == edge


@given(st.floats(min_value=RATIO_EDGES[0], max_value=2))
def test_no_edge_lies_between_a_ratio_and_the_edge_found_below_it(ratio: float) -> None:
    edge = edge_at_or_below(ratio)

    assert edge is not None
    assert edge <= ratio * (1 + 1e-9)
    assert not [other for other in RATIO_EDGES if edge < other <= ratio]


@settings(deadline=None)
@given(observations, edges)
def test_a_share_is_the_exact_share_of_the_observations(values: list[float], edge: float) -> None:
    share = share_at_or_below(bins_of(values), edge)

    assert share == sum(value <= edge for value in values) / len(values)


@settings(deadline=None)
@given(weights)
def test_shares_rise_with_the_edge_to_no_more_than_one(bins: list[float]) -> None:
    shares = [share_at_or_below(bins, edge) for edge in RATIO_EDGES]

    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert shares[-1] <= 1 + 1e-9


@pytest.mark.parametrize("edge", [0.0, 0.3, 1.5], ids=["below", "between", "above"])
def test_a_share_is_refused_where_it_would_not_be_exact(edge: float) -> None:
    with pytest.raises(ValueError, match="not a histogram edge"):
        share_at_or_below([1.0] * BIN_COUNT, edge)


def test_an_empty_histogram_has_neither_shares_nor_quantiles() -> None:
    with pytest.raises(ValueError, match="no shares"):
        share_at_or_below([0.0] * BIN_COUNT, 0.5)
    with pytest.raises(ValueError, match="no quantiles"):
        quantile([0.0] * BIN_COUNT, 0.5)


def test_a_quantile_is_interpolated_within_its_bin() -> None:
    bins = [0.0] * BIN_COUNT
    bins[RATIO_EDGES.index(1.0)] = 10.0

    assert quantile(bins, 0.5) == pytest.approx(((5 / 6 + 1.0) / 2, 5 / 6, 1.0))


def test_the_lowest_bin_starts_at_zero() -> None:
    bins = [4.0] + [0.0] * (BIN_COUNT - 1)

    assert quantile(bins, 0.5) == pytest.approx((0.005, 0.0, 0.01))


def test_what_lies_above_the_whole_card_is_shown_as_the_whole_card() -> None:
    bins = [0.0] * (BIN_COUNT - 1) + [1.0]

    assert quantile(bins, 0.99) == (1.0, 1.0, 1.0)


# Added one by one, ten times 0.1 is less than 1, which is what an exact sum gives.
def test_rounding_of_weights_moves_no_quantile_out_of_the_bins_in_use() -> None:
    bins = [0.1] * 10 + [0.0] * (BIN_COUNT - 10)

    value, lower, upper = quantile(bins, 1.0)

    assert (lower, upper) == (RATIO_EDGES[8], RATIO_EDGES[9])
    assert value == pytest.approx(upper)


@settings(deadline=None)
@given(weights, ranks)
def test_a_quantile_lies_between_the_edges_that_it_names(bins: list[float], rank: float) -> None:
    value, lower, upper = quantile(bins, rank)

    assert lower <= value <= upper + 1e-12
    assert bins[bisect_left(RATIO_EDGES, upper)] > 0 or bins[-1] > 0


@settings(deadline=None)
@given(weights, ranks, ranks)
def test_a_higher_rank_never_gives_a_lower_quantile(
    bins: list[float], rank: float, other: float
) -> None:
    low, high = sorted((rank, other))

    assert quantile(bins, low)[0] <= quantile(bins, high)[0] + 1e-9


@settings(deadline=None)
@given(observations, st.integers(min_value=1, max_value=64))
def test_the_named_edges_enclose_the_true_quantile(values: list[float], sixty_fourths: int) -> None:
    # The smallest observation with at least that share at or below it.
    position = -(-sixty_fourths * len(values) // 64)
    true_quantile = sorted(values)[position - 1]

    _, lower, upper = quantile(bins_of(values), sixty_fourths / 64)

    assert lower <= true_quantile <= upper


def test_the_total_weight_is_the_sum_of_the_bins() -> None:
    assert total_weight([1, 2.5, 0]) == 3.5
