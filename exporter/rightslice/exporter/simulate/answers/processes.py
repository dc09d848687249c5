"""The processes on a card and on its slices."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import ALL_ONES, SUCCESS
from rightslice.exporter.simulate.card import NEVER, SimulatedCard
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.slices import MigDevice

FIRST_PROCESS_ID = 4242
# So that a process keeps its id when others of its card end.
PROCESS_IDS_PER_CARD, PROCESS_IDS_PER_INSTANCE = 1000, 10
NOT_AVAILABLE = 2**64 - 1
# How far back the driver's samples of single processes go.
USE_RING_SECONDS = 10.0
MICROSECONDS_PER_SECOND = 1_000_000

KINDS = {"Compute": "compute", "Graphics": "graphics", "MPSCompute": "mps"}


class Row(NamedTuple):
    """A process as the driver lists it; `memory_bytes` is None where it does not tell."""

    pid: int
    memory_bytes: int | None
    gpu_instance_id: int = ALL_ONES
    compute_instance_id: int = ALL_ONES


def _of_card(device: Device, kind: str) -> list[Row]:
    card = device.card
    if device.mig.enabled:
        return [row for each in device.mig_devices for row in _of_mig_device(each, kind)]
    if card.processes:
        there = device.processes_at(device.now_seconds())
        return [Row(each.pid, each.memory_bytes) for each in there if each.kind == kind]
    if kind != "compute" or not card.process_count:
        return []
    used_bytes = int(card.memory_used_bytes.at(device.now_seconds()))
    return [Row(pid, used_bytes // card.process_count) for pid in _counted_ids(card)]


def _counted_ids(card: SimulatedCard) -> list[int]:
    """Give the ids of processes of which only the number is said."""
    return [FIRST_PROCESS_ID + slot for slot in range(card.process_count)]


def _of_mig_device(mig_device: MigDevice, kind: str) -> list[Row]:
    """Let one process run on each compute instance while its GPU instance holds memory."""
    instance, compute = mig_device.gpu_instance, mig_device.compute_instance
    device = mig_device.device
    used_bytes = int(instance.said.memory_used_bytes.at(device.now_seconds()))
    if kind != "compute" or not used_bytes:
        return []
    pid = FIRST_PROCESS_ID + device.index * PROCESS_IDS_PER_CARD
    pid += instance.id * PROCESS_IDS_PER_INSTANCE + compute.id
    return [Row(pid, used_bytes // len(instance.compute_instances), instance.id, compute.id)]


def _utilisation(device: Device, array: Any, count: Any, since_us: Any) -> int:
    """Tell the mean share of each process since a stamp, as far back as the driver's ring goes."""
    if device.mig.enabled:
        return boundary.NOT_SUPPORTED
    now_seconds = device.now_seconds()
    since_seconds = boundary.number(since_us) / MICROSECONDS_PER_SECOND
    since_seconds = max(since_seconds, now_seconds - USE_RING_SECONDS, device.start_seconds)
    if since_seconds >= now_seconds:
        return boundary.NOT_FOUND
    percents = _percents(device, since_seconds, now_seconds)
    rows = [(pid, percent) for pid, percent in percents.items() if percent]
    return _write_use(rows, int(now_seconds * MICROSECONDS_PER_SECOND), count, array)


def _percents(device: Device, since_seconds: float, now_seconds: float) -> dict[int, int]:
    """Give each process's share; where none is said to have any, the card's time evenly."""
    card, there = device.card, device.processes_at(now_seconds)
    if all(process.busy_ratio is NEVER for process in there):
        ids = [each.pid for each in there] or _counted_ids(card)
        each_ratio = card.busy_ratio.mean(since_seconds, now_seconds) / max(len(ids), 1)
        return dict.fromkeys(ids, round(100 * each_ratio))
    percents = {}
    for process in there:
        first_seconds = max(since_seconds, device.start_seconds + process.since_seconds)
        if first_seconds < now_seconds:
            mean_ratio = process.busy_ratio.mean(first_seconds, now_seconds)
            # Before it came it had nothing.
            mean_ratio *= (now_seconds - first_seconds) / (now_seconds - since_seconds)
            percents[process.pid] = round(100 * mean_ratio)
    return percents


def _write_use(rows: list[tuple[int, int]], stamp_us: int, count: Any, array: Any) -> int:
    if not rows:
        return boundary.NOT_FOUND
    refusal = boundary.told_size(count, array, len(rows))
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(array, pynvml.c_nvmlProcessUtilizationSample_t)
    for slot, (pid, percent) in enumerate(rows):
        sample = slots[slot]
        sample.pid, sample.timeStamp, sample.smUtil = pid, stamp_us, percent
    return SUCCESS


def _write(rows: Sequence[Row], count: Any, array: Any) -> int:
    refusal = boundary.told_size(count, array, len(rows))
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(array, pynvml.c_nvmlProcessInfo_v2_t)
    for slot, row in enumerate(rows):
        process = slots[slot]
        process.pid = row.pid
        process.usedGpuMemory = NOT_AVAILABLE if row.memory_bytes is None else row.memory_bytes
        process.gpuInstanceId = row.gpu_instance_id
        process.computeInstanceId = row.compute_instance_id
    return SUCCESS


def _table(rows_of: Callable[[Any, str], list[Row]]) -> dict[str, boundary.Function]:
    """Make the function of each kind; the structs of both versions are the same."""

    def function(kind: str) -> boundary.Function:
        return lambda found, count, array: _write(rows_of(found, kind), count, array)

    return {
        f"nvmlDeviceGet{name}RunningProcesses_{version}": function(kind)
        for name, kind in KINDS.items()
        for version in ("v2", "v3")
    }


ON_CARDS = {**_table(_of_card), "nvmlDeviceGetProcessUtilization": _utilisation}
ON_MIG_DEVICES = _table(_of_mig_device)
