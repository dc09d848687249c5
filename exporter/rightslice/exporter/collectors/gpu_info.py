"""What each card is, from NVML: read when the card is found, told at every scrape."""

from collections.abc import Iterator

from rightslice.contract.metrics import GPU_INFO
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml import NvmlCard


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    card = gpu.identity
    yield Sample(
        GPU_INFO,
        1,
        (
            card.uuid,
            str(card.index),
            card.name,
            card.pci_bus_id,
            gpu.driver_version,
            card.mig,
            card.virtualization,
            gpu.memory_kind,
        ),
    )


COLLECTOR = Collector((GPU_INFO,), devices=lambda host: host.gpus, collect=collect)
