"""Card memory: what is told, what is refused, and what is not there."""

from typing import Any

import pynvml
import pytest
from support.pages import failures, values
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    SimulatedNode,
    constant,
    memory_info,
    simulated_card,
    told,
)

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
from rightslice.exporter.collectors.gpu_memory import collect
from rightslice.exporter.host.nvml.card import MemoryReading
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.plausible import is_plausible
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
TOTAL_BYTES = 40960 * BYTES_PER_MIB
ALL_ONES_64, ALL_ONES_32 = 2**64 - 1, 2**32 - 1
CARD = ("GPU-0001",)
REJECTED = Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_memory", "out_of_range"))
GIB = 1024**3
TWO_INSTANCES = (
    MigInstance("1g.5gb", 0, memory_used_bytes=constant(3 * GIB)),
    MigInstance("2g.10gb", 2, memory_used_bytes=constant(5 * GIB)),
)
UNPRIVILEGED = Mig(privileged=False, instances=TWO_INSTANCES)
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION


def collected(simulate: Simulate, **changes: Any) -> list[Sample]:
    """Collect from one card, with a reading that stands for a second."""
    (gpu,) = simulate(simulated_card(**changes)).open()
    return list(collect(gpu, 1.0))


def hide_the_use(node: SimulatedNode) -> None:
    """Tell the unprivileged a cut card's total, and of its use nothing, as some drivers do."""
    usual = node.library.nvmlDeviceGetMemoryInfo_v2  # type: ignore[attr-defined]

    def answer(handle: Any, memory: Any) -> int:
        code: int = usual(handle, memory)
        if code != NO_PERMISSION:
            return code
        memory._obj.total, memory._obj.used, memory._obj.reserved = TOTAL_BYTES, 0, 0
        return int(pynvml.NVML_SUCCESS)

    node.answer(MEMORY_V2, answer)


def specs(samples: list[Sample]) -> set[MetricSpec]:
    return {sample.spec for sample in samples}


def test_a_half_used_card_is_told_in_bytes_and_as_a_share(simulate: Simulate) -> None:
    used_bytes = 20480 * BYTES_PER_MIB

    samples = collected(simulate, memory_used_bytes=constant(used_bytes))

    assert samples == [
        Sample(GPU_MEMORY_TOTAL_BYTES, TOTAL_BYTES, CARD),
        Sample(GPU_MEMORY_RESERVED_BYTES, 434 * BYTES_PER_MIB, CARD),
        Sample(GPU_MEMORY_USED_BYTES, used_bytes, CARD),
        Sample(GPU_MEMORY_USED_PEAK_BYTES, used_bytes, CARD),
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
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(total_bytes, used_bytes))
    node.answer(MEMORY_V1, memory_info(total_bytes, used_bytes))
    (gpu,) = node.open()

    assert list(collect(gpu, 1.0)) == [REJECTED]


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


def test_what_the_driver_may_tell_of_a_cut_card_is_the_card_s_own_figure(
    simulate: Simulate,
) -> None:
    (gpu,) = simulate(simulated_card(mig=Mig(instances=TWO_INSTANCES))).open()

    samples = list(collect(gpu, 1.0))

    assert told(samples, GPU_MEMORY_TOTAL_BYTES) == {CARD: TOTAL_BYTES}
    assert told(samples, GPU_MEMORY_USED_BYTES) == {CARD: 8 * GIB}


def test_where_the_driver_hides_the_use_of_a_cut_card_it_is_the_sum_of_the_instances(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(mig=UNPRIVILEGED))
    hide_the_use(node)
    (gpu,) = node.open()

    samples = list(collect(gpu, 1.0))

    assert told(samples, GPU_MEMORY_USED_BYTES) == {CARD: 8 * GIB}
    assert told(samples, GPU_MEMORY_USED_PEAK_BYTES) == {CARD: 8 * GIB}
    assert told(samples, GPU_MEMORY_USED_RATIO) == {CARD: 8 / 40}


def test_two_compute_instances_of_one_instance_hold_its_memory_once(simulate: Simulate) -> None:
    shared = MigInstance("3g.20gb", 0, memory_used_bytes=constant(16 * GIB), compute=(1, 1))
    node = simulate(simulated_card(mig=Mig(privileged=False, instances=(shared,))))
    hide_the_use(node)
    (gpu,) = node.open()

    assert told(collect(gpu, 1.0), GPU_MEMORY_USED_BYTES) == {CARD: 16 * GIB}


def test_a_cut_card_without_instances_uses_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card(mig=Mig(privileged=False)))
    hide_the_use(node)
    (gpu,) = node.open()

    assert told(collect(gpu, 1.0), GPU_MEMORY_USED_BYTES) == {CARD: 0}


def test_being_refused_a_cut_card_s_memory_is_no_failure(simulate: Simulate) -> None:
    node = simulate(simulated_card(mig=UNPRIVILEGED))
    sampler = node.sampler()

    node.sample_rounds(sampler, 5)

    page = values(sampler)
    assert page['rightslice_collector_success{collector="gpu_memory"}'] == 1
    assert not [series for series in page if series.startswith("rightslice_gpu_memory_total")]


def test_being_refused_a_cut_card_s_memory_does_not_take_the_card_down(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(mig=UNPRIVILEGED))
    sampler = node.sampler()

    up = []
    for _ in range(6):
        node.sample_rounds(sampler, 1)
        up.append(values(sampler)['rightslice_gpu_up{uuid="GPU-0001"}'])

    assert up == [1] * 6


def test_where_the_card_itself_is_refused_its_use_is_still_the_sum_of_the_instances(
    simulate: Simulate,
) -> None:
    samples = collected(simulate, mig=UNPRIVILEGED)

    assert told(samples, GPU_MEMORY_USED_BYTES) == {CARD: 8 * GIB}


def test_a_sum_with_an_impossible_instance_is_refused(simulate: Simulate) -> None:
    node = simulate(simulated_card(mig=UNPRIVILEGED))
    hide_the_use(node)
    usual = node.library.nvmlDeviceGetMemoryInfo_v2  # type: ignore[attr-defined]

    def impossible(handle: Any, memory: Any) -> int:
        code: int = usual(handle, memory)
        memory._obj.used = {5 * GIB: ALL_ONES_64}.get(memory._obj.used, memory._obj.used)
        return code

    node.answer(MEMORY_V2, impossible)
    (gpu,) = node.open()

    samples = list(collect(gpu, 1.0))

    assert REJECTED in samples
    assert GPU_MEMORY_USED_BYTES not in specs(samples)


def test_a_card_that_is_cut_anew_costs_one_round(simulate: Simulate) -> None:
    other = MigInstance("1g.5gb", 0, memory_used_bytes=constant(1 * GIB))
    cut_anew = Event(5.0, 0, mig=Mig(privileged=False, instances=(other,)))
    node = simulate(simulated_card(mig=UNPRIVILEGED), events=(cut_anew,))
    hide_the_use(node)
    sampler = node.sampler(("gpu_memory",))

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert page.get(failures("gpu_memory", "GPU-0001", "stale_handle"), 0) <= 1
    assert page['rightslice_gpu_memory_used_bytes{uuid="GPU-0001"}'] == 1 * GIB
    assert page['rightslice_gpu_up{uuid="GPU-0001"}'] == 1
