"""GPU and compute instances of a simulated card: profiles, places, and what still fits."""

import ctypes
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, simulated_card

from rightslice.exporter.simulate.card import Mig, MigInstance

from .conftest import Play
from .sliced import (
    A100,
    FRAGMENTED,
    H200,
    TWO_IN_ONE,
    gpu_instances,
    layout,
    profile_ids,
    sliced,
)


def capacity(handle: Any) -> dict[str, int]:
    """Ask how many more instances of each profile fit."""
    return {
        name: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, profile_id)
        for name, profile_id in profile_ids(handle).items()
    }


@pytest.mark.parametrize("name", [A100, "NVIDIA A30", H200, "NVIDIA A100 80GB PCIe"])
@pytest.mark.parametrize("mig", [Mig(), None], ids=["MIG on", "MIG off"])
def test_profiles_are_those_of_the_facts(name: str, mig: Mig | None, play: Play) -> None:
    handle = play(simulated_card(name=name, mig=mig)).handle()
    known = [row for row in layout(name).profiles if row.name != "2g.12gb+me"]  # its id is not

    ids = profile_ids(handle)

    assert set(ids) == {row.name for row in known}
    assert len(set(ids.values())) == len(ids)


@pytest.mark.parametrize("version", [1, 2])
def test_a_profile_s_figures_are_those_of_the_facts(version: int, play: Play) -> None:
    handle = play(sliced()).handle()
    profile = next(row for row in layout(A100).profiles if row.name == "3g.20gb")

    info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(
        handle, pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE, version=version
    )

    assert (info.id, info.sliceCount, info.instanceCount) == (9, 3, profile.max_per_card)
    assert info.multiprocessorCount == profile.sm_count
    assert info.memorySizeMB * BYTES_PER_MIB == profile.memory_bytes
    assert (info.copyEngineCount, info.decoderCount) == (3, 2)


def test_a_profile_is_found_by_its_id_too(play: Play) -> None:
    handle = play(sliced()).handle()

    assert pynvml.nvmlDeviceGetGpuInstanceProfileInfoById(handle, 14).name == "MIG 2g.10gb"


def test_placements_are_told_at_once_or_counted_first(play: Play) -> None:
    handle = play(FRAGMENTED).handle()
    profile_id = profile_ids(handle)["3g.20gb"]
    count = ctypes.c_uint()

    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        handle, profile_id, places, ctypes.byref(count)
    )

    assert [(place.start, place.size) for place in places] == [(0, 4), (4, 4)]


def test_a_fragmented_card_has_room_for_small_ones_only(play: Play) -> None:
    room = capacity(play(FRAGMENTED).handle())

    assert room == {
        "1g.5gb": 4,
        "1g.5gb+me": 1,
        "1g.10gb": 2,
        "2g.10gb": 1,
        "3g.20gb": 0,
        "4g.20gb": 0,
        "7g.40gb": 0,
    }


def test_an_empty_card_has_room_for_all_that_its_profiles_allow(play: Play) -> None:
    room = capacity(play(sliced()).handle())

    assert room == {row.name: row.max_per_card for row in layout(A100).profiles}


def test_a_second_instance_with_media_engines_never_fits(play: Play) -> None:
    room = capacity(play(sliced(MigInstance("1g.5gb+me", 0))).handle())

    assert (room["1g.5gb+me"], room["1g.5gb"]) == (0, 6)


def test_instances_tell_their_place(play: Play) -> None:
    handle = play(FRAGMENTED).handle()

    infos = [
        pynvml.nvmlGpuInstanceGetInfo(instance) for instance in gpu_instances(handle, "1g.5gb")
    ]

    assert [(info.placement.start, info.placement.size) for info in infos] == [
        (0, 1),
        (1, 1),
        (5, 1),
    ]
    assert [info.id for info in infos] == [7, 8, 12]
    assert {info.profileId for info in infos} == {profile_ids(handle)["1g.5gb"]}
    assert pynvml.nvmlDeviceGetUUID(infos[0].device) == "GPU-0001"
    assert gpu_instances(handle, "3g.20gb") == []


def test_an_instance_is_found_by_its_id(play: Play) -> None:
    handle = play(sliced(MigInstance("2g.10gb", 2, id=5))).handle()

    info = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(handle, 5))

    assert (info.id, info.placement.start) == (5, 2)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetGpuInstanceById(handle, 6)


def test_compute_instances_tell_their_place_in_their_gpu_instance(play: Play) -> None:
    handle = play(TWO_IN_ONE).handle()
    (instance,) = gpu_instances(handle, "3g.71gb")
    (empty,) = gpu_instances(handle, "1g.18gb")

    profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 1, 0)
    small, small_count = (pynvml.c_nvmlComputeInstance_t * 3)(), ctypes.c_uint()
    pynvml.nvmlGpuInstanceGetComputeInstances(instance, 0, small, ctypes.byref(small_count))
    none, no_count = (pynvml.c_nvmlComputeInstance_t * 3)(), ctypes.c_uint(9)
    pynvml.nvmlGpuInstanceGetComputeInstances(empty, 0, none, ctypes.byref(no_count))
    info = pynvml.nvmlComputeInstanceGetInfo_v2(small[0])

    assert (profile.name, profile.sliceCount) == ("MIG 2c.3g.71gb", 2)
    assert (profile.multiprocessorCount, profile.instanceCount) == (32, 1)
    assert (small_count.value, no_count.value) == (1, 0)
    assert (info.id, info.placement.start, info.placement.size) == (1, 2, 1)
    assert pynvml.nvmlGpuInstanceGetInfo(info.gpuInstance).profileId == 9
    assert pynvml.nvmlDeviceGetUUID(info.device) == "GPU-0001"


def test_instances_of_a_card_with_mig_off_are_not_supported(play: Play) -> None:
    handle = play(simulated_card()).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceById(handle, 1)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, 19)
