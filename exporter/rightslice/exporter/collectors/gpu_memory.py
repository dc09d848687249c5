"""Card memory, from NVML's v2 call: what processes hold, with the driver's reserve apart."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_MEMORY_RESERVED_BYTES,
    GPU_MEMORY_TOTAL_BYTES,
    GPU_MEMORY_USED_BYTES,
    GPU_MEMORY_USED_PEAK_BYTES,
    GPU_MEMORY_USED_RATIO,
    GPU_OBSERVED_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
    SIGNAL_MEMORY,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml import MemoryReading, NvmlCard


def is_plausible(memory: MemoryReading) -> bool:
    """Refuse sentinels and underflows: a card has memory, and no more of it in use than it has."""
    return 0 < memory.total_bytes < 1 << 50 and 0 <= memory.used_bytes <= memory.total_bytes


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    memory = gpu.memory()
    if memory is None:  # unified memory: the host's memory is not this card's
        return
    if not is_plausible(memory):
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_memory", "out_of_range"))
        return
    uuid = (gpu.id,)
    yield Sample(GPU_MEMORY_TOTAL_BYTES, memory.total_bytes, uuid)
    yield Sample(GPU_MEMORY_USED_BYTES, memory.used_bytes, uuid)
    yield Sample(GPU_MEMORY_USED_PEAK_BYTES, memory.used_bytes, uuid)
    if memory.reserved_bytes is not None:
        yield Sample(GPU_MEMORY_RESERVED_BYTES, memory.reserved_bytes, uuid)
    yield Sample(
        GPU_MEMORY_USED_RATIO, memory.used_bytes / memory.total_bytes, uuid, covered_seconds
    )
    yield Sample(GPU_OBSERVED_SECONDS_TOTAL, covered_seconds, (gpu.id, SIGNAL_MEMORY))


COLLECTOR = Collector(
    (
        GPU_MEMORY_TOTAL_BYTES,
        GPU_MEMORY_USED_BYTES,
        GPU_MEMORY_USED_PEAK_BYTES,
        GPU_MEMORY_RESERVED_BYTES,
        GPU_MEMORY_USED_RATIO,
        GPU_OBSERVED_SECONDS_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
)
