"""How many cards this node should show."""

from collections.abc import Iterator

from rightslice.contract.metrics import GPUS_EXPECTED
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.pci import PciBuses


def collect(pci: PciBuses, covered_seconds: float) -> Iterator[Sample]:
    count = pci.card_count()
    if count is not None:
        yield Sample(GPUS_EXPECTED, count)


COLLECTOR = Collector(
    (GPUS_EXPECTED,), devices=lambda host: (host.pci,), collect=collect, every_seconds=60.0
)
