"""The scenarios that ship, played: what their descriptions promise is what NVML answers."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pynvml
import pytest
from support.simulated import START_SECONDS

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.pci import PciBuses
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.scenario import load_scenario, scenario_names

from .conftest import PlayScenario, code_of

# All that asks nothing but a handle.
READINGS: dict[str, Callable[[Any], Any]] = {
    name: getattr(pynvml, name)
    for name in (
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetAddressingMode",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetActiveVgpus",
        "nvmlGpmQueryDeviceSupport",
    )
}
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
# How a simulated card may say that it has no such reading, or none for us.
ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    NO_PERMISSION,
)
# Those in which the driver lists fewer cards than there are.
FEWER_CARDS = {"late-driver", "card-missing"}


@pytest.mark.parametrize("name", sorted(set(scenario_names()) - FEWER_CARDS))
def test_every_scenario_answers_or_says_that_it_cannot(
    name: str, play_scenario: PlayScenario
) -> None:
    scenario = load_scenario(name)
    node = play_scenario(scenario)
    pynvml.nvmlInit()

    codes = {
        code_of(partial(read, node.handle(index)))
        for index in range(len(scenario.cards))
        for read in READINGS.values()
    }

    assert pynvml.nvmlDeviceGetCount() == len(scenario.cards)
    assert codes <= {pynvml.NVML_SUCCESS, *ABSENT}


def test_a_late_driver_comes_in_three_steps(play_scenario: PlayScenario) -> None:
    node = play_scenario(load_scenario("late-driver"))

    codes = [code_of(pynvml.nvmlInit)]
    node.clock.advance(10)
    codes.append(code_of(pynvml.nvmlInit))
    node.clock.advance(15)
    codes.append(code_of(pynvml.nvmlInit))

    assert codes == [
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_SUCCESS,
    ]
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(node.handle()) == 0


def test_the_lost_card_is_lost_after_a_minute_and_alone(play_scenario: PlayScenario) -> None:
    node = play_scenario(load_scenario("lost-card"))
    handles = [node.handle(index) for index in range(8)]
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handles[3], pynvml.nvmlEventTypeXidCriticalError, events)
    node.clock.advance(60)

    codes = [code_of(partial(pynvml.nvmlDeviceGetMemoryInfo, each)) for each in handles]

    assert codes == [0, 0, 0, pynvml.NVML_ERROR_GPU_IS_LOST, 0, 0, 0, 0]
    assert pynvml.nvmlDeviceGetCount() == 8
    assert pynvml.nvmlEventSetWait_v2(events, 0).eventData == 79


def test_the_missing_card_is_on_the_buses_and_never_listed() -> None:
    scenario, clock = load_scenario("card-missing"), ManualClock(START_SECONDS)
    with simulated_machine(scenario, clock.clock()) as machine:
        pynvml.nvmlInit()
        uuids = [
            pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
            for index in range(pynvml.nvmlDeviceGetCount())
        ]

        assert uuids == [card.uuid for card in scenario.cards if card is not scenario.cards[3]]
        assert PciBuses(machine.paths.sysfs).card_count() == 8


def test_who_is_not_privileged_sees_instances_and_not_where_they_lie(
    play_scenario: PlayScenario,
) -> None:
    handle = play_scenario(load_scenario("mig-unprivileged")).handle()
    mig_devices = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(pynvml.NVMLError_NotFound):
            mig_devices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))

    used_mib = [pynvml.nvmlDeviceGetMemoryInfo(each).used // 2**20 for each in mig_devices]

    assert len(used_mib) == 3
    assert all(used_mib)
    assert code_of(partial(pynvml.nvmlDeviceGetMemoryInfo, handle)) == NO_PERMISSION
    assert code_of(partial(pynvml.nvmlDeviceGetGpuInstanceById, handle, 0)) == NO_PERMISSION


def test_the_reloaded_driver_counts_from_0(play_scenario: PlayScenario) -> None:
    node = play_scenario(load_scenario("driver-reload"))
    handle = node.handle()
    node.clock.advance(39)
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    node.clock.advance(1)
    away = code_of(pynvml.nvmlInit)
    node.clock.advance(31)
    pynvml.nvmlInit()

    assert away == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert 0 < pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) < before / 10


def test_the_fragmented_card_has_no_place_for_3g(play_scenario: PlayScenario) -> None:
    handle = play_scenario(load_scenario("mig-fragmented")).handle()
    ids = {
        slices: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number).id
        for slices, number in ((3, 2), (2, 1))
    }

    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, ids[3]) == 0
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, ids[2]) == 1


def test_the_host_has_one_vgpu_without_a_licence(play_scenario: PlayScenario) -> None:
    handle = play_scenario(load_scenario("vgpu-host")).handle()

    licensed = [
        pynvml.nvmlVgpuInstanceGetLicenseInfo_v2(vgpu).isLicensed
        for vgpu in pynvml.nvmlDeviceGetActiveVgpus(handle)
    ]

    assert licensed == [1, 1, 1, 0, 1]


def test_the_job_sends_over_nvlink_on_every_card(play_scenario: PlayScenario) -> None:
    node = play_scenario(load_scenario("nvlink-job"))
    node.clock.advance(10)

    sent = [
        pynvml.nvmlDeviceGetFieldValues(node.handle(index), [(138, 0xFFFFFFFF)])[0].value.ullVal
        for index in range(8)
    ]

    assert all(10 * 80e9 <= kibibytes * 1024 <= 10 * 120e9 + 1024 for kibibytes in sent)
    assert len(set(sent)) == 8


def test_the_throttled_cards_are_held_down_for_different_reasons(
    play_scenario: PlayScenario,
) -> None:
    node = play_scenario(load_scenario("throttling"))
    node.clock.advance(100)

    held_seconds = [
        [
            row.value.ullVal / 1e9
            for row in pynvml.nvmlDeviceGetFieldValues(node.handle(index), [74, 269, 270])
        ]
        for index in (0, 1)
    ]

    assert held_seconds == [[pytest.approx(30), 0, 0], [0, pytest.approx(50), pytest.approx(20)]]
