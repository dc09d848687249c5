"""MIG mode, and the MIG devices of a card."""

from typing import Any

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.answers.gpu_instances import (
    SHARED_ENGINE_MEMBERS,
    write_engines,
)
from rightslice.exporter.simulate.answers.readings import (
    write_memory,
    write_old_memory,
    write_text,
)
from rightslice.exporter.simulate.boundary import SUCCESS, store
from rightslice.exporter.simulate.card import BYTES_PER_MIB
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.slices import MigDevice


def _mode(device: Device, current: Any, pending: Any) -> int:
    if device.layout is None:
        return boundary.NOT_SUPPORTED
    store(current, int(device.mig.enabled))
    return store(pending, int(device.mig.pending))


def _max_count(device: Device) -> int:
    layout = device.layout
    return layout.max_count if layout is not None and device.mig.enabled else 0


def _device_at(device: Device, index: Any, reference: Any) -> int:
    wanted = boundary.number(index)
    if device.layout is None:
        return boundary.NOT_SUPPORTED
    if wanted >= device.layout.max_count:
        return boundary.INVALID_ARGUMENT
    for each in device.mig_devices:
        if each.index == wanted:
            boundary.write_handle(reference, each.handle)
            return SUCCESS
    return boundary.NOT_FOUND


def _parent(mig: MigDevice, reference: Any) -> int:
    boundary.write_handle(reference, mig.device.handle)
    return SUCCESS


def _attributes(mig: MigDevice, reference: Any) -> int:
    profile, compute = mig.gpu_instance.profile, mig.compute_instance
    attributes = boundary.target(reference)
    attributes.multiprocessorCount = compute.sm_count
    write_engines(attributes, SHARED_ENGINE_MEMBERS, profile)
    attributes.gpuInstanceSliceCount = profile.compute_slices
    attributes.computeInstanceSliceCount = compute.slice_count
    attributes.memorySizeMB = profile.memory_mib
    return SUCCESS


def _name(mig: MigDevice) -> str:
    return f"{mig.device.card.name} MIG {mig.compute_instance.profile_name}"


def _memory_parts(mig: MigDevice) -> tuple[int, int, int]:
    """Give the memory of the GPU instance, which its compute instances share."""
    instance = mig.gpu_instance
    used_bytes = instance.said.memory_used_bytes.at(mig.device.now_seconds())
    return instance.profile.memory_mib * BYTES_PER_MIB, int(used_bytes), 0


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetMigMode": _mode,
    "nvmlDeviceGetMaxMigDeviceCount": lambda device, count: store(count, _max_count(device)),
    "nvmlDeviceGetMigDeviceHandleByIndex": _device_at,
    "nvmlDeviceIsMigDeviceHandle": lambda device, is_mig: store(is_mig, 0),
}
ON_MIG_DEVICES: dict[str, boundary.Function] = {
    "nvmlDeviceIsMigDeviceHandle": lambda mig, is_mig: store(is_mig, 1),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": _parent,
    "nvmlDeviceGetGpuInstanceId": lambda mig, number: store(number, mig.gpu_instance.id),
    "nvmlDeviceGetComputeInstanceId": lambda mig, number: store(number, mig.compute_instance.id),
    "nvmlDeviceGetAttributes_v2": _attributes,
    "nvmlDeviceGetUUID": lambda mig, buffer, length: write_text(buffer, mig.uuid),
    "nvmlDeviceGetName": lambda mig, buffer, length: write_text(buffer, _name(mig)),
    "nvmlDeviceGetComputeMode": lambda mig, mode: store(mode, 0),
    "nvmlDeviceGetMemoryInfo": lambda mig, memory: write_old_memory(memory, *_memory_parts(mig)),
    "nvmlDeviceGetMemoryInfo_v2": lambda mig, memory: write_memory(memory, *_memory_parts(mig)),
}
