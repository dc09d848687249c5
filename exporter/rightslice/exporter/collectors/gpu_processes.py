"""Who is on a card, as far as the driver lists it, and how the card is shared."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_CONTEXTS,
    GPU_MEMORY_UNATTRIBUTED_BYTES,
    GPU_PROCESSES_VISIBLE,
    GPU_SHARING_INFO,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.collectors.gpu_memory import is_plausible
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.processes import GpuProcess, ProcessLists
from rightslice.exporter.host.nvml.vgpu import VgpuReader
from rightslice.exporter.host.process import count_visible


def sharing_mode(gpu: NvmlCard) -> str | None:
    """Tell how the card is shared; None where neither its mode nor processes tell."""
    if gpu.identity.has_mig_on:
        return "mig"
    if gpu.identity.is_guest:
        return "guest"
    if gpu.identity.is_vgpu_host:
        return gpu.reader(VgpuReader).policy()
    lists = gpu.reader(ProcessLists)
    if lists.mps():
        return "mps"
    compute = lists.compute()
    if compute is None:
        return None
    return "timeslice" if len({row.process_id for row in compute}) > 1 else "exclusive"


def unattributed_bytes(gpu: NvmlCard, processes: list[GpuProcess]) -> int | None:
    """Give used memory of no process; None where the memory of some process is not told.

    None on a vGPU host as well: guests hold its memory, by processes that only they see.
    """
    if gpu.identity.is_vgpu_host:
        return None
    sizes = [process.used_bytes for process in processes]
    told = [size for size in sizes if size is not None]
    memory = gpu.memory()
    if len(told) < len(sizes) or memory is None or not is_plausible(memory):
        return None
    if memory.reserved_bytes is None or any(size > memory.total_bytes for size in told):
        return None
    return max(memory.used_bytes - sum(told), 0)


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    uuid = (gpu.id,)
    mode = sharing_mode(gpu)
    if mode is not None:
        yield Sample(GPU_SHARING_INFO, 1, (gpu.id, mode))
    if gpu.identity.has_mig_on:  # processes of all instances are for the privileged
        return
    processes = gpu.reader(ProcessLists).every()
    if processes is None:
        return
    process_ids = {process.process_id for process in processes}
    yield Sample(GPU_CONTEXTS, len(process_ids), uuid)
    yield Sample(GPU_PROCESSES_VISIBLE, count_visible(gpu.procfs, process_ids), uuid)
    left_bytes = unattributed_bytes(gpu, processes)
    if left_bytes is not None:
        yield Sample(GPU_MEMORY_UNATTRIBUTED_BYTES, left_bytes, uuid)


COLLECTOR = Collector(
    (GPU_SHARING_INFO, GPU_CONTEXTS, GPU_PROCESSES_VISIBLE, GPU_MEMORY_UNATTRIBUTED_BYTES),
    devices=lambda host: host.gpus,
    collect=collect,
    every_seconds=5.0,
)
