"""The simulated NVML, seen through the real binding."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    START_SECONDS,
    Simulate,
    constant,
    simulated_card,
    simulated_scenario,
)

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.simulate.library import RING_SAMPLE_COUNT, installed
from rightslice.exporter.simulate.load import Level, Peak

SAMPLES = "nvmlDeviceGetSamples"
UTILISATION = pynvml.NVML_GPU_UTILIZATION_SAMPLES


def test_the_binding_finds_the_simulated_cards(simulate: Simulate) -> None:
    simulate(simulated_card(1), simulated_card(2))

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]

    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05"
    assert [pynvml.nvmlDeviceGetUUID(handle) for handle in handles] == ["GPU-0001", "GPU-0002"]


def test_an_index_that_does_not_exist_is_refused(simulate: Simulate) -> None:
    simulate(simulated_card())

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(1)


def test_a_function_that_is_not_simulated_is_missing_as_in_an_old_driver(
    simulate: Simulate,
) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetFanSpeed(handle)


def test_the_parts_of_the_memory_add_up(simulate: Simulate) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    first = pynvml.nvmlDeviceGetMemoryInfo(handle)

    assert second.total == second.used + second.free + second.reserved
    assert first.total == first.used + first.free
    assert first.used == second.used + second.reserved == 20914 * BYTES_PER_MIB


def test_a_memory_struct_of_another_version_is_refused(simulate: Simulate) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError) as refusal:
        pynvml.nvmlDeviceGetMemoryInfo(handle, version=2)

    assert refusal.value.value == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_what_a_card_does_follows_the_clock(simulate: Simulate) -> None:
    level = Level(0.1, 0.1, Peak(0.9, every_seconds=3600, for_seconds=60))
    node = simulate(simulated_card(busy_ratio=level))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    node.clock.advance(3600 - START_SECONDS % 3600)

    in_the_peak = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    node.clock.advance(60)

    assert in_the_peak == 90
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 10


def test_the_ring_holds_the_last_samples_only(simulate: Simulate) -> None:
    simulate(simulated_card(busy_ratio=constant(0.25)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    _, samples = pynvml.nvmlDeviceGetSamples(handle, UTILISATION, 0)

    assert len(samples) == RING_SAMPLE_COUNT
    assert {sample.sampleValue.uiVal for sample in samples} == {25}
    assert samples[-1].timeStamp == int(START_SECONDS) * 1_000_000


def test_the_ring_gives_what_came_after_the_time_told(simulate: Simulate) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    since_us = int(START_SECONDS - 3) * 1_000_000

    _, samples = pynvml.nvmlDeviceGetSamples(handle, UTILISATION, since_us)

    assert [sample.timeStamp - since_us for sample in samples] == [1_000_000, 2_000_000, 3_000_000]


def test_a_ring_without_new_samples_is_not_found(simulate: Simulate) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetSamples(handle, UTILISATION, int(START_SECONDS) * 1_000_000)


def test_other_sample_buffers_are_not_supported(simulate: Simulate) -> None:
    simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_TOTAL_POWER_SAMPLES, 0)


@pytest.mark.parametrize("process_count", [0, 1, 3])
def test_processes_share_the_memory_in_use(process_count: int, simulate: Simulate) -> None:
    simulate(simulated_card(process_count=process_count, memory_used_bytes=constant(3000)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)

    assert len(processes) == process_count
    assert sum(process.usedGpuMemory for process in processes) == (3000 if process_count else 0)
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle) == []


def test_a_fault_answers_for_its_own_card_only(simulate: Simulate) -> None:
    lost = simulated_card(1, faults={SAMPLES: pynvml.NVML_ERROR_GPU_IS_LOST})
    simulate(lost, simulated_card(2))
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetSamples(first, UTILISATION, 0)
    assert pynvml.nvmlDeviceGetSamples(second, UTILISATION, 0)[1]


def test_calls_for_cards_are_counted(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    pynvml.nvmlDeviceGetUUID(handle)
    pynvml.nvmlDeviceGetSamples(handle, UTILISATION, 0)

    # A sample buffer is asked for its size first.
    assert node.library.call_count == 1 + 2


def test_the_library_of_before_is_back_after_the_block() -> None:
    before = pynvml.nvmlLib
    scenario = simulated_scenario(simulated_card())

    with installed(scenario, ManualClock(START_SECONDS).now_seconds) as library:
        inside = pynvml.nvmlLib

    assert inside is library
    assert pynvml.nvmlLib is before


@pytest.mark.parametrize(
    ("find", "text"),
    [
        pytest.param(pynvml.nvmlDeviceGetHandleByUUID, "GPU-0002", id="UUID"),
        pytest.param(pynvml.nvmlDeviceGetHandleByPciBusId, "00000000:08:00.0", id="PCI"),
        pytest.param(pynvml.nvmlDeviceGetHandleByPciBusId, "0000:08:00.0", id="short PCI domain"),
    ],
)
def test_a_card_is_found_by_its_names(
    find: Callable[[str], Any], text: str, simulate: Simulate
) -> None:
    simulate(simulated_card(1), simulated_card(2))

    assert pynvml.nvmlDeviceGetUUID(find(text)) == "GPU-0002"


@pytest.mark.parametrize(
    ("find", "text"),
    [
        pytest.param(pynvml.nvmlDeviceGetHandleByUUID, "GPU-0003", id="UUID"),
        pytest.param(pynvml.nvmlDeviceGetHandleByPciBusId, "00000000:09:00.0", id="PCI"),
        pytest.param(pynvml.nvmlDeviceGetHandleByPciBusId, "nonsense", id="no PCI address"),
    ],
)
def test_a_name_that_no_card_has_is_not_found(
    find: Callable[[str], Any], text: str, simulate: Simulate
) -> None:
    simulate(simulated_card(1), simulated_card(2))

    with pytest.raises(pynvml.NVMLError_NotFound):
        find(text)


def test_a_card_can_say_where_it_is_plugged_in(simulate: Simulate) -> None:
    simulate(simulated_card(pci_bus_id="00000001:C1:00.0"))

    info = pynvml.nvmlDeviceGetPciInfo(pynvml.nvmlDeviceGetHandleByIndex(0))

    assert info.busId == "00000001:C1:00.0"
    assert (info.domain, info.bus, info.device) == (1, 0xC1, 0)


def test_a_sample_buffer_of_the_ring_s_size_is_filled_by_a_single_call(simulate: Simulate) -> None:
    node = simulate(simulated_card(busy_ratio=constant(0.25)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    samples = (pynvml.c_nvmlSample_t * RING_SAMPLE_COUNT)()
    count, kind = ctypes.c_uint(RING_SAMPLE_COUNT), ctypes.c_uint()

    code = node.library.nvmlDeviceGetSamples(  # type: ignore[attr-defined]  # set by name
        handle,
        ctypes.c_uint(UTILISATION),
        ctypes.c_ulonglong((int(START_SECONDS) - 2) * 1_000_000),
        ctypes.byref(kind),
        ctypes.byref(count),
        samples,
    )

    assert code == pynvml.NVML_SUCCESS
    assert [samples[slot].sampleValue.uiVal for slot in range(count.value)] == [25, 25]


def test_a_sample_buffer_that_is_too_small_tells_the_size_it_needs(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    count, kind = ctypes.c_uint(3), ctypes.c_uint()

    code = node.library.nvmlDeviceGetSamples(  # type: ignore[attr-defined]  # set by name
        handle,
        ctypes.c_uint(UTILISATION),
        ctypes.c_ulonglong(0),
        ctypes.byref(kind),
        ctypes.byref(count),
        (pynvml.c_nvmlSample_t * 3)(),
    )

    assert (code, count.value) == (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, RING_SAMPLE_COUNT)


@pytest.mark.parametrize(
    ("memory_kind", "mode"),
    [
        pytest.param("dedicated", pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE, id="dedicated"),
        pytest.param("os_managed", pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS, id="os managed"),
        pytest.param("unified", pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS, id="unified"),
    ],
)
def test_how_a_card_addresses_memory_follows_its_kind(
    memory_kind: str, mode: int, simulate: Simulate
) -> None:
    simulate(simulated_card(memory_kind=memory_kind))

    assert pynvml.nvmlDeviceGetAddressingMode(pynvml.nvmlDeviceGetHandleByIndex(0)) == mode


@pytest.mark.parametrize("version", [None, pynvml.nvmlMemory_v2])
def test_a_card_in_its_processor_s_memory_has_no_memory_figures(
    version: int | None, simulate: Simulate
) -> None:
    simulate(simulated_card(memory_kind="unified"))

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), version=version)
