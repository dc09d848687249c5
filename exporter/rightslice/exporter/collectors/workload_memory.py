"""Memory of each workload on a card, and what of the card's memory is nobody's."""

from collections.abc import Iterable, Iterator, Mapping

from rightslice.contract.metrics import GPU_MEMORY_UNATTRIBUTED_BYTES, SIGNAL_MEMORY
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    GPU_MEMORY_HIDDEN_BYTES,
    WORKLOAD_MEMORY_USED_BYTES,
    WORKLOAD_MEMORY_USED_PEAK_BYTES,
    WORKLOAD_MEMORY_USED_RATIO,
    WORKLOAD_OBSERVED_SECONDS_TOTAL,
)
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.processes import GpuProcess
from rightslice.exporter.host.whereabouts import Stay
from rightslice.exporter.plausible import is_plausible
from rightslice.exporter.tenancy import Part, Tenancy, labels_of
from rightslice.exporter.tenants import Promises, Tenants, room_of

# By GPU instance; None where that is not told.
Rooms = Mapping[str, MemoryReading | None]


def used_bytes(processes: list[GpuProcess], most_bytes: int) -> int | None:
    """Add up the memory of processes; None where one is not told, or cannot be."""
    total_bytes = 0
    for process in processes:
        if process.used_bytes is None or process.used_bytes > most_bytes:
            return None
        total_bytes += process.used_bytes
    return total_bytes


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    tenants = gpu.reader(Tenants)
    tenancy = tenants.read()
    rooms = {part.gpu_instance_id: room_of(gpu, part) for part in _one_each(tenancy)}
    stays = list(_stays(gpu, tenancy, rooms))
    gpu.attribution.whereabouts.note(gpu.id, stays, gpu.attribution.now_seconds())
    for part, stay in zip(tenancy.parts, stays, strict=True):
        is_shared = tenants.has_shared(part.key)
        yield from _part(labels_of(gpu.id, part.key), stay, covered_seconds, is_shared=is_shared)
    if tenancy.is_listed and not gpu.identity.has_mig_on:
        yield from _rest(gpu, tenancy)


def _one_each(tenancy: Tenancy) -> Iterable[Part]:
    """Give a part of each instance, or of the card, on which anybody is."""
    return {part.gpu_instance_id: part for part in tenancy.parts}.values()


def _stays(gpu: NvmlCard, tenancy: Tenancy, rooms: Rooms) -> Iterator[Stay]:
    """Tell who is on the card, with how much memory."""
    promises = gpu.reader(Promises).least_bytes
    for part in tenancy.parts:
        room = rooms[part.gpu_instance_id]
        used = None
        if room is not None and tenancy.is_seen(part):
            used = used_bytes(part.processes, room.total_bytes)
        yield Stay(
            part.workload,
            gpu.id,
            part.gpu_instance_id,
            frozenset(process.process_id for process in part.processes),
            used,
            promises.get(part.key),
            None if room is None else room.total_bytes,
            None if room is None else room.used_bytes,
        )


def _part(
    labels: tuple[str, ...], stay: Stay, covered_seconds: float, *, is_shared: bool
) -> Iterator[Sample]:
    used, all_bytes = stay.used_bytes, stay.room_bytes
    if used is None or all_bytes is None or used > all_bytes:
        return
    yield Sample(WORKLOAD_OBSERVED_SECONDS_TOTAL, covered_seconds, (*labels, SIGNAL_MEMORY))
    yield Sample(WORKLOAD_MEMORY_USED_BYTES, used, labels)
    yield Sample(WORKLOAD_MEMORY_USED_PEAK_BYTES, used, labels)
    if is_shared:
        yield Sample(WORKLOAD_MEMORY_USED_RATIO, used / all_bytes, labels, covered_seconds)


def _rest(gpu: NvmlCard, tenancy: Tenancy) -> Iterator[Sample]:
    """Tell what is of hidden processes, and what is of none."""
    memory = gpu.memory()
    if memory is None or not is_plausible(memory):
        return
    hidden = used_bytes(tenancy.hidden, memory.total_bytes)
    if hidden is None:
        return
    yield Sample(GPU_MEMORY_HIDDEN_BYTES, hidden, (gpu.id,))
    owned_processes = [row for part in tenancy.parts for row in part.processes]
    owned = used_bytes(owned_processes, memory.total_bytes)
    # A driver that counts its reserve as used would have us call that nobody's.
    if owned is not None and memory.reserved_bytes is not None:
        left_bytes = max(memory.used_bytes - owned - hidden, 0)
        yield Sample(GPU_MEMORY_UNATTRIBUTED_BYTES, left_bytes, (gpu.id,))


COLLECTOR = Collector(
    (
        WORKLOAD_OBSERVED_SECONDS_TOTAL,
        WORKLOAD_MEMORY_USED_BYTES,
        WORKLOAD_MEMORY_USED_PEAK_BYTES,
        WORKLOAD_MEMORY_USED_RATIO,
        GPU_MEMORY_HIDDEN_BYTES,
        GPU_MEMORY_UNATTRIBUTED_BYTES,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
)
