"""What each card is, from NVML: read when it is found, and told also while it does not answer."""

from collections.abc import Iterator
from contextlib import suppress

from rightslice.contract.metrics import GPU_INFO, GPU_MIG_ENABLED
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.mig import MigReader


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    card = gpu.identity
    if not gpu.memory_kind:
        with suppress(NvmlError):  # the memory collector meets the same failure, and tells it
            gpu.memory()
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
    if card.mig:
        yield Sample(GPU_MIG_ENABLED, card.has_mig_on, (gpu.id, "current"))
        is_pending = None
        with suppress(NvmlError):  # a card that stops answering is still what it was
            is_pending = gpu.reader(MigReader).is_pending()
        if is_pending is not None:
            yield Sample(GPU_MIG_ENABLED, is_pending, (gpu.id, "pending"))


COLLECTOR = Collector(
    (GPU_INFO, GPU_MIG_ENABLED),
    devices=lambda host: host.gpus,
    collect=collect,
    every_seconds=30.0,
    is_lasting=True,  # an alert on a lost card has to say which one it is
)
