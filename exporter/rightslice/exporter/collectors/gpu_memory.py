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
from rightslice.exporter.host.nvml.card import MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.mig import MigReader
from rightslice.exporter.plausible import is_plausible


def card_memory(gpu: NvmlCard) -> MemoryReading | None:
    """Read the card's memory; None where it has none, or where MIG keeps it from us."""
    try:
        return gpu.memory()
    except NvmlError as error:
        if gpu.identity.has_mig_on and error.reason is Reason.PERMISSION:
            gpu.calls.answered = True  # the card is there, and tells this to the privileged only
            return None
        raise


def instances_memory(gpu: NvmlCard) -> list[MemoryReading] | None:
    """Give the memory of each MIG instance; None where it is not that which tells the card's use.

    With MIG on, an unprivileged caller is told the card's total at most, and of its use nothing.
    """
    reader = gpu.reader(MigReader)
    layout = reader.layout()
    if layout.profiles is not None:
        return None
    parts = [reader.memory(instance) for instance in layout.instances]
    return [part for part in parts if part is not None]


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    memory = card_memory(gpu)
    parts = instances_memory(gpu) if gpu.identity.has_mig_on else None
    if memory is None and parts is None:  # unified memory: the host's is not this card's
        return
    uuid = (gpu.id,)
    if not all(is_plausible(reading) for reading in (memory, *(parts or ())) if reading):
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_memory", "out_of_range"))
        return
    if memory is not None:
        yield Sample(GPU_MEMORY_TOTAL_BYTES, memory.total_bytes, uuid)
        if memory.reserved_bytes is not None:
            yield Sample(GPU_MEMORY_RESERVED_BYTES, memory.reserved_bytes, uuid)
    used = memory.used_bytes if memory is not None else 0
    if parts is not None:
        used = sum(part.used_bytes for part in parts)
    yield Sample(GPU_MEMORY_USED_BYTES, used, uuid)
    yield Sample(GPU_MEMORY_USED_PEAK_BYTES, used, uuid)
    if memory is not None:
        yield Sample(GPU_MEMORY_USED_RATIO, used / memory.total_bytes, uuid, covered_seconds)
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
