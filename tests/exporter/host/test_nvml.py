"""A card's readings as drivers really answer: absent, empty, stale, failing."""

from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    START_SECONDS,
    Simulate,
    constant,
    sample_ring,
    simulated_card,
)

from rightslice.exporter.host.nvml import (
    GROWN_BUFFER_RETRIES,
    MemoryReading,
    NvmlError,
    Reason,
)

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
SAMPLES, RATES = "nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"
TOTAL_BYTES, USED_BYTES, RESERVED_BYTES = (mib * BYTES_PER_MIB for mib in (40960, 20480, 434))

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
ABSENT = [
    pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
    pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="function not found"),
    pytest.param(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, id="version mismatch"),
    pytest.param(pynvml.NVML_ERROR_DEPRECATED, id="deprecated"),
]
EMPTY = [
    pytest.param(pynvml.NVML_ERROR_NOT_FOUND, id="not found"),
    pytest.param(pynvml.NVML_ERROR_NO_DATA, id="no data"),
]


def test_used_memory_is_without_the_reserve_of_the_driver(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert card.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES, RESERVED_BYTES)


@pytest.mark.parametrize("code", ABSENT)
def test_a_driver_without_the_second_version_counts_its_reserve_as_used(
    code: int, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(faults={MEMORY_V2: code})).open()

    assert card.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES + RESERVED_BYTES, None)


def test_a_library_without_the_symbol_is_a_driver_without_the_call(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.lack(MEMORY_V2, SAMPLES, COMPUTE)

    (card,) = node.open()

    assert card.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES + RESERVED_BYTES, None)
    assert card.new_utilisation_samples() is None
    assert card.process_count() == 0


def test_a_failing_second_version_is_never_mixed_with_the_first(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={MEMORY_V2: pynvml.NVML_ERROR_UNKNOWN})).open()

    with pytest.raises(NvmlError, match="nvmlDeviceGetMemoryInfo_v2: Unknown Error"):
        card.memory()


def test_memory_of_its_own_is_none_where_no_version_is_supported(simulate: Simulate) -> None:
    faults = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED}
    (card,) = simulate(simulated_card(faults=faults)).open()

    assert card.memory() is None


def test_what_a_card_lacks_is_asked_for_once(simulate: Simulate) -> None:
    faults = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED, SAMPLES: NOT_SUPPORTED}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    card.memory()
    card.new_utilisation_samples()
    asked_count = node.library.call_count

    card.memory()
    card.new_utilisation_samples()

    assert node.library.call_count == asked_count


def test_what_one_card_lacks_is_still_asked_of_the_others(simulate: Simulate) -> None:
    old = simulated_card(1, faults={MEMORY_V2: NOT_SUPPORTED})

    first, second = simulate(old, simulated_card(2)).open()

    assert first.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES + RESERVED_BYTES, None)
    assert second.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES, RESERVED_BYTES)


def test_the_first_call_gives_one_sample_that_marks_the_end_of_the_buffer(
    simulate: Simulate,
) -> None:
    (card,) = simulate(simulated_card(busy_ratio=constant(0.5))).open()

    assert card.new_utilisation_samples() == [(int(START_SECONDS) * 1_000_000, 50)]


def test_later_calls_give_what_is_new(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.new_utilisation_samples()
    node.clock.advance(2)

    samples = card.new_utilisation_samples()

    assert samples == [(int(START_SECONDS + step) * 1_000_000, 50) for step in (1, 2)]


@pytest.mark.parametrize("code", EMPTY)
def test_an_idle_buffer_is_empty_and_no_failure(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={SAMPLES: code})).open()

    assert card.new_utilisation_samples() == []


def test_a_buffer_of_size_zero_is_empty(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring())
    (card,) = node.open()

    assert card.new_utilisation_samples() == []


def test_an_error_of_the_binding_that_reads_success_is_empty(simulate: Simulate) -> None:
    def succeed(*_: Any) -> int:
        raise pynvml.NVMLError(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(SAMPLES, succeed)
    (card,) = node.open()

    assert card.new_utilisation_samples() == []


def test_the_sample_after_an_empty_buffer_is_still_a_first_one(simulate: Simulate) -> None:
    faults: dict[str, int] = {SAMPLES: pynvml.NVML_ERROR_NOT_FOUND}
    (card,) = simulate(simulated_card(faults=faults)).open()
    card.new_utilisation_samples()
    faults.clear()

    samples = card.new_utilisation_samples()

    assert samples is not None
    assert len(samples) == 1


def test_stale_slots_of_the_ring_are_never_told_twice(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(SAMPLES, sample_ring((5_000_000, 90), (0, 0), (6_000_000, 80)))
    first = card.new_utilisation_samples()
    node.answer(SAMPLES, sample_ring((7_000_000, 70), (0, 0), (6_000_000, 80), (5_000_000, 90)))

    second = card.new_utilisation_samples()
    third = card.new_utilisation_samples()

    assert first == [(6_000_000, 80)]
    assert second == [(7_000_000, 70)]
    assert third == []


def test_the_driver_is_asked_only_for_samples_since_the_newest_one(simulate: Simulate) -> None:
    asked: list[int] = []

    def answer(device: Any, kind: Any, since_us: Any, *rest: Any) -> int:
        asked.append(since_us.value)
        return sample_ring((6_000_000, 80))(device, kind, since_us, *rest)

    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(SAMPLES, answer)

    card.new_utilisation_samples()
    card.new_utilisation_samples()

    assert sorted(set(asked)) == [0, 6_000_000]


def test_a_buffer_that_grows_while_it_is_read_is_read_again(simulate: Simulate) -> None:
    answers = [int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)] * (GROWN_BUFFER_RETRIES - 1)

    def answer(*arguments: Any) -> int:
        return answers.pop() if answers else sample_ring((6_000_000, 80))(*arguments)

    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(SAMPLES, answer)

    assert card.new_utilisation_samples() == [(6_000_000, 80)]


def test_a_buffer_that_never_stops_growing_is_a_failure(simulate: Simulate) -> None:
    faults = {SAMPLES: pynvml.NVML_ERROR_INSUFFICIENT_SIZE}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    asked_count = node.library.call_count

    with pytest.raises(NvmlError, match="Insufficient Size"):
        card.new_utilisation_samples()

    assert node.library.call_count == asked_count + GROWN_BUFFER_RETRIES


def test_a_card_without_a_sample_buffer_has_none(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={SAMPLES: NOT_SUPPORTED})).open()

    assert card.new_utilisation_samples() is None


def test_the_plain_rate_is_read_in_percent(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(busy_ratio=constant(0.37))).open()

    assert card.utilisation_percent() == 37


def test_a_card_cut_by_mig_has_no_rate(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={RATES: NOT_SUPPORTED})).open()

    assert card.utilisation_percent() is None


@pytest.mark.parametrize("process_count", [0, 1, 64], ids=["free", "one", "many"])
def test_processes_are_counted(process_count: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(process_count=process_count)).open()

    assert card.process_count() == process_count


@pytest.mark.parametrize("code", EMPTY)
def test_no_process_found_is_none_running(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={COMPUTE: code})).open()

    assert card.process_count() == 0


def test_one_list_tells_where_the_other_is_not_supported(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(process_count=3, faults={GRAPHICS: NOT_SUPPORTED})).open()

    assert card.process_count() == 3


@pytest.mark.parametrize("code", ABSENT)
def test_processes_are_unknown_where_neither_list_is_supported(
    code: int, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(faults={COMPUTE: code, GRAPHICS: code})).open()

    assert card.process_count() is None


def test_a_process_whose_memory_is_not_told_still_counts(simulate: Simulate) -> None:
    def hidden(_: Any, count: Any, processes: Any) -> int:
        if processes is None:
            count._obj.value = 1
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        processes[0].usedGpuMemory = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
        count._obj.value = 1
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(COMPUTE, hidden)
    (card,) = node.open()

    assert card.process_count() == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, Reason.LOST, id="fell off the bus"),
        pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, Reason.LOST, id="needs a reset"),
        pytest.param(pynvml.NVML_ERROR_GPU_NOT_FOUND, Reason.LOST, id="unplugged"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, Reason.PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_OPERATING_SYSTEM, Reason.PERMISSION, id="cgroup"),
        pytest.param(pynvml.NVML_ERROR_UNINITIALIZED, Reason.DRIVER, id="not initialised"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Reason.DRIVER, id="no driver"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Reason.DRIVER, id="upgraded"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, Reason.LATER, id="timeout"),
        pytest.param(pynvml.NVML_ERROR_IN_USE, Reason.LATER, id="in use"),
        pytest.param(pynvml.NVML_ERROR_NOT_READY, Reason.LATER, id="not ready"),
        pytest.param(pynvml.NVML_ERROR_INVALID_STATE, Reason.LATER, id="invalid state"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, Reason.UNKNOWN, id="unknown"),
        pytest.param(12345, Reason.UNKNOWN, id="code newer than the binding"),
    ],
)
def test_a_code_is_classified_by_what_one_can_do(
    code: int, reason: Reason, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(faults={MEMORY_V2: code})).open()

    with pytest.raises(NvmlError, match=rf"\(NVML code {code}\)") as failure:
        card.memory()

    assert failure.value.reason == reason


def test_a_failure_is_asked_again_and_recovers(simulate: Simulate) -> None:
    faults: dict[str, int] = {MEMORY_V2: pynvml.NVML_ERROR_TIMEOUT}
    (card,) = simulate(simulated_card(faults=faults)).open()
    with pytest.raises(NvmlError, match="Timeout"):
        card.memory()
    faults.clear()

    assert card.memory() == MemoryReading(TOTAL_BYTES, USED_BYTES, RESERVED_BYTES)
