"""Renders series as a Prometheus page, in the text or the OpenMetrics format.

Our own renderer, because a scrape is the agent's hot path: the text before each value is made once
and kept, a scrape formats values only. prometheus-client's encoder takes 8 times as long.
"""

import math
from collections.abc import Iterable
from itertools import accumulate

from rightslice.contract.spec import Kind, MetricSpec
from rightslice.exporter.aggregate import Series
from rightslice.exporter.lives import Labels

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# Series come and go; what is kept for those that went is dropped at this multiple.
KEPT_PER_SERIES = 4


def escaped(value: str, *, quotes: bool = True) -> str:
    """Escape a label value, or a help text (where quotes stay as they are)."""
    value = value.replace("\\", r"\\").replace("\n", r"\n")
    return value.replace('"', r"\"") if quotes else value


def number(value: float) -> str:
    """Write a value as Prometheus reads it."""
    if math.isfinite(value):
        return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _head(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{label}="{escaped(value)}"' for label, value in pairs)
    return f"{name}{{{text}}} " if text else f"{name} "


class Renderer:
    """Renders pages for one process. Not thread-safe: its owner guards it."""

    def __init__(self) -> None:
        self._heads: dict[tuple[MetricSpec, Labels], tuple[str, ...]] = {}

    def render(self, series: Iterable[Series], accept: str = "") -> tuple[bytes, str]:
        """Give the page and its content type. `series` are ordered by metric.

        The format is OpenMetrics where the request's Accept header asks for it.
        """
        openmetrics = "application/openmetrics-text" in accept
        lines: list[str] = []
        spec: MetricSpec | None = None
        row_count = 0
        for row_count, row in enumerate(series, start=1):  # noqa: B007  # counted after the loop
            if row.spec is not spec:
                spec = row.spec
                family = spec.name
                if openmetrics and spec.kind is Kind.COUNTER:
                    family = family.removesuffix("_total")
                lines.append(f"# HELP {family} {escaped(spec.help, quotes=False)}")
                lines.append(f"# TYPE {family} {spec.kind}")
            lines += self._sample_lines(row)
        if openmetrics:
            lines.append("# EOF")
        if len(self._heads) > KEPT_PER_SERIES * row_count:
            self._heads.clear()
        page = "\n".join(lines) + "\n"
        return page.encode(
            errors="replace"
        ), OPENMETRICS_CONTENT_TYPE if openmetrics else TEXT_CONTENT_TYPE

    def _sample_lines(self, row: Series) -> Iterable[str]:
        key = (row.spec, row.labels)
        heads = self._heads.get(key)
        if heads is None:
            heads = self._heads[key] = tuple(_heads(row.spec, row.labels))
        histogram = row.histogram
        if histogram is None:
            return (heads[0] + number(row.value),)
        counts = list(accumulate(histogram.bins))
        lines = [head + repr(count) for head, count in zip(heads, counts, strict=False)]
        lines.append(heads[-2] + number(histogram.value_sum))
        lines.append(heads[-1] + repr(counts[-1]))
        return lines


def _heads(spec: MetricSpec, labels: Labels) -> Iterable[str]:
    """Make the text before each value of a series: for a histogram buckets, sum and count."""
    pairs = list(zip(spec.labels, labels, strict=True))
    if spec.kind is not Kind.HISTOGRAM:
        yield _head(spec.name, pairs)
        return
    for edge in (*map(repr, spec.buckets), "+Inf"):
        yield _head(f"{spec.name}_bucket", [*pairs, ("le", edge)])
    yield _head(f"{spec.name}_sum", pairs)
    yield _head(f"{spec.name}_count", pairs)
