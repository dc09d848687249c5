"""Bytes that a card moves over NVLink and PCIe."""

from collections.abc import Iterator

from rightslice.contract.metrics import GPU_NVLINK_BYTES_TOTAL, GPU_PCIE_BYTES_TOTAL
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.traffic import TrafficReader


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    pcie, nvlink = gpu.reader(TrafficReader).read()
    for spec, directions in ((GPU_PCIE_BYTES_TOTAL, pcie), (GPU_NVLINK_BYTES_TOTAL, nvlink)):
        for direction, so_far_bytes in directions.items():
            yield Sample(spec, so_far_bytes, (gpu.id, direction), is_total=True)


COLLECTOR = Collector(
    (GPU_NVLINK_BYTES_TOTAL, GPU_PCIE_BYTES_TOTAL),
    devices=lambda host: (card for card in host.gpus if not card.identity.is_guest),
    collect=collect,
    every_seconds=10.0,
)
