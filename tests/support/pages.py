"""Metric pages as tests read them."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from rightslice.exporter.sampler import Sampler


def values(sampler: Sampler) -> dict[str, float]:
    """Give the sampler's page as a mapping of series, written as on the page, to values."""
    page, _ = sampler.page()
    rows = (line.rsplit(" ", 1) for line in page.decode().splitlines() if line[0] != "#")
    return {series: float(value) for series, value in rows}


def parsed(families: Iterable[Metric]) -> list[tuple[str, dict[str, str], float]]:
    """Give the samples that another client's parser found: name, labels, value."""
    return [
        (sample.name, sample.labels, float(sample.value))
        for family in families
        for sample in family.samples
    ]
