"""A failing collector costs its own samples and nothing else."""

from collections.abc import Callable, Iterator

import pynvml
import pytest

from rightslice.contract.metrics import GPU_MEMORY_USED_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter import guard
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.nvml.card import CardIdentity, NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.paths import NOWHERE

CARD = NvmlCard(
    CardIdentity("GPU-0001", 0, "NVIDIA A10", "0000:07", "", ""),
    None,
    "580.95.05",
    Attribution(NOWHERE, real_clock()),
)
READING = Sample(GPU_MEMORY_USED_BYTES, 1, ("GPU-0001",))


def collector(collect: Callable[[NvmlCard, float], Iterator[Sample]]) -> Collector[NvmlCard]:
    return Collector((), devices=lambda host: host.gpus, collect=collect)


def reads(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield Sample(GPU_MEMORY_USED_BYTES, covered_seconds, (card.id,))


def reads_nothing(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield from ()


def is_lost_half_way(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield READING
    raise NvmlError("nvmlDeviceGetMemoryInfo", pynvml.NVML_ERROR_GPU_IS_LOST)


def is_broken(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield READING
    raise ZeroDivisionError("division by zero")


def test_what_was_collected_is_handed_on() -> None:
    outcome = guard.run(collector(reads), CARD, 1.5)

    assert outcome == guard.Outcome((Sample(GPU_MEMORY_USED_BYTES, 1.5, ("GPU-0001",)),))


def test_hardware_that_has_no_such_thing_is_no_failure() -> None:
    assert guard.run(collector(reads_nothing), CARD, 1.0) == guard.Outcome(())


@pytest.mark.parametrize(
    ("collect", "reason", "error"),
    [
        pytest.param(
            is_lost_half_way,
            Reason.LOST,
            "nvmlDeviceGetMemoryInfo: GPU is lost (NVML code 15)",
            id="the driver's failure",
        ),
        pytest.param(is_broken, Reason.UNKNOWN, "division by zero", id="a mistake of our own"),
    ],
)
def test_a_reading_that_fails_half_way_gives_its_reason_and_error(
    collect: Callable[[NvmlCard, float], Iterator[Sample]], reason: Reason, error: str
) -> None:
    outcome = guard.run(collector(collect), CARD, 1.0)

    assert (outcome.reason, str(outcome.error)) == (reason, error)


def test_what_was_read_before_a_failure_is_kept_unless_the_card_is_gone() -> None:
    assert guard.run(collector(is_broken), CARD, 1.0).samples == (READING,)
    assert guard.run(collector(is_lost_half_way), CARD, 1.0).samples == ()


def test_a_failure_is_not_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    guard.run(collector(is_broken), CARD, 1.0)

    assert caplog.records == []
