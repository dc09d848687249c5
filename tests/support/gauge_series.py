"""Stored series of gauges, as a Prometheus gives them, in tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rightslice.feeders.gauges.sightings import Floats


@dataclass(frozen=True, slots=True)
class Stored:
    """One series and its samples."""

    labels: Mapping[str, str]
    stamps: Floats
    values: Floats


def stored(name: str, labels: Mapping[str, str], samples: Iterable[tuple[float, float]]) -> Stored:
    """Make a series of (seconds, value)."""
    rows = list(samples)
    return Stored(
        {"__name__": name, **labels},
        np.array([seconds for seconds, _ in rows], dtype=float),
        np.array([value for _, value in rows], dtype=float),
    )


def cut(series: Sequence[Stored], edges: Iterable[float]) -> list[list[Stored]]:
    """Cut series into spans of time that end at the edges, and what is after them."""
    spans, start = [], -np.inf
    for end in (*sorted(edges), np.inf):
        span = []
        for one in series:
            inside = (one.stamps > start) & (one.stamps <= end)
            if inside.any():
                span.append(Stored(one.labels, one.stamps[inside], one.values[inside]))
        spans.append(span)
        start = end
    return spans
