"""A card's memory and utilisation as drivers really answer: absent, empty, stale, failing."""

import logging
from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    START_SECONDS,
    Simulate,
    calls_of,
    constant,
    memory_info,
    sample_ring,
    simulated_card,
)

from rightslice.exporter.host.nvml.card import (
    EMPTY_READINGS,
    FORGET_ROUNDS,
    SAMPLE_BUFFER_LENGTH,
    MemoryReading,
)
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.power import PowerReader
from rightslice.exporter.host.nvml.processes import GpuProcess, ProcessLists
from rightslice.exporter.host.nvml.rows import GROWN_BUFFER_RETRIES

from .codes import ABSENT, EMPTY

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
SAMPLES, RATES = "nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
TOTAL_BYTES, USED_BYTES, RESERVED_BYTES = (mib * BYTES_PER_MIB for mib in (40960, 20480, 434))
WITH_RESERVE_APART = MemoryReading(TOTAL_BYTES, USED_BYTES, RESERVED_BYTES)
WITH_RESERVE_AS_USED = MemoryReading(TOTAL_BYTES, USED_BYTES + RESERVED_BYTES, None)

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_used_memory_is_without_the_reserve_of_the_driver(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert card.memory() == WITH_RESERVE_APART


def test_the_second_version_is_asked_for_by_its_own_number(simulate: Simulate) -> None:
    versions: list[int] = []

    def answer(_: Any, memory: Any) -> int:
        versions.append(memory._obj.version)
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(MEMORY_V2, answer)
    (card,) = node.open()

    card.memory()

    assert set(versions) == {0x02000028}


def test_a_driver_whose_used_memory_holds_the_reserve_is_read_as_the_others_are(
    simulate: Simulate,
) -> None:
    def answer(_: Any, memory: Any) -> int:
        reading = memory._obj
        reading.total, reading.reserved, reading.used, reading.free = 100, 10, 40, 60
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(MEMORY_V2, answer)
    node.lack(MEMORY_V1)
    (card,) = node.open()

    assert card.memory() == MemoryReading(100, 30, 10)


@pytest.mark.parametrize("code", ABSENT)
def test_a_driver_without_the_second_version_counts_its_reserve_as_used(
    code: int, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(faults={MEMORY_V2: code})).open()

    assert card.memory() == WITH_RESERVE_AS_USED


def test_a_library_without_the_symbol_is_a_driver_without_the_call(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.lack(MEMORY_V2, SAMPLES, RATES)

    (card,) = node.open()

    assert card.memory() == WITH_RESERVE_AS_USED
    assert card.new_utilisation_samples() is None
    assert card.utilisation_percent() is None


def test_a_failing_second_version_is_never_mixed_with_the_first(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={MEMORY_V2: pynvml.NVML_ERROR_UNKNOWN})).open()

    with pytest.raises(NvmlError, match="nvmlDeviceGetMemoryInfo_v2: Unknown Error"):
        card.memory()


def test_memory_of_its_own_is_none_where_no_version_is_supported(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(memory_kind="unified")).open()

    assert card.memory() is None


def test_memory_is_read_once_in_a_round(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.begin_round()
    asked = calls_of(node, MEMORY_V2)

    card.memory()
    card.memory()

    assert len(asked) == 1


def test_memory_that_no_call_tells_is_asked_for_once_in_a_round(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={MEMORY_V2: pynvml.NVML_ERROR_NO_DATA}))
    (card,) = node.open()
    card.begin_round()
    asked = calls_of(node, MEMORY_V2)

    card.memory()
    card.memory()

    assert len(asked) == 1


def test_memory_is_read_anew_in_the_next_round(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    before = card.memory()
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES, 1000, RESERVED_BYTES))

    card.begin_round()

    assert before == WITH_RESERVE_APART
    assert card.memory() == MemoryReading(TOTAL_BYTES, 1000, RESERVED_BYTES)


def test_a_failure_is_asked_again_in_the_same_round_and_recovers(simulate: Simulate) -> None:
    faults: dict[str, int] = {MEMORY_V2: pynvml.NVML_ERROR_TIMEOUT}
    (card,) = simulate(simulated_card(faults=faults)).open()
    with pytest.raises(NvmlError, match="Timeout"):
        card.memory()
    faults.clear()

    assert card.memory() == WITH_RESERVE_APART


def test_inside_a_limited_cgroup_the_memory_is_still_the_card_s(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))

    (card,) = node.open()
    first = card.memory()
    card.begin_round()

    assert [first, card.memory()] == [WITH_RESERVE_AS_USED, WITH_RESERVE_AS_USED]


def test_a_limited_cgroup_is_told_once(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))
    (card,) = node.open()

    card.begin_round()
    card.memory()

    assert [text[:60] for text in warnings(caplog)] == [
        "this process is in a cgroup that limits GPU memory: the v2 m"
    ]


def test_a_limited_cgroup_is_not_told_again_when_cards_are_listed_anew(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))
    (card,) = node.open()

    for _ in range(2):
        node.host.nvml.refresh()
        card.begin_round()
        card.memory()

    assert len(warnings(caplog)) == 1


def test_a_limited_cgroup_is_found_also_when_memory_answers_late(simulate: Simulate) -> None:
    faults: dict[str, int] = {MEMORY_V2: pynvml.NVML_ERROR_NOT_READY}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    card.utilisation_percent()
    faults.clear()
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))

    assert card.memory() == WITH_RESERVE_AS_USED


def test_the_two_versions_are_compared_only_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    asked = calls_of(node, MEMORY_V1)
    (card,) = node.open()

    card.begin_round()
    card.memory()

    assert len(asked) == 1


def test_a_total_that_shrinks_later_is_the_card_s_own(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.memory()
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 2))

    card.begin_round()

    assert card.memory() == MemoryReading(TOTAL_BYTES // 2, 0, 0)
    assert warnings(caplog) == []


def test_what_a_card_lacks_is_asked_for_once(simulate: Simulate) -> None:
    faults = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED, SAMPLES: NOT_SUPPORTED}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    card.memory()
    card.new_utilisation_samples()
    asked_count = node.library.call_count

    card.begin_round()
    card.memory()
    card.new_utilisation_samples()

    assert node.library.call_count == asked_count


def test_what_one_card_lacks_is_still_asked_of_the_others(simulate: Simulate) -> None:
    old = simulated_card(1, faults={MEMORY_V2: NOT_SUPPORTED})

    first, second = simulate(old, simulated_card(2)).open()

    assert first.memory() == WITH_RESERVE_AS_USED
    assert second.memory() == WITH_RESERVE_APART


def test_a_card_is_up_while_one_of_its_calls_works(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={RATES: pynvml.NVML_ERROR_UNKNOWN})).open()
    card.begin_round()
    card.memory()

    with pytest.raises(NvmlError):
        card.utilisation_percent()

    assert card.is_up


def test_a_card_that_is_lost_is_down_whatever_else_works(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={RATES: pynvml.NVML_ERROR_GPU_IS_LOST})).open()
    card.begin_round()
    card.memory()

    with pytest.raises(NvmlError):
        card.utilisation_percent()

    assert not card.is_up
    assert card.down_reason == "lost"


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


def test_samples_take_one_call(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, SAMPLES)

    card.new_utilisation_samples()

    assert len(asked) == 1


@pytest.mark.parametrize("code", EMPTY)
def test_an_idle_buffer_is_empty_and_no_failure(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={SAMPLES: code})).open()

    assert card.new_utilisation_samples() == []


def test_success_with_zero_samples_is_empty(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring())
    (card,) = node.open()

    assert card.new_utilisation_samples() == []


def test_a_ring_of_nothing_but_unused_slots_is_empty(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring((0, 0), (0, 0)))
    (card,) = node.open()

    assert card.new_utilisation_samples() == []


def test_the_sample_after_an_empty_buffer_is_still_a_first_one(simulate: Simulate) -> None:
    faults: dict[str, int] = {SAMPLES: pynvml.NVML_ERROR_NOT_FOUND}
    (card,) = simulate(simulated_card(faults=faults)).open()
    card.new_utilisation_samples()
    faults.clear()

    samples = card.new_utilisation_samples()

    assert samples == [(int(START_SECONDS) * 1_000_000, 50)]


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


def test_what_is_no_percentage_is_left_to_the_collector_to_refuse(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring((6_000_000, 4_000_000_000)))
    (card,) = node.open()

    assert card.new_utilisation_samples() == [(6_000_000, 4_000_000_000)]


def test_the_driver_is_asked_only_for_samples_since_the_newest_one(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(SAMPLES, sample_ring((6_000_000, 80)))
    asked = calls_of(node, SAMPLES)

    card.new_utilisation_samples()
    card.new_utilisation_samples()

    assert [since_us.value for _, _, since_us, *_ in asked] == [0, 6_000_000]


def test_a_ring_longer_than_our_buffer_is_read_again_with_room(simulate: Simulate) -> None:
    long_ring = sample_ring(*((step, 50) for step in range(1, SAMPLE_BUFFER_LENGTH + 2)))

    def answer(device: Any, kind: Any, since: Any, value_type: Any, count: Any, rows: Any) -> int:
        if count._obj.value <= SAMPLE_BUFFER_LENGTH:
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        return long_ring(device, kind, since, value_type, count, rows)

    node = simulate(simulated_card())
    node.answer(SAMPLES, answer)
    (card,) = node.open()

    assert card.new_utilisation_samples() == [(SAMPLE_BUFFER_LENGTH + 1, 50)]


def test_a_count_beyond_our_buffer_reads_no_foreign_memory(simulate: Simulate) -> None:
    def answer(_: Any, kind: Any, since: Any, value_type: Any, count: Any, rows: Any) -> int:
        count._obj.value = 10 * SAMPLE_BUFFER_LENGTH
        for stamp_us, row in enumerate(rows, 1):
            row.timeStamp = stamp_us
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(SAMPLES, answer)
    (card,) = node.open()

    assert card.new_utilisation_samples() == [(SAMPLE_BUFFER_LENGTH, 0)]


def test_a_buffer_that_never_stops_growing_is_a_failure(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={SAMPLES: pynvml.NVML_ERROR_INSUFFICIENT_SIZE}))
    (card,) = node.open()
    asked = calls_of(node, SAMPLES)

    with pytest.raises(NvmlError, match="Insufficient Size"):
        card.new_utilisation_samples()

    assert len(asked) == GROWN_BUFFER_RETRIES == 3


def test_a_card_without_a_sample_buffer_has_none(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={SAMPLES: NOT_SUPPORTED})).open()

    assert card.new_utilisation_samples() is None


def test_the_plain_rate_is_read_in_percent(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(busy_ratio=constant(0.37))).open()

    assert card.utilisation_percent() == 37


@pytest.mark.parametrize("code", [*ABSENT, *EMPTY])
def test_a_rate_that_is_not_there_is_none_and_never_zero(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={RATES: code})).open()

    assert card.utilisation_percent() is None


def test_a_card_lists_the_processes_that_compute_on_it(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(process_count=1)).open()

    assert card.compute_processes() == [GpuProcess(4242, USED_BYTES)]


def test_a_reader_keeps_what_it_learnt_of_its_card(simulate: Simulate) -> None:
    first, second = simulate(simulated_card(1), simulated_card(2)).open()

    assert first.reader(ProcessLists) is first.reader(ProcessLists)
    assert first.reader(ProcessLists) is not second.reader(ProcessLists)
    assert isinstance(first.reader(PowerReader), PowerReader)


def test_each_card_is_read_in_a_lane_of_its_own(simulate: Simulate) -> None:
    first, second = simulate(simulated_card(1), simulated_card(2)).open()

    assert (first.lane, second.lane) == ("GPU-0001", "GPU-0002")
    assert (first.id, second.id) == ("GPU-0001", "GPU-0002")


def test_after_the_clock_was_set_back_new_samples_are_told_again(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.new_utilisation_samples()
    node.clock.advance(-3600)
    told = []
    for _ in range(3 * EMPTY_READINGS):
        node.clock.advance(1)
        told += card.new_utilisation_samples() or []

    assert len(told) >= EMPTY_READINGS
    assert [stamp_us for stamp_us, _ in told] == sorted({stamp_us for stamp_us, _ in told})


def test_a_ring_that_stays_empty_is_not_told_twice(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.new_utilisation_samples()

    told = [card.new_utilisation_samples() for _ in range(3 * EMPTY_READINGS)]

    assert told == [[]] * len(told)


@pytest.mark.parametrize(
    ("virtualization", "asked_count"),
    [pytest.param("none", 2, id="a card"), pytest.param("vgpu", 1, id="a guest")],
)
def test_what_a_card_lacks_is_asked_for_again_seldom_and_of_a_guest_never(
    virtualization: str, asked_count: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card(virtualization=virtualization))
    (card,) = node.open()
    node.fail("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_NOT_SUPPORTED)
    asked = calls_of(node, "nvmlDeviceGetUtilizationRates")
    for _ in range(FORGET_ROUNDS + 10):
        card.begin_round()
        card.utilisation_percent()

    assert len(asked) == asked_count


def test_a_limited_cgroup_is_not_forgotten(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))
    (card,) = node.open()
    card.memory()
    asked = calls_of(node, MEMORY_V2)

    card.calls.forget_absent()
    card.begin_round()

    assert card.memory() == WITH_RESERVE_AS_USED
    assert asked == []
    assert len(warnings(caplog)) == 1


def test_that_the_two_versions_were_compared_is_not_forgotten(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.memory()
    asked = calls_of(node, MEMORY_V1)

    card.calls.forget_absent()
    card.begin_round()
    card.memory()

    assert asked == []


def test_a_second_version_that_was_lacking_is_asked_for_anew_when_that_is_forgotten(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {MEMORY_V2: NOT_SUPPORTED}
    (card,) = simulate(simulated_card(faults=faults)).open()
    before = card.memory()
    faults.clear()

    card.calls.forget_absent()
    card.begin_round()

    assert (before, card.memory()) == (WITH_RESERVE_AS_USED, WITH_RESERVE_APART)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
    ],
)
def test_a_comparison_of_the_versions_that_failed_for_once_is_made_the_next_time(
    code: int, simulate: Simulate
) -> None:
    faults: dict[str, int] = {MEMORY_V1: code}
    node = simulate(simulated_card(faults=faults))
    node.answer(MEMORY_V2, memory_info(TOTAL_BYTES // 4))
    (card,) = node.open()
    before = card.memory()
    faults.clear()

    card.begin_round()

    assert before == MemoryReading(TOTAL_BYTES // 4, 0, 0)
    assert card.memory() == WITH_RESERVE_AS_USED


def test_a_first_version_that_is_lacking_is_not_compared_again(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={MEMORY_V1: NOT_SUPPORTED}))
    (card,) = node.open()
    asked = calls_of(node, MEMORY_V1)

    for _ in range(2):
        card.begin_round()
        card.memory()

    assert len(asked) == 1
