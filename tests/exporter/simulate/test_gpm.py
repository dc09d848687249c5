"""GPM: means between two samples, of cards and of GPU instances."""

from typing import Any

import pynvml
import pytest
from support.simulated import START_SECONDS, constant, simulated_card

from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.load import Level, Peak

from .conftest import Play

H100 = simulated_card(
    name="NVIDIA H100 80GB HBM3",
    busy_ratio=constant(0.9),
    sm_active_ratio=constant(0.4),
    sm_occupancy_ratio=constant(0.2),
    dram_active_ratio=constant(0.3),
)
SLICED = simulated_card(
    name="NVIDIA H100 80GB HBM3",
    mig=Mig(
        instances=(
            MigInstance("3g.40gb", 0, sm_active_ratio=constant(0.6)),
            MigInstance("1g.10gb", 4, sm_active_ratio=constant(0.1)),
        )
    ),
)


def metrics(first: Any, second: Any, *ids: int) -> list[tuple[int, Any]]:
    """Ask for metrics between two samples: return code and value of each."""
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.sample1, request.sample2 = first, second
    request.numMetrics = len(ids)
    for position, metric_id in enumerate(ids):
        request.metrics[position].metricId = metric_id
    pynvml.nvmlGpmMetricsGet(request)
    return [(row.nvmlReturn, row.value) for row in request.metrics[: len(ids)]]


@pytest.mark.parametrize(
    ("name", "supported"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", 1, id="Hopper"),
        pytest.param("NVIDIA B200", 1, id="Blackwell"),
        pytest.param("NVIDIA A100-SXM4-40GB", 0, id="Ampere"),
        pytest.param("NVIDIA GB10", 0, id="a card without facts"),
    ],
)
def test_gpm_is_for_hopper_and_newer(name: str, supported: int, play: Play) -> None:
    handle = play(simulated_card(name=name)).handle()

    assert pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == supported


def test_an_older_card_gives_no_sample(play: Play) -> None:
    handle = play(simulated_card()).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmSampleGet(handle, pynvml.nvmlGpmSampleAlloc())


def test_metrics_are_percentages_and_unknown_ones_fail_alone(play: Play) -> None:
    node = play(H100)
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(node.handle(), first)
    node.clock.advance(1)
    pynvml.nvmlGpmSampleGet(node.handle(), second)

    told = metrics(first, second, 1, 2, 3, 10, 5)

    assert told == [
        (0, pytest.approx(90)),
        (0, pytest.approx(40)),
        (0, pytest.approx(20)),
        (0, pytest.approx(30)),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, 0),
    ]


def test_a_metric_is_the_mean_of_what_lies_between_the_samples(play: Play) -> None:
    start_of_hour = 3600 - START_SECONDS % 3600
    node = play(
        simulated_card(name="NVIDIA H200", sm_active_ratio=Level(0.1, 0.1, Peak(0.9, 3600, 30)))
    )
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    node.clock.advance(start_of_hour)
    pynvml.nvmlGpmSampleGet(node.handle(), first)
    node.clock.advance(60)
    pynvml.nvmlGpmSampleGet(node.handle(), second)

    assert metrics(first, second, 2) == [(0, pytest.approx(50))]


def test_two_samples_of_one_moment_have_nothing_between_them(play: Play) -> None:
    node = play(H100)
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(node.handle(), first)
    pynvml.nvmlGpmSampleGet(node.handle(), second)

    assert metrics(first, second, 2) == [(pynvml.NVML_ERROR_NO_DATA, 0)]


def test_an_instance_is_sampled_by_its_id_or_through_its_mig_device(play: Play) -> None:
    node = play(SLICED)
    card = node.handle()
    large = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
    small = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 4)
    small_id = pynvml.nvmlDeviceGetGpuInstanceId(small)
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(4)]
    pynvml.nvmlGpmSampleGet(large, samples[0])
    pynvml.nvmlGpmMigSampleGet(card, small_id, samples[1])
    node.clock.advance(1)
    pynvml.nvmlGpmSampleGet(large, samples[2])
    pynvml.nvmlGpmMigSampleGet(card, small_id, samples[3])

    assert metrics(samples[0], samples[2], 2) == [(0, pytest.approx(60))]
    assert metrics(samples[1], samples[3], 2) == [(0, pytest.approx(10))]
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        metrics(samples[0], samples[3], 2)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlGpmMigSampleGet(card, 99, samples[0])
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmSampleGet(card, samples[0])


def test_a_sample_that_was_never_taken_or_is_freed_is_refused(play: Play) -> None:
    node = play(H100)
    taken, empty = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(node.handle(), taken)

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        metrics(taken, empty, 2)
    pynvml.nvmlGpmSampleFree(empty)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpmSampleFree(empty)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpmSampleGet(node.handle(), empty)
