"""vGPUs of a simulated host, and what a simulated guest sees."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, START_SECONDS, constant, simulated_card

from rightslice.exporter.simulate.card import Ecc, Mig, Pcie, Vgpu, VgpuInstance
from rightslice.exporter.simulate.load import Level, Peak
from rightslice.exporter.simulate.read.section import Section
from rightslice.exporter.simulate.read.slices import VGPU_KEYS, vgpu_of

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
    ("vm_id", "kind"),
    [
        pytest.param("17", pynvml.NVML_VGPU_VM_ID_DOMAIN_ID, id="domain id"),
        pytest.param(
            "1f0f5f55-6b7b-4e0b-8f3e-0a7f5d9c2b11", pynvml.NVML_VGPU_VM_ID_UUID, id="UUID"
        ),
    ],
)
def test_a_vgpu_tells_its_virtual_machine(vm_id: str, kind: int, play: Play) -> None:
    handle = play(host(VgpuInstance("A100D-4C", vm_id=vm_id))).handle()
    (vgpu,) = pynvml.nvmlDeviceGetActiveVgpus(handle)

    # Inside a tuple the binding does not make text of bytes.
    assert pynvml.nvmlVgpuInstanceGetVmID(vgpu) == (vm_id.encode(), kind)


def test_machines_without_an_id_have_one_made_up(play: Play) -> None:
    handle = play(host(*INSTANCES)).handle()
    vgpus = pynvml.nvmlDeviceGetActiveVgpus(handle)

    told = [pynvml.nvmlVgpuInstanceGetVmID(vgpu) for vgpu in vgpus]

    assert len({vm_id for vm_id, _ in told}) == 2
    assert {kind for _, kind in told} == {pynvml.NVML_VGPU_VM_ID_UUID}


def test_a_scenario_names_the_virtual_machine() -> None:
    rows = [{"type": "A100D-4C", "vm_id": "17"}, {"type": "A100D-4C"}]
    section = Section("test", {"instances": rows}, VGPU_KEYS)

    assert [each.vm_id for each in vgpu_of(section, "test").instances] == ["17", None]


def log_entries(handle: Any) -> list[Any]:
    log = pynvml.nvmlDeviceGetVgpuSchedulerLog_v2(handle, pynvml.c_nvmlVgpuSchedulerLogInfo_v2_t())
    return list(log.logEntries[: log.entriesCount])


def test_the_scheduler_s_log_tells_as_much_busy_time_as_the_vgpus_have(play: Play) -> None:
    node = play(host(*INSTANCES))
    node.clock.advance(10)
    now_ns = int(node.clock.now_seconds()) * 10**9

    half_a_second = [
        row for row in log_entries(node.handle()) if row.timestamp > now_ns - 5 * 10**8
    ]

    first, second = sorted({row.swRunlistId for row in half_a_second}, reverse=True)
    assert sum(row.timeRun for row in half_a_second if row.swRunlistId == first) == 25_000_000
    assert sum(row.timeRun for row in half_a_second if row.swRunlistId == second) == 125_000_000


def test_the_scheduler_serves_in_turn_and_one_at_a_time(play: Play) -> None:
    vgpus = (VgpuInstance("A100D-10C", busy_ratio=constant(0.005)),) * 2
    handle = play(host(*vgpus, VgpuInstance("A100D-10C", busy_ratio=constant(0.045)))).handle()

    entries = log_entries(handle)

    frame = [row for row in entries if row.timestamp > entries[-1].timestamp - 6_000_000]
    assert [row.timeRun for row in frame] == [500_000, 500_000, 2_000_000, 2_000_000, 500_000]
    assert {row.targetTimeSlice for row in entries} == {2_000_000}
    starts = [row.timestamp - row.timeRun for row in entries]
    assert all(end.timestamp <= start for end, start in zip(entries, starts[1:], strict=False))


def test_more_work_than_fits_keeps_the_card_full_and_no_more(play: Play) -> None:
    vgpus = (VgpuInstance("A100D-10C", busy_ratio=constant(0.8)),) * 2
    handle = play(host(*vgpus)).handle()

    entries = log_entries(handle)

    assert len(entries) == pynvml.NVML_SCHEDULER_SW_MAX_LOG_ENTRIES
    first_ns = entries[0].timestamp - entries[0].timeRun
    assert sum(row.timeRun for row in entries) == entries[-1].timestamp - first_ns


def test_both_versions_of_the_log_tell_the_same(play: Play) -> None:
    handle = play(host(*INSTANCES)).handle()

    older, newer = pynvml.nvmlDeviceGetVgpuSchedulerLog(handle), log_entries(handle)

    assert [row.timestamp for row in older.logEntries[: older.entriesCount]] == [
        row.timestamp for row in newer
    ]
    assert older.schedulerPolicy == pynvml.NVML_VGPU_SCHEDULER_POLICY_BEST_EFFORT


def test_an_idle_card_has_an_empty_log(play: Play) -> None:
    assert log_entries(play(host(VgpuInstance("A100D-4C"))).handle()) == []


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetHostVgpuMode, id="mode"),
        pytest.param(pynvml.nvmlDeviceGetActiveVgpus, id="vGPUs"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetVgpuUtilization(handle, 0), id="use"),
        pytest.param(pynvml.nvmlDeviceGetVgpuSchedulerState, id="scheduler"),
        pytest.param(pynvml.nvmlDeviceGetVgpuSchedulerLog, id="log"),
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
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetVgpuSchedulerLog(handle)


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
