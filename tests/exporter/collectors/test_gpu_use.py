"""Whether a card is held and busy, for how long it has been idle, and what is unknown."""

from dataclasses import dataclass
from typing import Any, cast

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import observed, values
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    SimulatedNode,
    constant,
    fail_first_instance,
    memory_info,
    sample_ring,
    simulated_card,
    told,
)

from rightslice.contract.metrics import (
    GPU_ALLOCATED_SECONDS_TOTAL,
    GPU_BUSY_RATIO,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_IDLE_SECONDS,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.sampling import HELD_MEMORY_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter.block_use import LONGEST_SAMPLE_SECONDS
from rightslice.exporter.collectors.gpu_use import (
    BusyMeter,
    BusyTime,
    collect,
    is_held,
)
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.inventory import REFRESH_SECONDS
from rightslice.exporter.simulate.card import Mig, MigInstance

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
SAMPLES, RATES = "nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
COMPUTE_V2 = "nvmlDeviceGetComputeRunningProcesses_v2"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_PROCESS_LIST = {COMPUTE: NOT_SUPPORTED, COMPUTE_V2: NOT_SUPPORTED}
UNIFIED_MEMORY = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED}
OLD_DRIVER = {MEMORY_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
NO_SAMPLE_BUFFER = {SAMPLES: NOT_SUPPORTED}
NO_UTILISATION = {SAMPLES: NOT_SUPPORTED, RATES: NOT_SUPPORTED}
CARD = ("GPU-0001",)
OF_THE_CARD = '{uuid="GPU-0001"}'
BUSY, IDLE = "rightslice_gpu_busy_seconds_total", "rightslice_gpu_idle_seconds"
ALLOCATED = "rightslice_gpu_allocated_seconds_total"
REJECTED = 'rightslice_rejected_samples_total{collector="gpu_use",reason="out_of_range"}'
ALL_ONES_32, ALL_ONES_64 = 2**32 - 1, 2**64 - 1
SECOND_US = 1_000_000

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
        Sample(GPU_IDLE_SECONDS, 0.0, CARD),
        Sample(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, 0.0, CARD),
    ]


def test_the_first_reading_covers_no_time(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card()).open()

    samples = list(collect(gpu, 0.0))

    assert {sample.value for sample in samples} == {0.0}
    assert {sample.covered_seconds for sample in samples} == {0.0}


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


@pytest.mark.parametrize(
    ("total_bytes", "used_bytes"),
    [
        pytest.param(40 * 1024**3, 40 * 1024**3 + 1, id="more than there is"),
        pytest.param(40 * 1024**3, ALL_ONES_64 - 4095, id="underflow"),
        pytest.param(ALL_ONES_64, ALL_ONES_64, id="sentinel"),
    ],
)
def test_impossible_memory_makes_nobody_a_holder(
    total_bytes: int, used_bytes: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card(process_count=0))
    node.answer(MEMORY_V2, memory_info(total_bytes, used_bytes))
    node.answer(MEMORY_V1, memory_info(total_bytes, used_bytes))
    (gpu,) = node.open()

    assert is_held(gpu) is False


def test_where_holders_cannot_be_seen_busy_time_is_still_told(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults=NO_PROCESS_LIST | UNIFIED_MEMORY))

    assert [sample.spec for sample in second_reading(node)] == [
        GPU_BUSY_SECONDS_TOTAL,
        GPU_BUSY_RATIO,
        GPU_OBSERVED_SECONDS_TOTAL,
        GPU_IDLE_SECONDS,
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


def test_without_a_sample_buffer_a_long_interval_is_covered_as_a_short_one_is(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(faults=NO_SAMPLE_BUFFER, busy_ratio=constant(0.25)))
    sampler = node.sampler(("gpu_use",), interval_seconds=10.0)

    node.sample_rounds(sampler, 7, step_seconds=10.0)

    page = values(sampler)
    assert page[observed("GPU-0001", "busy")] == 60
    assert page[BUSY + OF_THE_CARD] == 15


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


@dataclass
class RingCard:
    """As much of a card as the meter reads: its ring, reading by reading."""

    readings: list[list[tuple[int, int]]]
    newest_sample_us: int | None = 0
    settling_seconds: float = 0.0

    def new_utilisation_samples(self) -> list[tuple[int, int]]:
        samples = self.readings.pop(0)
        self.newest_sample_us = max([stamp for stamp, _ in samples], default=self.newest_sample_us)
        return samples


def meter_of(*readings: list[tuple[int, int]], since_us: int | None = 0) -> BusyMeter:
    """Make a meter of a card whose ring gives these samples, one list at each reading."""
    return BusyMeter(cast(NvmlCard, RingCard(list(readings), since_us)))


def idle_after(*readings: list[tuple[int, int]]) -> float | None:
    """Read all that a ring gives, and tell for how long the card is then known to be idle."""
    meter = meter_of(*readings)
    for _ in readings:
        meter.read(1.0)
    return meter.idle_seconds


def ring(first_second: int, *percents: int) -> list[tuple[int, int]]:
    """Give one sample per second from this one on."""
    return [(second * SECOND_US, percent) for second, percent in enumerate(percents, first_second)]


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
    busy = meter_of(samples, since_us=since_us).read(1.0)

    assert busy is not None
    assert (busy.busy_seconds, busy.covered_seconds, busy.rejected_count) == pytest.approx(
        expected, abs=1e-5
    )


@given(samples_of_a_ring)
def test_covered_seconds_never_exceed_the_time_between_the_samples(
    rows: list[tuple[int, int]],
) -> None:
    samples = sorted(rows)

    busy = meter_of(samples, since_us=1).read(1.0)

    elapsed_seconds = max([stamp_us for stamp_us, _ in samples], default=1) / 1e6
    assert busy is not None
    assert 0 <= busy.busy_seconds <= busy.covered_seconds + 1e-9
    assert busy.covered_seconds <= elapsed_seconds + 1e-9
    assert busy.rejected_count == sum(percent > 100 for _, percent in samples)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 2)), min_size=1, max_size=40))
def test_a_card_is_never_idle_for_longer_than_since_a_kernel_was_seen(
    rows: list[tuple[int, int]],
) -> None:
    samples = sorted(dict(rows).items())
    meter = meter_of(samples)

    meter.read(1.0)

    busy_us = [stamp_us for stamp_us, percent in samples if percent]
    newest_us = samples[-1][0]
    assert meter.idle_seconds is not None
    assert 0 <= meter.idle_seconds <= (newest_us - max(busy_us, default=0)) / 1e6 + 1e-6


@pytest.mark.parametrize(
    ("readings", "idle_seconds"),
    [
        pytest.param([ring(1, 0, 0, 0)], 3.0, id="no kernel"),
        pytest.param([ring(1, 0, 0), ring(3, 0), ring(4, 0)], 4.0, id="over several readings"),
        pytest.param([ring(1, 0, 0, 5)], 0.0, id="a kernel just now"),
        pytest.param([ring(1, 0, 0, 1, 0, 0)], 2.0, id="a kernel in between"),
        pytest.param([ring(1, 0, 0), [], ring(3, 0)], 3.0, id="one reading found nothing new"),
        pytest.param([ring(1, 0, 0), ring(60, 0, 0)], 3.0, id="a gap: 2 s of it, and what follows"),
        pytest.param([ring(1, 0, 0, 101, 0)], 1.0, id="from after a refused value"),
        pytest.param([ring(1, 0, 0, 255)], None, id="a refused value just now"),
        pytest.param([[]], None, id="nothing seen yet"),
    ],
)
def test_idleness_is_told_as_far_as_it_was_watched(
    readings: list[list[tuple[int, int]]], idle_seconds: float | None
) -> None:
    assert idle_after(*readings) == idle_seconds


def test_idleness_counts_from_the_start_of_the_exporter_and_not_from_before(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(busy_ratio=constant(0.0)))
    node.clock.advance(3600)
    sampler = node.sampler(("gpu_use",))

    node.sample_rounds(sampler, 1)
    first = values(sampler)[IDLE + OF_THE_CARD]
    node.sample_rounds(sampler, 10)

    assert first == 0
    assert values(sampler)[IDLE + OF_THE_CARD] == 10


def test_idleness_starts_anew_after_a_time_in_which_the_card_was_not_read(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(busy_ratio=constant(0.0)))
    sampler = node.sampler(("gpu_use",))
    node.sample_rounds(sampler, 100)

    # The driver's ring holds the last 20 s; of the 40 s before them nothing is known.
    node.sample_rounds(sampler, 1, step_seconds=60.0)

    assert values(sampler)[IDLE + OF_THE_CARD] <= 21


def test_without_a_sample_buffer_idleness_starts_anew_after_a_gap_as_well(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(faults=NO_SAMPLE_BUFFER, busy_ratio=constant(0.0)))
    sampler = node.sampler(("gpu_use",))
    node.sample_rounds(sampler, 100)

    node.sample_rounds(sampler, 1, step_seconds=60.0)

    assert values(sampler)[IDLE + OF_THE_CARD] <= 2


def test_idleness_is_not_told_once_the_driver_has_told_nothing_for_long(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults, busy_ratio=constant(0.0)))
    sampler = node.sampler(("gpu_use",))
    node.sample_rounds(sampler, 100)
    faults[SAMPLES] = pynvml.NVML_ERROR_NOT_FOUND

    node.sample_rounds(sampler, 60)

    assert IDLE + OF_THE_CARD not in values(sampler)


def test_an_idle_card_s_first_kernel_ends_its_idleness(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring(*ring(1, 0)))
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    node.answer(SAMPLES, sample_ring(*ring(2, 0, 0, 0)))
    before = told(collect(gpu, 3.0), GPU_IDLE_SECONDS)
    node.answer(SAMPLES, sample_ring(*ring(5, 1)))

    after = told(collect(gpu, 1.0), GPU_IDLE_SECONDS)

    assert (before, after) == ({CARD: 3.0}, {CARD: 0.0})


def test_what_a_card_says_of_its_first_half_minute_is_its_own_start_up(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(2), simulated_card(1, busy_ratio=constant(1.0)))
    node.list_cards(0)
    sampler = node.sampler(("gpu_use",))
    sampler.sample()
    node.list_cards(0, 1)
    node.sample_rounds(sampler, int(REFRESH_SECONDS))

    node.sample_rounds(sampler, 30)
    early = values(sampler)
    node.sample_rounds(sampler, 10)
    late = values(sampler)

    assert (early[BUSY + OF_THE_CARD], early[observed("GPU-0001", "busy")]) == (0, 0)
    assert early[observed("GPU-0001", "allocation")] == 30
    assert IDLE + OF_THE_CARD not in early
    assert (late[BUSY + OF_THE_CARD], late[observed("GPU-0001", "busy")]) == (10, 10)


def test_a_card_that_was_there_before_the_exporter_needs_no_time_to_settle(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(busy_ratio=constant(1.0)))
    sampler = node.sampler(("gpu_use",))

    node.sample_rounds(sampler, 11)

    assert values(sampler)[BUSY + OF_THE_CARD] == 10


def test_a_card_that_only_changes_its_place_in_the_list_goes_on_being_watched(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(2), simulated_card(1, busy_ratio=constant(0.0)))
    sampler = node.sampler(("gpu_use",))
    node.sample_rounds(sampler, 50)
    node.list_cards(1)

    node.sample_rounds(sampler, 20)

    page = values(sampler)
    assert page[IDLE + OF_THE_CARD] == 69
    assert page[observed("GPU-0001", "busy")] == 69


def cut_card(*used_bytes: int, privileged: bool = True) -> Any:
    """Give a card with one instance for each of these sizes of memory in use."""
    instances = tuple(
        MigInstance("1g.5gb", start, memory_used_bytes=constant(used))
        for start, used in enumerate(used_bytes)
    )
    mig = Mig(privileged=privileged, instances=instances)
    return simulated_card(mig=mig, busy_ratio=constant(1.0))


@pytest.mark.parametrize("privileged", [True, False])
@pytest.mark.parametrize(
    ("used_bytes", "held"),
    [
        pytest.param((), False, id="no instance"),
        pytest.param((0, 0), False, id="none in use"),
        pytest.param((0, HELD_MEMORY_BYTES), False, id="what idle instances show"),
        pytest.param((0, HELD_MEMORY_BYTES + 1), True, id="one in use"),
        pytest.param((3 * 1024**3, 2 * 1024**3), True, id="all in use"),
    ],
)
def test_a_cut_card_is_held_while_any_of_its_instances_is(
    used_bytes: tuple[int, ...], held: bool, privileged: bool, simulate: Simulate
) -> None:
    (gpu,) = simulate(cut_card(*used_bytes, privileged=privileged)).open()

    assert is_held(gpu) is held


def test_impossible_memory_of_an_instance_makes_nobody_a_holder(simulate: Simulate) -> None:
    node = simulate(cut_card(0))
    node.answer(MEMORY_V2, memory_info(40 * 1024**3, ALL_ONES_64))
    (gpu,) = node.open()

    assert is_held(gpu) is not True


def test_a_cut_card_has_no_busy_series_and_not_zero(simulate: Simulate) -> None:
    node = simulate(cut_card(3 * 1024**3))
    sampler = node.sampler(("gpu_use",))

    node.sample_rounds(sampler, 130)

    page = values(sampler)
    assert page[ALLOCATED + OF_THE_CARD] == 129
    assert not [series for series in page if "busy" in series or "idle" in series]


@pytest.mark.parametrize("percent", [101, 400_000, ALL_ONES_32])
def test_a_wild_value_costs_its_second_and_the_rest_of_the_page_stays(
    percent: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    node.answer(SAMPLES, sample_ring(*ring(1, 50)))
    sampler = node.sampler(("gpu_use", "gpu_memory"))
    node.sample_rounds(sampler, 1)
    node.answer(SAMPLES, sample_ring(*ring(2, 50, percent, 50)))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[REJECTED] == 1
    assert page[BUSY + OF_THE_CARD] == 1
    assert page[observed("GPU-0001", "busy")] == 2
    assert page[observed("GPU-0001", "memory")] == 1


def test_while_a_card_settles_its_samples_are_read_and_not_kept_for_later() -> None:
    card = RingCard([ring(1, 100, 100), ring(3, 100)], settling_seconds=1.0)
    meter = BusyMeter(cast(NvmlCard, card))

    first = meter.read(2.0)
    second = meter.read(1.0)

    assert first == BusyTime(0.0, 0.0, 0)
    assert second == BusyTime(1.0, 1.0, 0)


@pytest.mark.parametrize(
    ("process_count", "held"),
    [
        pytest.param(1, True, id="a process"),
        pytest.param(0, None, id="pages that may be left over"),
    ],
)
def test_memory_that_the_kernel_owns_is_no_proof_of_a_holder(
    process_count: int, held: bool | None, simulate: Simulate
) -> None:
    card = simulated_card(memory_kind="os_managed", process_count=process_count)
    (gpu,) = simulate(card).open()
    gpu.memory()

    assert is_held(gpu) is held


def test_processes_that_are_not_ours_to_list_cost_no_use(simulate: Simulate) -> None:
    faults = {"nvmlDeviceGetComputeRunningProcesses_v3": pynvml.NVML_ERROR_NO_PERMISSION}
    node = simulate(simulated_card(faults=faults, busy_ratio=constant(0.5)))
    sampler = node.sampler(("gpu_use",))

    node.sample_rounds(sampler, 11)

    page = values(sampler)
    assert page[BUSY + OF_THE_CARD] == 5
    assert page["rightslice_gpu_allocated_seconds_total" + OF_THE_CARD] == 10


def open_with_failing_first(node: SimulatedNode, code: int) -> NvmlCard:
    """Give a cut card of which the first instance's memory call fails."""
    (gpu,) = node.open()
    fail_first_instance(node, gpu, code)
    return gpu


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="failing"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="not ours to read"),
    ],
)
@pytest.mark.parametrize(
    ("other_used_bytes", "held"),
    [
        pytest.param(0, None, id="the other is free"),
        pytest.param(3 * 1024**3, True, id="the other is in use"),
    ],
)
def test_an_instance_that_does_not_tell_is_no_failure_of_the_whole_card_s_use(
    other_used_bytes: int, held: bool | None, code: int, simulate: Simulate
) -> None:
    gpu = open_with_failing_first(simulate(cut_card(0, other_used_bytes)), code)

    assert is_held(gpu) is held


def test_an_instance_of_a_lost_card_is_a_failure(simulate: Simulate) -> None:
    gpu = open_with_failing_first(simulate(cut_card(0, 0)), pynvml.NVML_ERROR_GPU_IS_LOST)

    with pytest.raises(NvmlError, match="GPU is lost"):
        is_held(gpu)
