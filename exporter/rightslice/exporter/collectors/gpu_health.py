"""What changes seldom on a card: ECC counts, remapped rows, the state of its links."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_ECC_ERRORS_TOTAL,
    GPU_NVLINK_LINKS,
    GPU_PCIE_LINK_GENERATION,
    GPU_PCIE_LINK_WIDTH,
    GPU_ROW_REMAP,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.health import HealthReader

PCIE_SPECS = {"width": GPU_PCIE_LINK_WIDTH, "generation": GPU_PCIE_LINK_GENERATION}


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    reader = gpu.reader(HealthReader)
    return every_part(
        _ecc(gpu, reader), _rows(gpu, reader), _nvlink(gpu, reader), _pcie(gpu, reader)
    )


def _ecc(gpu: NvmlCard, reader: HealthReader) -> Iterator[Sample]:
    for kind, ecc in reader.ecc_errors().items():
        labels = (gpu.id, kind)
        yield Sample(GPU_ECC_ERRORS_TOTAL, ecc.count, labels, is_total=True, subject=ecc.counter)


def _rows(gpu: NvmlCard, reader: HealthReader) -> Iterator[Sample]:
    for state, count in reader.remapped_rows().items():
        yield Sample(GPU_ROW_REMAP, count, (gpu.id, state))


def _nvlink(gpu: NvmlCard, reader: HealthReader) -> Iterator[Sample]:
    for state, count in reader.nvlink_states().items():
        yield Sample(GPU_NVLINK_LINKS, count, (gpu.id, state))


def _pcie(gpu: NvmlCard, reader: HealthReader) -> Iterator[Sample]:
    for (what, which), number in reader.pcie_links().items():
        yield Sample(PCIE_SPECS[what], number, (gpu.id, which))


COLLECTOR = Collector(
    (
        GPU_ECC_ERRORS_TOTAL,
        GPU_ROW_REMAP,
        GPU_NVLINK_LINKS,
        GPU_PCIE_LINK_WIDTH,
        GPU_PCIE_LINK_GENERATION,
    ),
    devices=lambda host: (card for card in host.gpus if not card.identity.is_guest),
    collect=collect,
    every_seconds=60.0,
)
