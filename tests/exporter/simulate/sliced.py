"""Cards cut into slices, for the tests of MIG, and how a program finds its way on them."""

import ctypes
from typing import Any

import pynvml
from support.simulated import BYTES_PER_MIB, constant, simulated_card

from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.scenario import SimulatedCard
from rightslice.facts.cards import find_card
from rightslice.facts.mig import MigCard, find_mig_card

A100, H200 = "NVIDIA A100-SXM4-40GB", "NVIDIA H200"


def sliced(*instances: MigInstance, name: str = A100, **changes: Any) -> SimulatedCard:
    """Give a card cut into instances."""
    mig = Mig(instances=instances, privileged=changes.pop("privileged", True))
    return simulated_card(name=name, mig=mig, **changes)


def used(profile: str, start: int, mebibytes: int, **more: Any) -> MigInstance:
    return MigInstance(profile, start, constant(mebibytes * BYTES_PER_MIB), **more)


# 1g at 0, 1 and 5: five slices free, and room for neither 3g nor, but in one place, 2g.
FRAGMENTED = sliced(used("1g.5gb", 0, 3000), used("1g.5gb", 1, 1000), used("1g.5gb", 5, 0))
TWO_IN_ONE = sliced(
    used("3g.71gb", 4, 40_000, compute=(2, 1)),
    used("2g.35gb", 0, 500),
    MigInstance("1g.18gb", 2, compute=()),
    name=H200,
)


def layout(name: str) -> MigCard:
    card = find_card(name)
    assert card is not None
    assert card.mig_id is not None
    found = find_mig_card(card.mig_id)
    assert found is not None
    return found


def profile_ids(handle: Any) -> dict[str, int]:
    """Enumerate the card's profiles as a program has to: name without "MIG " to id."""
    ids = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
        except pynvml.NVMLError_NotSupported:
            continue
        ids[info.name.removeprefix("MIG ")] = info.id
    return ids


def gpu_instances(handle: Any, profile: str) -> list[Any]:
    """Give the handles of the card's instances of one profile."""
    handles = (pynvml.c_nvmlGpuInstance_t * 8)()
    count = ctypes.c_uint()
    profile_id = profile_ids(handle)[profile]
    pynvml.nvmlDeviceGetGpuInstances(handle, profile_id, handles, ctypes.byref(count))
    return list(handles[: count.value])
