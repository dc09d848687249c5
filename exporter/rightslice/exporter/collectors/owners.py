"""Keeps up to date whose processes are and who holds which card, and tells what cannot be read."""

from collections.abc import Iterator

from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import ATTRIBUTION_AVAILABLE
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.attribution import Attribution, Environments
from rightslice.exporter.host.host import Host


def parts(host: Host) -> tuple[Attribution | Environments, ...]:
    """Give what is refreshed, each in a lane of its own."""
    return (host.attribution, host.attribution.environments)


def collect(part: Attribution | Environments, covered_seconds: float) -> Iterator[Sample]:
    part.refresh()
    if isinstance(part, Attribution):
        for source, is_available in part.sources().items():
            yield Sample(ATTRIBUTION_AVAILABLE, is_available, (source,))


COLLECTOR = Collector((ATTRIBUTION_AVAILABLE,), devices=parts, collect=collect)
