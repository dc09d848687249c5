"""Renders series as a Prometheus page, in the text or the OpenMetrics format, as asked for."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from rightslice.contract.spec import Kind, MetricSpec
from rightslice.exporter.aggregate import Series


class Page:
    """The registry that prometheus-client's encoders expect: something with `collect()`."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        for spec, rows in groupby(self._series, key=lambda row: row.spec):
            yield _family(spec, rows)


def _family(spec: MetricSpec, rows: Iterable[Series]) -> Metric:
    if spec.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(spec.name, spec.help, labels=spec.labels)
        edges = [floatToGoString(edge) for edge in (*spec.buckets, float("inf"))]
        for row in rows:
            if row.histogram is not None:
                buckets = list(zip(edges, accumulate(row.histogram.bins), strict=True))
                histogram.add_metric(row.labels, buckets, row.histogram.value_sum)
        return histogram
    family_type = CounterMetricFamily if spec.kind is Kind.COUNTER else GaugeMetricFamily
    family = family_type(spec.name, spec.help, labels=spec.labels)
    for row in rows:
        family.add_metric(row.labels, row.value)
    return family


def render(series: Iterable[Series], accept: str = "") -> tuple[bytes, str]:
    """Give the page and its content type, negotiated from the request's Accept header."""
    encoder, content_type = choose_encoder(accept)
    page: bytes = encoder(Page(series))
    return page, content_type
