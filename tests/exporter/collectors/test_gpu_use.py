"""Whether a card is held and busy, and what is unknown rather than idle."""

from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    SimulatedNode,
    constant,
    sample_ring,
    simulated_card,
)

from rightslice.contract.metrics import (
    GPU_ALLOCATED_SECONDS_TOTAL,
    GPU_BUSY_RATIO,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.sampling import HELD_MEMORY_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.gpu_use import (
    LONGEST_SAMPLE_SECONDS,
    busy_time,
    collect,
    is_held,
)

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
SAMPLES, RATES = "nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_PROCESS_LIST = {COMPUTE: NOT_SUPPORTED, GRAPHICS: NOT_SUPPORTED}
UNIFIED_MEMORY = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED}
OLD_DRIVER = {MEMORY_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
NO_SAMPLE_BUFFER = {SAMPLES: NOT_SUPPORTED}
NO_UTILISATION = {SAMPLES: NOT_SUPPORTED, RATES: NOT_SUPPORTED}
CARD = ("GPU-0001",)
ALL_ONES_32 = 2**32 - 1

samples_of_a_ring = st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 300)), max_size=40)


def second_reading(node: SimulatedNode, after_seconds: float = 1.0) -> list[Sample]:
    """Collect twice, and give what the second reading tells."""
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    node.clock.advance(after_seconds)
    return list(collect(gpu, after_seconds))


def test_a_held_card_that_works_half_of_the_time(simulate: Simulate) -> None:
    node = simulate(simulated_card(busy_ratio=constant(0.5)))

    assert second_reading(node, 2.0) == [
        Sample(GPU_OBSERVED_SECONDS_TOTAL, 2.0, ("GPU-0001", "allocation")),
        Sample(GPU_ALLOCATED_SECONDS_TOTAL, 2.0, CARD),
        Sample(GPU_BUSY_SECONDS_TOTAL, 1.0, CARD),
        Sample(GPU_BUSY_RATIO, 0.5, CARD, covered_seconds=2.0),
        Sample(GPU_OBSERVED_SECONDS_TOTAL, 2.0, ("GPU-0001", "busy")),
        Sample(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, 0.0, CARD),
    ]


def test_the_first_reading_covers_no_time(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    samples = list(collect(gpu, 0.0))

    assert [sample.value for sample in samples] == [0.0] * 6
    assert [sample.covered_seconds for sample in samples] == [0.0] * 6


def test_busy_time_of_a_card_that_nobody_holds_stands_apart(simulate: Simulate) -> None:
    free = simulated_card(
        process_count=0, memory_used_bytes=constant(4 * BYTES_PER_MIB), busy_ratio=constant(1.0)
    )

    samples = second_reading(simulate(free))

    assert Sample(GPU_ALLOCATED_SECONDS_TOTAL, 0.0, CARD) in samples
    assert Sample(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, 1.0, CARD) in samples


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        pytest.param({"process_count": 1, "memory_used_bytes": constant(0)}, True, id="a process"),
        pytest.param(
            {"process_count": 0, "memory_used_bytes": constant(4 * BYTES_PER_MIB)},
            False,
            id="neither process nor memory",
        ),
        pytest.param(
            {"process_count": 0, "memory_used_bytes": constant(HELD_MEMORY_BYTES)},
            False,
            id="no more memory than an idle card shows",
        ),
        pytest.param(
            {"process_count": 0, "memory_used_bytes": constant(HELD_MEMORY_BYTES + 1)},
            True,
            id="memory of a process that is hidden",
        ),
        pytest.param(
            {"faults": NO_PROCESS_LIST, "memory_used_bytes": constant(0)},
            False,
            id="no list, no memory in use",
        ),
        pytest.param({"faults": NO_PROCESS_LIST}, True, id="no list, memory in use"),
        pytest.param(
            {"process_count": 0, "faults": UNIFIED_MEMORY}, False, id="unified memory, no process"
        ),
        pytest.param(
            {"process_count": 1, "faults": UNIFIED_MEMORY}, True, id="unified memory, a process"
        ),
        pytest.param(
            {"faults": NO_PROCESS_LIST | UNIFIED_MEMORY}, None, id="neither list nor memory"
        ),
        pytest.param(
            {
                "process_count": 0,
                "faults": OLD_DRIVER,
                "memory_used_bytes": constant(4 * BYTES_PER_MIB),
            },
            False,
            id="reserve counted as used is no holder",
        ),
        pytest.param(
            {"faults": OLD_DRIVER | NO_PROCESS_LIST, "memory_used_bytes": constant(0)},
            None,
            id="no list, and a reserve counted as used",
        ),
        pytest.param(
            {
                "process_count": 0,
                "faults": OLD_DRIVER,
                "memory_used_bytes": constant(30 * 1024 * BYTES_PER_MIB),
            },
            True,
            id="more in use than any reserve, by nobody who can be seen",
        ),
    ],
)
def test_a_card_is_held_by_who_can_be_seen(
    changes: dict[str, Any], held: bool | None, simulate: Simulate
) -> None:
    (gpu,) = simulate(simulated_card(**changes)).open()

    assert is_held(gpu) is held


def test_where_holders_cannot_be_seen_busy_time_is_still_told(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults=NO_PROCESS_LIST | UNIFIED_MEMORY))

    assert [sample.spec for sample in second_reading(node)] == [
        GPU_BUSY_SECONDS_TOTAL,
        GPU_BUSY_RATIO,
        GPU_OBSERVED_SECONDS_TOTAL,
    ]


def test_a_card_without_utilisation_has_no_busy_series(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults=NO_UTILISATION))

    assert [sample.spec for sample in second_reading(node)] == [
        GPU_OBSERVED_SECONDS_TOTAL,
        GPU_ALLOCATED_SECONDS_TOTAL,
    ]


def test_without_a_sample_buffer_the_last_rate_stands_for_the_time_between(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(faults=NO_SAMPLE_BUFFER, busy_ratio=constant(0.25)))

    samples = second_reading(node, 2.0)

    assert Sample(GPU_BUSY_SECONDS_TOTAL, 0.5, CARD) in samples
    assert Sample(GPU_BUSY_RATIO, 0.25, CARD, covered_seconds=2.0) in samples


@pytest.mark.parametrize("percent", [101, 400_000, ALL_ONES_32])
def test_a_rate_above_a_hundred_is_unknown_and_counted(percent: int, simulate: Simulate) -> None:
    def wild(_: Any, rates: Any) -> int:
        rates._obj.gpu = percent
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card(faults=NO_SAMPLE_BUFFER))
    node.answer(SAMPLES, lambda *_: NOT_SUPPORTED)
    node.answer(RATES, wild)

    samples = second_reading(node)

    assert Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_use", "out_of_range")) in samples
    assert Sample(GPU_OBSERVED_SECONDS_TOTAL, 0.0, ("GPU-0001", "busy")) in samples
    assert Sample(GPU_BUSY_SECONDS_TOTAL, 0.0, CARD) in samples


def test_an_empty_buffer_covers_no_time_and_is_not_idle(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={SAMPLES: pynvml.NVML_ERROR_NOT_FOUND}))

    samples = second_reading(node)

    assert Sample(GPU_BUSY_SECONDS_TOTAL, 0.0, CARD) in samples
    assert Sample(GPU_OBSERVED_SECONDS_TOTAL, 0.0, ("GPU-0001", "busy")) in samples
    assert Sample(GPU_OBSERVED_SECONDS_TOTAL, 1.0, ("GPU-0001", "allocation")) in samples


def test_a_card_that_runs_no_kernel_is_observed_to_be_idle(simulate: Simulate) -> None:
    samples = second_reading(simulate(simulated_card(busy_ratio=constant(0.0))))

    assert Sample(GPU_BUSY_SECONDS_TOTAL, 0.0, CARD) in samples
    assert Sample(GPU_OBSERVED_SECONDS_TOTAL, 1.0, ("GPU-0001", "busy")) in samples


def test_one_wild_sample_in_the_buffer_costs_its_own_span(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring((5_000_000, 50)))
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    node.answer(SAMPLES, sample_ring((6_000_000, 100), (7_000_000, ALL_ONES_32), (8_000_000, 50)))

    samples = list(collect(gpu, 3.0))

    assert Sample(GPU_BUSY_SECONDS_TOTAL, 1.5, CARD) in samples
    assert Sample(GPU_OBSERVED_SECONDS_TOTAL, 2.0, ("GPU-0001", "busy")) in samples
    assert Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_use", "out_of_range")) in samples


@pytest.mark.parametrize(
    ("samples", "since_us", "expected"),
    [
        pytest.param([], None, (0.0, 0.0, 0), id="nothing"),
        pytest.param([(5_000_000, 80)], None, (0.0, 0.0, 0), id="first sample covers nothing"),
        pytest.param([(5_000_000, 80)], 4_000_000, (0.8, 1.0, 0), id="one second"),
        pytest.param(
            [(4_166_667, 60), (4_333_333, 60)], 4_000_000, (0.2, 1 / 3, 0), id="sixths of a second"
        ),
        pytest.param(
            [(60_000_000, 50)],
            4_000_000,
            (LONGEST_SAMPLE_SECONDS / 2, LONGEST_SAMPLE_SECONDS, 0),
            id="a gap is unknown",
        ),
        pytest.param([(5_000_000, 101)], 4_000_000, (0.0, 0.0, 1), id="impossible"),
    ],
)
def test_samples_add_up_to_busy_and_covered_seconds(
    samples: list[tuple[int, int]], since_us: int | None, expected: tuple[float, float, int]
) -> None:
    assert busy_time(samples, since_us) == pytest.approx(expected, abs=1e-5)


@given(samples_of_a_ring)
def test_covered_seconds_never_exceed_the_time_between_the_samples(
    rows: list[tuple[int, int]],
) -> None:
    samples = sorted(rows)

    busy_seconds, covered_seconds, rejected = busy_time(samples, 1)

    elapsed_seconds = max([stamp_us for stamp_us, _ in samples], default=1) / 1e6
    assert 0 <= busy_seconds <= covered_seconds + 1e-9
    assert covered_seconds <= elapsed_seconds + 1e-9
    assert rejected == sum(percent > 100 for _, percent in samples)
