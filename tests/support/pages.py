"""Metric pages as tests read them."""

from collections.abc import Iterable

from prometheus_client import parser as text_parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser

from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.sampler import Sampler

# Those whose figures are the same in each run: what this very process costs is not.
REPEATABLE_COLLECTORS = tuple(name for name in ENABLED if name != "own_process")
MOST_SERIES_PER_CARD = 170


def values(sampler: Sampler) -> dict[str, float]:
    """Give the sampler's page as a mapping of series, written as on the page, to values."""
    page, _ = sampler.page()
    rows = (line.rsplit(" ", 1) for line in page.decode().splitlines() if line[0] != "#")
    return {series: float(value) for series, value in rows}


def observed(uuid: str, signal: str) -> str:
    """Name the series of the seconds in which a card's signal was covered."""
    return f'rightslice_gpu_observed_seconds_total{{uuid="{uuid}",signal="{signal}"}}'


def failures(collector: str, device: str, reason: str) -> str:
    """Name the series of a collector's failures on a device."""
    labels = f'collector="{collector}",device="{device}",reason="{reason}"'
    return f"rightslice_collector_failures_total{{{labels}}}"


Parsed = list[tuple[str, dict[str, str], float]]


def from_text(page: bytes) -> Parsed:
    """Read a page of the text format as another client does: name, labels, value."""
    return _samples(text_parser.text_string_to_metric_families(page.decode()))


def from_openmetrics(page: bytes) -> Parsed:
    """Read a page of the OpenMetrics format as another client does: name, labels, value."""
    read = openmetrics_parser.text_string_to_metric_families
    return _samples(read(page.decode()))  # type: ignore[no-untyped-call]  # ships without types


def _samples(families: Iterable[Metric]) -> Parsed:
    return [
        (sample.name, sample.labels, float(sample.value))
        for family in families
        for sample in family.samples
    ]
