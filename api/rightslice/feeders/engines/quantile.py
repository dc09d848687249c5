"""Quantiles of a histogram with anybody's edges."""

import math
from collections.abc import Mapping


def quantile(cumulative: Mapping[float, float], rank: float) -> float | None:
    """Interpolate the quantile at `rank` (0 to 1) from counts at or below each edge.

    None where nothing was observed, or where no edge is finite. Above the last finite edge nobody
    knows how far it lies: that edge is given, and means "at least".
    """
    edges = sorted(cumulative)
    total = max(cumulative.values(), default=0.0)
    if total <= 0:
        return None
    wanted = rank * total
    lower, below = 0.0, 0.0
    last_finite = None
    for edge in edges:
        count = max(cumulative[edge], below)
        if math.isinf(edge):
            break
        last_finite = edge
        if count >= wanted and count > below:
            start = min(lower, edge)
            return start + (edge - start) * max(wanted - below, 0.0) / (count - below)
        lower, below = edge, count
    return last_finite
