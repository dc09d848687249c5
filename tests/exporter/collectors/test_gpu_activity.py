"""Activity of the multiprocessors: of the card, of each instance, and what is no reading."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import (
    Shipped,
    Simulate,
    SimulatedNode,
    constant,
    hopper,
    simulated_card,
    single,
    told,
)

from rightslice.contract.metrics import (
    GPU_DRAM_ACTIVE_SECONDS_TOTAL,
    GPU_SM_ACTIVE_RATIO,
    GPU_SM_ACTIVE_SECONDS_TOTAL,
    GPU_SM_OBSERVED_SECONDS_TOTAL,
    GPU_SM_OCCUPANCY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import GPU_CONTEXT_SWITCHES_TOTAL
from rightslice.exporter.collectors.gpu_activity import SwitchRate, collect
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.load import Level, Peak
from rightslice.exporter.simulate.timeline import Event

METRICS, SUPPORT = "nvmlGpmMetricsGet", "nvmlGpmQueryDeviceSupport"
EVENT_TYPES = "nvmlDeviceGetSupportedEventTypes"
EVERY = 5.0
WHOLE = ("GPU-0001", "")
FIRST, SECOND = ("GPU-0001", "1"), ("GPU-0001", "2")
UP = 'rightslice_gpu_up{uuid="GPU-0001"}'
SM = pynvml.NVML_GPM_METRIC_SM_UTIL
OCCUPANCY = pynvml.NVML_GPM_METRIC_SM_OCCUPANCY
SWITCHES = pynvml.NVML_GPM_METRIC_GR0_CTXSW_REQUESTS
NAN, INFINITY = float("nan"), float("inf")


def instance(start: int, sm_active: float, **changes: Any) -> MigInstance:
    usual = {
        "sm_active_ratio": constant(sm_active),
        "sm_occupancy_ratio": constant(sm_active / 2),
        "dram_active_ratio": constant(sm_active / 4),
    }
    return MigInstance("3g.40gb", start, **(usual | changes))


def cut(*instances: MigInstance, **changes: Any) -> Mig:
    return Mig(instances=instances, **changes)


def means(**percents: float) -> Callable[..., int]:
    """Make a nvmlGpmMetricsGet that tells these percentages and the number of switches."""
    numbers = {
        SM: percents.get("sm"),
        OCCUPANCY: percents.get("occupancy"),
        pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: percents.get("dram"),
        SWITCHES: percents.get("switches"),
    }

    def answer(request: Any) -> int:
        for metric in request._obj.metrics[: request._obj.numMetrics]:
            value = numbers[metric.metricId]
            metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if value is None else 0
            metric.value = value or 0.0
        return int(pynvml.NVML_SUCCESS)

    return answer


def second_reading(node: SimulatedNode) -> list[Sample]:
    """Collect twice, and give what the second reading tells."""
    (gpu,) = node.open()
    tuple(collect(gpu, 0.0))
    node.clock.advance(EVERY)
    return list(collect(gpu, EVERY))


def series(name: str, gpu_instance_id: str = "") -> str:
    labels = f'uuid="GPU-0001",gpu_instance_id="{gpu_instance_id}"'
    return f"rightslice_gpu_{name}_seconds_total{{{labels}}}"


def test_percentages_are_told_as_seconds(simulate: Simulate) -> None:
    node = simulate(hopper())
    sampler = node.sampler(("gpu_activity",))

    node.sample_rounds(sampler, 41)

    page = values(sampler)
    assert page[series("sm_observed")] == 40
    assert page[series("sm_active")] == pytest.approx(10)
    assert page[series("sm_occupancy")] == pytest.approx(5)
    assert page[series("dram_active")] == pytest.approx(20)


def test_the_mean_of_a_minute_is_observed_as_a_share(simulate: Simulate) -> None:
    node = simulate(hopper())
    sampler = node.sampler(("gpu_activity",))

    node.sample_rounds(sampler, 200)

    page = values(sampler)
    labels = '{uuid="GPU-0001",gpu_instance_id=""}'
    count = page["rightslice_gpu_sm_active_ratio_count" + labels]
    assert count >= 2
    assert page["rightslice_gpu_sm_active_ratio_sum" + labels] == pytest.approx(0.25 * count)


def test_the_first_reading_covers_nothing(simulate: Simulate) -> None:
    (gpu,) = simulate(hopper()).open()

    samples = list(collect(gpu, EVERY))

    assert {sample.value for sample in samples} == {0.0}
    assert {sample.covered_seconds for sample in samples} == {0.0}


def test_what_the_driver_does_not_measure_has_no_series_and_not_zero(simulate: Simulate) -> None:
    node = simulate(hopper(sm_occupancy_ratio=None, dram_active_ratio=None))
    sampler = node.sampler(("gpu_activity",))

    node.sample_rounds(sampler, 41)

    page = values(sampler)
    assert page[series("sm_active")] == pytest.approx(10)
    assert series("sm_occupancy") not in page
    assert series("dram_active") not in page


def test_a_cut_card_is_told_by_instance_only_and_each_by_its_own_denominator(
    simulate: Simulate,
) -> None:
    samples = second_reading(simulate(hopper(mig=cut(instance(0, 1.0), instance(4, 0.5)))))

    assert told(samples, GPU_SM_OBSERVED_SECONDS_TOTAL) == {FIRST: 5.0, SECOND: 5.0}
    assert told(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == {FIRST: 5.0, SECOND: 2.5}
    assert told(samples, GPU_SM_OCCUPANCY_SECONDS_TOTAL) == {FIRST: 2.5, SECOND: 1.25}
    assert told(samples, GPU_DRAM_ACTIVE_SECONDS_TOTAL) == {FIRST: 1.25, SECOND: 0.625}
    assert told(samples, GPU_SM_ACTIVE_RATIO) == {FIRST: 1.0, SECOND: 0.5}


def test_two_compute_instances_of_one_instance_are_told_once(simulate: Simulate) -> None:
    samples = second_reading(simulate(hopper(mig=cut(instance(0, 0.5, compute=(1, 2))))))

    assert told(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == {FIRST: 2.5}
    assert len(samples) == 5


def test_an_unprivileged_caller_is_told_of_instances_too(simulate: Simulate) -> None:
    node = simulate(hopper(mig=cut(instance(0, 0.5), privileged=False)))

    assert told(second_reading(node), GPU_SM_ACTIVE_SECONDS_TOTAL) == {FIRST: 2.5}


def test_a_cut_card_without_instances_has_no_series_and_not_zero(simulate: Simulate) -> None:
    assert second_reading(simulate(hopper(mig=cut()))) == []


def test_a_share_above_one_is_told_as_it_is(simulate: Simulate) -> None:
    node = simulate(hopper(mig=cut(instance(0, 0.5))))
    node.answer(METRICS, means(sm=140.0, occupancy=30.0, dram=10.0))

    samples = second_reading(node)

    assert told(samples, GPU_SM_ACTIVE_RATIO) == {FIRST: pytest.approx(1.4)}
    assert told(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == {FIRST: pytest.approx(7.0)}
    assert told(samples, REJECTED_SAMPLES_TOTAL) == {}


@pytest.mark.parametrize(
    "percents",
    [
        pytest.param({"sm": NAN, "occupancy": 1.0, "dram": 1.0}, id="not a number"),
        pytest.param({"sm": INFINITY, "occupancy": 1.0, "dram": 1.0}, id="infinite"),
        pytest.param({"sm": -1.0, "occupancy": 1.0, "dram": 1.0}, id="below zero"),
        pytest.param({"sm": 2.0**47, "occupancy": 1.0, "dram": 1.0}, id="sentinel"),
        pytest.param({"sm": 50.0, "occupancy": 2.0**47, "dram": 1.0}, id="sentinel beside it"),
        pytest.param({"occupancy": 1.0, "dram": 1.0}, id="missing beside others"),
    ],
)
def test_what_is_no_percentage_is_refused_and_counted(
    percents: dict[str, float], simulate: Simulate
) -> None:
    node = simulate(hopper())
    node.answer(METRICS, means(**percents))

    assert second_reading(node) == [
        Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_activity", "out_of_range"))
    ]


@pytest.mark.parametrize("busy", [0.5, 1.0])
def test_no_activity_while_kernels_run_is_no_reading(busy: float, simulate: Simulate) -> None:
    node = simulate(hopper(busy_ratio=constant(busy)))
    node.answer(METRICS, means(sm=0.0, occupancy=0.0, dram=0.0))

    assert second_reading(node) == [
        Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_activity", "contradicts_busy"))
    ]


def test_activity_that_stays_at_zero_for_long_covers_no_time(simulate: Simulate) -> None:
    node = simulate(hopper(busy_ratio=constant(0.97)))
    node.answer(METRICS, means(sm=0.0, occupancy=0.0, dram=0.0))
    sampler = node.sampler()

    node.sample_rounds(sampler, 301)

    page = values(sampler)
    assert page[series("sm_observed")] == 0
    assert page['rightslice_gpu_sm_active_ratio_count{uuid="GPU-0001",gpu_instance_id=""}'] == 0
    labels = 'collector="gpu_activity",reason="contradicts_busy"'
    assert page[f"rightslice_rejected_samples_total{{{labels}}}"] == 60


@pytest.mark.parametrize("busy", [0.0, 0.49])
def test_no_activity_of_a_card_that_hardly_works_is_a_reading(
    busy: float, simulate: Simulate
) -> None:
    node = simulate(hopper(busy_ratio=constant(busy)))
    node.answer(METRICS, means(sm=0.0, occupancy=0.0, dram=0.0))

    samples = second_reading(node)

    assert told(samples, GPU_SM_OBSERVED_SECONDS_TOTAL) == {WHOLE: 5.0}
    assert told(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == {WHOLE: 0.0}


def test_an_instance_that_does_nothing_is_told_to_do_nothing(simulate: Simulate) -> None:
    samples = second_reading(simulate(hopper(mig=cut(instance(0, 0.0)))))

    assert told(samples, GPU_SM_OBSERVED_SECONDS_TOTAL) == {FIRST: 5.0}
    assert told(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == {FIRST: 0.0}


@pytest.mark.parametrize(
    "name", ["NVIDIA A100-SXM4-40GB", "NVIDIA L40S", "Tesla V100-SXM2-32GB", "Tesla T4"]
)
def test_a_card_before_hopper_has_no_series_and_not_zero(name: str, simulate: Simulate) -> None:
    assert second_reading(simulate(simulated_card(name=name))) == []


def test_a_card_before_hopper_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_activity",))
    node.sample_rounds(sampler, 1)
    called = node.record_calls()

    node.sample_rounds(sampler, 50)

    assert SUPPORT not in called
    assert METRICS not in called


def test_a_guest_has_no_series(shipped: Shipped) -> None:
    node = shipped("vgpu-guest")
    sampler = node.sampler()

    node.sample_rounds(sampler, 20)

    assert not [name for name in values(sampler) if name.startswith("rightslice_gpu_sm_")]


def rebuilt(at_seconds: float, sm_active: float) -> Event:
    """Destroy the first instance and make another in its place, under the same id."""
    return Event(at_seconds, 0, mig=cut(instance(0, sm_active), instance(4, 0.5)))


def test_an_instance_that_was_made_anew_under_its_id_starts_anew(simulate: Simulate) -> None:
    card = hopper(mig=cut(instance(0, 1.0), instance(4, 0.5)))
    node = simulate(card, events=(rebuilt(23.0, 0.25),))
    sampler = node.sampler()

    node.sample_rounds(sampler, 62)

    page = values(sampler)
    observed_seconds = page[series("sm_observed", "1")]
    active_seconds = page[series("sm_active", "1")]
    # Read at 1, 6, ..., 61 s. Of the old one 20 s at 1.0; of the new one what is left at 0.25.
    assert 50 <= observed_seconds < 60
    assert active_seconds == pytest.approx(20 + 0.25 * (observed_seconds - 20))
    assert page[series("sm_observed", "2")] == 60


def test_an_instance_that_is_made_anew_costs_its_card_no_round(simulate: Simulate) -> None:
    card = hopper(mig=cut(instance(0, 1.0), instance(4, 0.5)))
    node = simulate(card, events=(rebuilt(25.5, 0.25),))
    sampler = node.sampler()
    up = []

    for _ in range(60):
        node.sample_rounds(sampler, 1)
        up.append(values(sampler)[UP])

    assert up == [1] * 60


def test_means_over_two_instances_of_one_id_are_never_told(simulate: Simulate) -> None:
    card = hopper(mig=cut(instance(0, 1.0), instance(4, 0.5)))
    node = simulate(card, events=(rebuilt(25.5, 0.25),))
    sampler = node.sampler(("driver_events", "gpu_activity", "mig"))
    node.sample_rounds(sampler, 25)
    # A driver that cannot tell: it takes what the first sample holds from what the second holds.
    node.answer(METRICS, means(sm=900.0, occupancy=1.0, dram=1.0))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[series("sm_active", "1")] == pytest.approx(20)


def test_an_instance_that_is_gone_is_told_no_more_of(simulate: Simulate) -> None:
    gone = Event(20.0, 0, mig=cut(instance(4, 0.5)))
    node = simulate(hopper(mig=cut(instance(0, 1.0), instance(4, 0.5))), events=(gone,))
    sampler = node.sampler()
    node.sample_rounds(sampler, 30)
    before = values(sampler)[series("sm_observed", "1")]

    node.sample_rounds(sampler, 60)

    page = values(sampler)
    assert page[series("sm_observed", "1")] == before
    assert page[series("sm_observed", "2")] == 85


def test_a_level_that_changes_is_told_as_its_mean(simulate: Simulate) -> None:
    level = Level(0.0, 0.0, Peak(value=1.0, every_seconds=10.0, for_seconds=2.0))
    node = simulate(hopper(sm_active_ratio=level, busy_ratio=constant(0.0)))
    sampler = node.sampler(("gpu_activity",))

    node.sample_rounds(sampler, 101)

    assert values(sampler)[series("sm_active")] == pytest.approx(20)


def test_context_switches_are_counted_and_their_rate_is_kept(simulate: Simulate) -> None:
    node = simulate(hopper(context_switches_per_second=constant(400)))

    samples = second_reading(node)

    assert single(samples, GPU_CONTEXT_SWITCHES_TOTAL) == 400 * EVERY
    assert node.host.gpus[0].reader(SwitchRate).per_second == 400


@pytest.mark.parametrize("switches", [None, -1.0, NAN, 1e9])
def test_switches_that_are_not_told_or_cannot_be_are_unknown_and_not_zero(
    switches: float | None, simulate: Simulate
) -> None:
    node = simulate(hopper())
    told_percents = {"sm": 25.0} if switches is None else {"sm": 25.0, "switches": switches}
    node.answer("nvmlGpmMetricsGet", means(**told_percents))

    samples = second_reading(node)

    assert told(samples, GPU_CONTEXT_SWITCHES_TOTAL) == {}
    assert single(samples, GPU_SM_ACTIVE_SECONDS_TOTAL) == 0.25 * EVERY
    assert node.host.gpus[0].reader(SwitchRate).per_second is None


def test_a_cut_card_counts_no_switches(simulate: Simulate) -> None:
    node = simulate(
        hopper(context_switches_per_second=constant(400), mig=cut(instance(0, sm_active=0.5)))
    )

    assert told(second_reading(node), GPU_CONTEXT_SWITCHES_TOTAL) == {}
