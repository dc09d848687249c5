"""GPU instances and compute instances: profiles, placements, and what still fits."""

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import SUCCESS, store
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.mig_layout import Layout, Profile
from rightslice.exporter.simulate.slices import ComputeInstance, GpuInstance
from rightslice.facts.mig import MEDIA_KINDS

ENGINE_MEMBERS = {
    "ce": "copyEngineCount",
    "dec": "decoderCount",
    "enc": "encoderCount",
    "jpg": "jpegCount",
    "ofa": "ofaCount",
}
SHARED_ENGINE_MEMBERS = {
    "ce": "sharedCopyEngineCount",
    "dec": "sharedDecoderCount",
    "enc": "sharedEncoderCount",
    "jpg": "sharedJpegCount",
    "ofa": "sharedOfaCount",
}
# NVML's number for a compute instance of so many slices, which is its profile's id as well.
COMPUTE_SLICES = {
    pynvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE: 1,
    pynvml.NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE: 2,
    pynvml.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE: 3,
    pynvml.NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE: 4,
    pynvml.NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE: 7,
}
Search = Callable[[Layout, int], Profile | None]


def _profile_info(search: Search, *, has_name: bool) -> boundary.Function:
    def answer(device: Device, wanted: Any, reference: Any) -> int:
        layout = device.layout
        profile = search(layout, boundary.number(wanted)) if layout is not None else None
        if profile is None:
            return boundary.NOT_SUPPORTED
        info = boundary.target(reference)
        info.id, info.isP2pSupported = profile.id, 0
        info.sliceCount, info.instanceCount = profile.compute_slices, profile.max_count
        info.multiprocessorCount, info.memorySizeMB = profile.sm_count, profile.memory_mib
        write_engines(info, ENGINE_MEMBERS, profile)
        if has_name:
            info.name = f"MIG {profile.name}".encode()
        return SUCCESS

    return answer


def write_engines(info: Any, members: dict[str, str], profile: Profile) -> None:
    """Fill in how many engines of each kind a profile has."""
    for engine, member in members.items():
        setattr(info, member, profile.engines.get(engine, 0))


def _with_profile(answer: boundary.Function) -> boundary.Function:
    """Make a function that takes a profile's id; an unknown one is a wrong argument."""

    def call(device: Device, profile_id: Any, *arguments: Any) -> int:
        if device.layout is None:
            return boundary.NOT_SUPPORTED
        profile = device.layout.with_id(boundary.number(profile_id))
        if profile is None:
            return boundary.INVALID_ARGUMENT
        return answer(device, profile, *arguments)

    return call


def _placements(device: Device, profile: Profile, array: Any, count: Any) -> int:
    """Give all places, free or not; without an array, only their count."""
    placements = sorted(profile.placements)
    if array is None:
        return store(count, len(placements))
    refusal = boundary.told_size(count, array, len(placements))
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(array, pynvml.c_nvmlGpuInstancePlacement_t)
    for slot, (start, size) in enumerate(placements):
        slots[slot].start, slots[slot].size = start, size
    return SUCCESS


def _capacity(device: Device, profile: Profile, reference: Any) -> int:
    if not device.mig.enabled:
        return boundary.NOT_SUPPORTED
    return store(reference, remaining(profile, device.gpu_instances))


def remaining(profile: Profile, instances: Sequence[GpuInstance]) -> int:
    """Count how many more instances of one profile fit."""
    if profile.kind in MEDIA_KINDS and any(gi.profile.kind in MEDIA_KINDS for gi in instances):
        return 0
    taken = {
        memory_slice
        for gi in instances
        for memory_slice in range(gi.said.start, gi.said.start + gi.profile.size)
    }
    fitting = 0
    for start, size in sorted(profile.placements):
        wanted = set(range(start, start + size))
        if not wanted & taken:
            taken |= wanted
            fitting += 1
    same = sum(gi.profile is profile for gi in instances)
    return min(fitting, profile.max_count - same)


def _instances(device: Device, profile: Profile, array: Any, count: Any) -> int:
    if not device.mig.enabled:
        return boundary.NOT_SUPPORTED
    handles = [gi.handle for gi in device.gpu_instances if gi.profile is profile]
    return _write_list(handles, array, count)


def _write_list(handles: list[int], array: Any, count: Any) -> int:
    """Fill an array that the caller made for as many as there can be; NVML asks for no size."""
    boundary.write_handles(array, handles)
    return store(count, len(handles))


def _instance_by_id(device: Device, wanted: Any, reference: Any) -> int:
    if not device.mig.enabled:
        return boundary.NOT_SUPPORTED
    for instance in device.gpu_instances:
        if instance.id == boundary.number(wanted):
            boundary.write_handle(reference, instance.handle)
            return SUCCESS
    return boundary.NOT_FOUND


def _instance_info(instance: GpuInstance, reference: Any) -> int:
    info = boundary.target(reference)
    boundary.write_handle(info, instance.device.handle)  # the struct's first member
    info.id, info.profileId = instance.id, instance.profile.id
    info.placement.start, info.placement.size = instance.said.start, instance.profile.size
    return SUCCESS


def _compute_profile_info(*, has_name: bool) -> boundary.Function:
    def answer(instance: GpuInstance, wanted: Any, engines: Any, reference: Any) -> int:
        number = boundary.number(wanted)
        slice_count, profile = COMPUTE_SLICES.get(number), instance.profile
        if slice_count is None or slice_count > profile.compute_slices:
            return boundary.NOT_SUPPORTED
        example = ComputeInstance(instance, 0, 0, slice_count, 0)
        info = boundary.target(reference)
        info.id, info.sliceCount = number, slice_count
        info.instanceCount = profile.compute_slices // slice_count
        info.multiprocessorCount = example.sm_count
        write_engines(info, SHARED_ENGINE_MEMBERS, profile)
        if has_name:
            info.name = f"MIG {example.profile_name}".encode()
        return SUCCESS

    return answer


def _compute_instances(instance: GpuInstance, profile_id: Any, array: Any, count: Any) -> int:
    slice_count = COMPUTE_SLICES.get(boundary.number(profile_id))
    if slice_count is None:
        return boundary.INVALID_ARGUMENT
    handles = [ci.handle for ci in instance.compute_instances if ci.slice_count == slice_count]
    return _write_list(handles, array, count)


def _compute_info(compute: ComputeInstance, reference: Any) -> int:
    info = boundary.target(reference)
    pynvml_device, pynvml_instance = compute.device.handle, compute.gpu_instance.handle
    boundary.write_handles(reference, (pynvml_device, pynvml_instance))  # its first two members
    info.id = compute.id
    info.profileId = next(
        number for number, slices in COMPUTE_SLICES.items() if slices == compute.slice_count
    )
    info.placement.start, info.placement.size = compute.start, compute.slice_count
    return SUCCESS


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetGpuInstanceProfileInfo": _profile_info(Layout.with_number, has_name=False),
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_info(Layout.with_number, has_name=True),
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": _profile_info(Layout.with_id, has_name=True),
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _with_profile(_placements),
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _with_profile(_capacity),
    "nvmlDeviceGetGpuInstances": _with_profile(_instances),
    "nvmlDeviceGetGpuInstanceById": _instance_by_id,
}
ON_GPU_INSTANCES: dict[str, boundary.Function] = {
    "nvmlGpuInstanceGetInfo": _instance_info,
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": _compute_profile_info(has_name=False),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile_info(has_name=True),
    "nvmlGpuInstanceGetComputeInstances": _compute_instances,
}
ON_COMPUTE_INSTANCES: dict[str, boundary.Function] = {
    "nvmlComputeInstanceGetInfo_v2": _compute_info,
}
