"""Who is on a card, as far as the driver lists it, and how the card is shared."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_CONTEXTS,
    GPU_PROCESSES_VISIBLE,
    GPU_SHARING_INFO,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.processes import ProcessLists
from rightslice.exporter.host.nvml.vgpu import VgpuReader
from rightslice.exporter.host.process import count_visible
from rightslice.exporter.tenants import listed_processes


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


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    uuid = (gpu.id,)
    mode = sharing_mode(gpu)
    if mode is not None:
        yield Sample(GPU_SHARING_INFO, 1, (gpu.id, mode))
    if gpu.identity.has_mig_on:  # processes of all instances are for the privileged
        return
    processes = listed_processes(gpu)
    if processes is None:
        return
    process_ids = {process.process_id for process in processes}
    yield Sample(GPU_CONTEXTS, len(process_ids), uuid)
    yield Sample(GPU_PROCESSES_VISIBLE, count_visible(gpu.attribution.procfs, process_ids), uuid)
    if (failure := gpu.reader(ProcessLists).failure) is not None:
        raise failure


COLLECTOR = Collector(
    (GPU_SHARING_INFO, GPU_CONTEXTS, GPU_PROCESSES_VISIBLE),
    devices=lambda host: host.gpus,
    collect=collect,
    every_seconds=5.0,
)
