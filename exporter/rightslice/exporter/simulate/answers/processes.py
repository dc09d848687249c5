"""The processes on a card and on its slices."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import ALL_ONES, SUCCESS
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.slices import MigDevice

FIRST_PROCESS_ID = 4242
# So that a process keeps its id when others of its card end.
PROCESS_IDS_PER_CARD, PROCESS_IDS_PER_INSTANCE = 1000, 10
NOT_AVAILABLE = 2**64 - 1

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
        return [Row(each.pid, each.memory_bytes) for each in card.processes if each.kind == kind]
    if kind != "compute" or not card.process_count:
        return []
    used_bytes = int(card.memory_used_bytes.at(device.now_seconds()))
    return [
        Row(FIRST_PROCESS_ID + slot, used_bytes // card.process_count)
        for slot in range(card.process_count)
    ]


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


ON_CARDS = _table(_of_card)
ON_MIG_DEVICES = _table(_of_mig_device)
