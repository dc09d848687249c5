"""One page of our exporter, sorted."""

import pytest
from support.our_pages import CARD, head, told

from rightslice.contract.histogram import BIN_COUNT, RATIO_EDGES
from rightslice.feeders.ours.metrics import RULES_BY_NAME
from rightslice.feeders.ours.page import OurPage
from rightslice.feeders.readings import Reading

NAME = "gpu_busy_ratio_bucket"
(RULE,) = RULES_BY_NAME[f"rightslice_{NAME}"]


def buckets(counts: dict[int, float]) -> list[Reading]:
    """A histogram whose bins hold this many."""
    rows, below = [], 0.0
    for place, edge in enumerate((*map(repr, RATIO_EDGES), "+Inf")):
        below += counts.get(place, 0.0)
        rows.append(told(NAME, below, uuid=CARD, le=edge))
    return rows


def test_what_the_table_does_not_know_is_left_out() -> None:
    page = OurPage.of([told("gpu_power_watts", 5.0, uuid=CARD), *head()])

    assert "rightslice_gpu_power_watts" not in page.by_name
    assert page.node == "node-1"


def test_cumulative_buckets_become_bins() -> None:
    page = OurPage.of(buckets({3: 2.0, 5: 1.0}))

    ((_, bins),) = page.histograms(RULE).values()

    assert (bins[3], bins[5], sum(bins)) == (2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(buckets({3: 2.0})[1:], id="a bucket is missing"),
        pytest.param([*buckets({3: 2.0}), told(NAME, 1.0, uuid=CARD, le="0.05")], id="they fall"),
    ],
)
def test_a_broken_histogram_is_not_told(broken: list[Reading]) -> None:
    assert OurPage.of(broken).histograms(RULE) == {}


def test_a_whole_number_is_the_same_edge_in_either_spelling() -> None:
    readings = [
        told(
            NAME, each.value, uuid=CARD, le="1" if each.labels["le"] == "1.0" else each.labels["le"]
        )
        for each in buckets({3: 2.0})
    ]

    ((_, bins),) = OurPage.of(readings).histograms(RULE).values()

    assert len(bins) == BIN_COUNT


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        pytest.param("gpu_nvlink_bytes_total", 1e18, True, id="bytes of a fast link for weeks"),
        pytest.param("gpu_memory_total_bytes", 1e18, False, id="no memory is as large"),
        pytest.param("gpu_nvlink_bytes_total", 1e30, False, id="nothing is"),
        pytest.param("gpu_memory_total_bytes", -1.0, False, id="negative"),
        pytest.param("gpu_memory_total_bytes", float("nan"), False, id="no number"),
    ],
)
def test_what_can_be_no_reading_is_counted_and_left_out(
    name: str, value: float, *, is_kept: bool
) -> None:
    page = OurPage.of([told(name, value, uuid=CARD)])

    assert (len(page.by_name), page.rejected_count) == ((1, 0) if is_kept else (0, 1))


def test_an_interval_that_is_not_told_is_a_minute() -> None:
    assert OurPage.of(head()).interval_seconds("memory") == 20.0
    assert OurPage.of([]).interval_seconds("memory") == 60.0
