"""vGPUs of a simulated host, and what a simulated guest sees."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, START_SECONDS, constant, simulated_card

from rightslice.exporter.simulate.card import Ecc, Mig, Pcie, Vgpu, VgpuInstance
from rightslice.exporter.simulate.load import Level, Peak

from .conftest import Play

MICROSECONDS = 1_000_000
INSTANCES = (
    VgpuInstance("A100D-4C", constant(3000 * BYTES_PER_MIB), constant(0.05)),
    VgpuInstance("A100D-8C", constant(5000 * BYTES_PER_MIB), constant(0.25), licensed=False),
)


def host(*instances: VgpuInstance, scheduler: str = "best_effort", **changes: Any) -> Any:
    return simulated_card(
        name="NVIDIA A100 80GB PCIe",
        virtualization="host_vgpu",
        vgpu=Vgpu(scheduler, instances=instances),
        **changes,
    )


GUEST = simulated_card(
    name="GRID A100D-4C",
    virtualization="vgpu",
    memory_total_bytes=4096 * BYTES_PER_MIB,
    memory_reserved_bytes=0,
    memory_used_bytes=constant(1000 * BYTES_PER_MIB),
    power_watts=constant(100),
    temperature_celsius=constant(50),
    ecc=Ecc(),
    pcie=Pcie(16, 16, 4, 4),
    vgpu=Vgpu(licensed=False),
)


def test_a_host_lists_its_vgpus_with_type_and_licence(play: Play) -> None:
    handle = play(host(*INSTANCES)).handle()

    vgpus = pynvml.nvmlDeviceGetActiveVgpus(handle)
    types = [pynvml.nvmlVgpuInstanceGetType(vgpu) for vgpu in vgpus]
    licences = [pynvml.nvmlVgpuInstanceGetLicenseInfo_v2(vgpu) for vgpu in vgpus]

    assert [pynvml.nvmlVgpuTypeGetName(each) for each in types] == [
        "GRID A100D-4C",
        "GRID A100D-8C",
    ]
    assert [pynvml.nvmlVgpuTypeGetFramebufferSize(each) // BYTES_PER_MIB for each in types] == [
        4096,
        8192,
    ]
    assert [pynvml.nvmlVgpuTypeGetMaxInstances(handle, each) for each in types] == [20, 10]
    assert [licence.isLicensed for licence in licences] == [1, 0]
    assert len({pynvml.nvmlVgpuInstanceGetUUID(vgpu) for vgpu in vgpus}) == 2
    assert pynvml.nvmlDeviceGetHostVgpuMode(handle) == pynvml.NVML_HOST_VGPU_MODE_SRIOV
    assert pynvml.nvmlDeviceGetVirtualizationMode(handle) == 3


def test_ids_of_vgpus_are_different_on_different_cards(play: Play) -> None:
    node = play(host(*INSTANCES), host(*INSTANCES, uuid="GPU-0002"))

    ids = [each for index in (0, 1) for each in pynvml.nvmlDeviceGetActiveVgpus(node.handle(index))]

    assert len(set(ids)) == len({pynvml.nvmlVgpuInstanceGetUUID(each) for each in ids}) == 4


def test_memory_in_use_is_read_whole_by_those_who_give_room_for_64_bits(play: Play) -> None:
    node = play(host(*INSTANCES))
    _, large = pynvml.nvmlDeviceGetActiveVgpus(node.handle())
    used = ctypes.c_ulonglong()

    node.library.nvmlVgpuInstanceGetFbUsage(large, ctypes.byref(used))  # type: ignore[attr-defined]

    assert used.value == 5000 * BYTES_PER_MIB
    # What the binding does with it.
    assert pynvml.nvmlVgpuInstanceGetFbUsage(large) == (5000 - 4096) * BYTES_PER_MIB


def test_utilisation_is_of_the_whole_card_and_since_the_time_told(play: Play) -> None:
    node = play(host(*INSTANCES))
    handle = node.handle()
    since_us = int(START_SECONDS) * MICROSECONDS

    at_once = pynvml.nvmlDeviceGetVgpuUtilization(handle, since_us)
    node.clock.advance(5)
    later = pynvml.nvmlDeviceGetVgpuUtilization(handle, since_us)

    assert at_once == []
    assert [sample.vgpuInstance for sample in later] == pynvml.nvmlDeviceGetActiveVgpus(handle)
    assert [sample.smUtil.uiVal for sample in later] == [5, 25]
    assert {sample.timeStamp for sample in later} == {since_us + 5 * MICROSECONDS}


def test_utilisation_is_the_mean_since_the_time_told(play: Play) -> None:
    level = Level(0.2, 0.2, Peak(1.0, 3600, 5))
    node = play(host(VgpuInstance("A100D-4C", busy_ratio=level)))
    node.clock.advance(3600 - START_SECONDS % 3600)
    hour_us = int(node.clock.now_seconds()) * MICROSECONDS
    node.clock.advance(10)

    (sample,) = pynvml.nvmlDeviceGetVgpuUtilization(node.handle(), hour_us)

    assert sample.smUtil.uiVal == 60


def test_a_host_without_virtual_machines_has_none(play: Play) -> None:
    handle = play(host()).handle()

    assert pynvml.nvmlDeviceGetActiveVgpus(handle) == []
    assert pynvml.nvmlDeviceGetVgpuUtilization(handle, 0) == []


@pytest.mark.parametrize(
    ("scheduler", "policy", "average_factor"),
    [
        pytest.param("best_effort", pynvml.NVML_VGPU_SCHEDULER_POLICY_BEST_EFFORT, 0, id="best"),
        pytest.param("equal_share", pynvml.NVML_VGPU_SCHEDULER_POLICY_EQUAL_SHARE, 33, id="equal"),
        pytest.param("fixed_share", pynvml.NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE, 33, id="fixed"),
    ],
)
@pytest.mark.parametrize(
    ("type_name", "slice_ns"),
    [
        pytest.param("A100D-4C", 1_000_000, id="many sharers"),
        pytest.param("A100D-10C", 2_000_000, id="few sharers"),
    ],
)
def test_the_scheduler_tells_its_policy_and_slice(
    scheduler: str, policy: int, average_factor: int, type_name: str, slice_ns: int, play: Play
) -> None:
    handle = play(host(VgpuInstance(type_name), scheduler=scheduler)).handle()

    first = pynvml.nvmlDeviceGetVgpuSchedulerState(handle)
    second = pynvml.nvmlDeviceGetVgpuSchedulerState_v2(
        handle, pynvml.c_nvmlVgpuSchedulerStateInfo_v2_t()
    )

    assert first.schedulerPolicy == second.schedulerPolicy == policy
    assert (second.avgFactor, second.timeslice) == (average_factor, slice_ns)
    params = first.schedulerParams
    assert (
        params.vgpuSchedDataWithARR.timeslice if average_factor else params.vgpuSchedData.timeslice
    ) == slice_ns


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetHostVgpuMode, id="mode"),
        pytest.param(pynvml.nvmlDeviceGetActiveVgpus, id="vGPUs"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetVgpuUtilization(handle, 0), id="use"),
        pytest.param(pynvml.nvmlDeviceGetVgpuSchedulerState, id="scheduler"),
    ],
)
def test_a_card_that_is_no_host_does_not_tell_of_vgpus(
    read: Callable[[Any], Any], play: Play
) -> None:
    handle = play(simulated_card()).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(handle)


def test_the_scheduler_of_a_card_with_mig_is_not_told(play: Play) -> None:
    handle = play(host(mig=Mig())).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetVgpuSchedulerState(handle)


def test_an_unknown_vgpu_or_type_is_a_wrong_argument(play: Play) -> None:
    play(host())

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlVgpuInstanceGetUUID(99)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlVgpuTypeGetName(1)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetPowerUsage, id="power"),
        pytest.param(pynvml.nvmlDeviceGetTotalEnergyConsumption, id="energy"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0), id="temperature"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetFieldValues(handle, [83]), id="fields"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0), id="ECC"),
        pytest.param(pynvml.nvmlDeviceGetCurrPcieLinkWidth, id="PCIe"),
        pytest.param(pynvml.nvmlDeviceGetCurrentClocksEventReasons, id="clocks"),
        pytest.param(pynvml.nvmlDeviceGetMigMode, id="MIG"),
    ],
)
def test_a_guest_does_not_see_the_board(read: Callable[[Any], Any], play: Play) -> None:
    handle = play(GUEST).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(handle)


def test_a_guest_sees_its_share_and_its_licence(play: Play) -> None:
    handle = play(GUEST).handle()

    features = pynvml.nvmlDeviceGetGridLicensableFeatures_v4(handle)

    assert pynvml.nvmlDeviceGetVirtualizationMode(handle) == 2
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == 4096 * BYTES_PER_MIB
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 50
    assert (features.isGridLicenseSupported, features.licensableFeaturesCount) == (1, 1)
    assert features.gridLicensableFeatures[0].featureEnabled == 0
    assert pynvml.nvmlDeviceGetSupportedEventTypes(handle) == 0


def test_a_card_outside_a_guest_needs_no_licence(play: Play) -> None:
    features = pynvml.nvmlDeviceGetGridLicensableFeatures_v4(play(simulated_card()).handle())

    assert features.isGridLicenseSupported == 0
