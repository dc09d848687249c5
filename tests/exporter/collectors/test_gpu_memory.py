"""Card memory: what is told, what is refused, and what is not there."""

from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, Simulate, constant, simulated_card

from rightslice.contract.metrics import (
    GPU_MEMORY_RESERVED_BYTES,
    GPU_MEMORY_TOTAL_BYTES,
    GPU_MEMORY_USED_BYTES,
    GPU_MEMORY_USED_PEAK_BYTES,
    GPU_MEMORY_USED_RATIO,
    GPU_OBSERVED_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.collectors.gpu_memory import collect, is_plausible
from rightslice.exporter.host.nvml import MemoryReading, NvmlError, Reason

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
TOTAL_BYTES = 40960 * BYTES_PER_MIB
ALL_ONES_64, ALL_ONES_32 = 2**64 - 1, 2**32 - 1
CARD = ("GPU-0001",)


def collected(simulate: Simulate, **changes: Any) -> list[Sample]:
    """Collect from one card, with a reading that stands for a second."""
    (gpu,) = simulate(simulated_card(**changes)).open()
    return list(collect(gpu, 1.0))


def specs(samples: list[Sample]) -> set[MetricSpec]:
    return {sample.spec for sample in samples}


def test_a_half_used_card_is_told_in_bytes_and_as_a_share(simulate: Simulate) -> None:
    used_bytes = 20480 * BYTES_PER_MIB

    samples = collected(simulate, memory_used_bytes=constant(used_bytes))

    assert samples == [
        Sample(GPU_MEMORY_TOTAL_BYTES, TOTAL_BYTES, CARD),
        Sample(GPU_MEMORY_USED_BYTES, used_bytes, CARD),
        Sample(GPU_MEMORY_USED_PEAK_BYTES, used_bytes, CARD),
        Sample(GPU_MEMORY_RESERVED_BYTES, 434 * BYTES_PER_MIB, CARD),
        Sample(GPU_MEMORY_USED_RATIO, 0.5, CARD, covered_seconds=1.0),
        Sample(GPU_OBSERVED_SECONDS_TOTAL, 1.0, ("GPU-0001", "memory")),
    ]


def test_an_idle_card_is_near_zero_where_the_reserve_is_told_apart(simulate: Simulate) -> None:
    samples = collected(simulate, memory_used_bytes=constant(4 * BYTES_PER_MIB))

    assert Sample(GPU_MEMORY_USED_BYTES, 4 * BYTES_PER_MIB, CARD) in samples


def test_a_driver_that_counts_its_reserve_as_used_has_no_reserve(simulate: Simulate) -> None:
    samples = collected(
        simulate,
        memory_used_bytes=constant(4 * BYTES_PER_MIB),
        faults={MEMORY_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND},
    )

    assert Sample(GPU_MEMORY_USED_BYTES, 438 * BYTES_PER_MIB, CARD) in samples
    assert GPU_MEMORY_RESERVED_BYTES not in specs(samples)


def test_unified_memory_has_no_series(simulate: Simulate) -> None:
    absent = pynvml.NVML_ERROR_NOT_SUPPORTED

    assert collected(simulate, faults={MEMORY_V2: absent, MEMORY_V1: absent}) == []


def test_a_failed_reading_gives_no_number(simulate: Simulate) -> None:
    with pytest.raises(NvmlError) as failure:
        collected(simulate, faults={MEMORY_V2: pynvml.NVML_ERROR_NO_PERMISSION})

    assert failure.value.reason == Reason.PERMISSION


@pytest.mark.parametrize(
    ("total_bytes", "used_bytes"),
    [
        pytest.param(0, 0, id="no memory at all"),
        pytest.param(TOTAL_BYTES, TOTAL_BYTES + 1, id="more used than there is"),
        pytest.param(TOTAL_BYTES, ALL_ONES_64 - 4095, id="underflow"),
        pytest.param(ALL_ONES_64, ALL_ONES_64, id="64-bit sentinel"),
        pytest.param(ALL_ONES_64, 0, id="64-bit sentinel as total"),
    ],
)
def test_an_impossible_reading_is_counted_and_thrown_away(
    total_bytes: int, used_bytes: int, simulate: Simulate
) -> None:
    def impossible(_: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.used = total_bytes, used_bytes
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(MEMORY_V2, impossible)
    (gpu,) = node.open()

    assert list(collect(gpu, 1.0)) == [
        Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_memory", "out_of_range"))
    ]


@pytest.mark.parametrize(
    ("total_bytes", "used_bytes"),
    [
        pytest.param(TOTAL_BYTES, 0, id="empty"),
        pytest.param(TOTAL_BYTES, TOTAL_BYTES, id="full"),
        pytest.param(284208 * BYTES_PER_MIB, ALL_ONES_32, id="4 GiB less one byte is possible"),
    ],
)
def test_a_possible_reading_is_believed(total_bytes: int, used_bytes: int) -> None:
    assert is_plausible(MemoryReading(total_bytes, used_bytes, None))
