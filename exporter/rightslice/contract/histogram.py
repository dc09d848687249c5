"""The one set of histogram edges, in the exporter and in the ledger alike.

Every tier's compute share C and C divided by the headroom factor 1.2 is an edge, so that whether a
workload fits a tier is decided by rank, exactly, without interpolation.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

# Ratio of a whole card, 0 to 1.
# fmt: off
RATIO_EDGES: tuple[float, ...] = (
    0.01, 0.02, 0.03, 1/24, 0.05, 5/96, 0.0625, 1/12, 0.10, 0.108, 5/42, 1/7, 0.20, 5/24, 5/21,
    0.25, 2/7, 0.32, 5/14, 0.40, 5/12, 3/7, 10/21, 0.5, 4/7, 0.75, 5/6, 1.0,
)
# fmt: on
# One bin per edge (upper edge included) and one above the last, which valid ratios never reach.
BIN_COUNT = len(RATIO_EDGES) + 1


def bin_index(ratio: float) -> int:
    """Tell the bin whose upper edge is the first one not below `ratio`."""
    return bisect_left(RATIO_EDGES, ratio)


def edge_at_or_below(ratio: float) -> float | None:
    """Give the highest edge that is not above `ratio`; None below the first edge."""
    # An edge equal to the ratio but for float noise counts as reached.
    index = bisect_left(RATIO_EDGES, ratio * (1 + 1e-12) + 1e-15)
    return RATIO_EDGES[index - 1] if index else None


def total_weight(bins: Sequence[float]) -> float:
    """Sum a histogram's bins."""
    return float(sum(bins))


def share_at_or_below(bins: Sequence[float], edge: float) -> float:
    """Give the share, 0 to 1, of the weight at or below `edge`; exact because it is an edge.

    Raises ValueError for an edge that is not one of `RATIO_EDGES`, or for an empty histogram.
    """
    index = bin_index(edge)
    if index >= len(RATIO_EDGES) or RATIO_EDGES[index] != edge:
        raise ValueError(f"{edge} is not a histogram edge")
    total = total_weight(bins)
    if total <= 0:
        raise ValueError("an empty histogram has no shares")
    return float(sum(bins[: index + 1])) / total


def mean_at_most(bins: Sequence[float]) -> float:
    """Give a bound that the mean is not above: each observation taken at its bin's upper edge."""
    total = total_weight(bins)
    if total <= 0:
        raise ValueError("an empty histogram has no mean")
    edges = (*RATIO_EDGES, RATIO_EDGES[-1])
    return sum(weight * edge for weight, edge in zip(bins, edges, strict=True)) / total


def quantile(bins: Sequence[float], rank: float) -> tuple[float, float, float]:
    """Interpolate the quantile at `rank` (0 to 1) for people to read: (value, lower, upper edge).

    The two edges say how far the value may be off. Decisions use `share_at_or_below` instead.
    """
    # Added up in order, so that rank 1 is reached: from Python 3.12 on sum() rounds differently.
    reached = list(accumulate(bins, initial=0.0))
    if reached[-1] <= 0:
        raise ValueError("an empty histogram has no quantiles")
    wanted = rank * reached[-1]
    index = next(i for i, weight in enumerate(bins) if weight > 0 and reached[i + 1] >= wanted)
    lower = RATIO_EDGES[index - 1] if index else 0.0
    upper = RATIO_EDGES[min(index, len(RATIO_EDGES) - 1)]
    return lower + (upper - lower) * max(wanted - reached[index], 0.0) / bins[index], lower, upper
