"""A failing collector costs its own samples and nothing else."""

import logging
from collections.abc import Callable, Iterator

import pynvml
import pytest

from rightslice.contract.metrics import GPU_MEMORY_USED_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter import guard
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml import CardIdentity, NvmlCard, NvmlError, Reason

CARD = NvmlCard(CardIdentity("GPU-0001", 0, "NVIDIA A10", "0000:07", "", ""), None, "580.95.05")
READING = Sample(GPU_MEMORY_USED_BYTES, 1, ("GPU-0001",))


def collector(collect: Callable[[NvmlCard, float], Iterator[Sample]]) -> Collector:
    return Collector((), devices=lambda host: host.gpus, collect=collect)


def reads(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield Sample(GPU_MEMORY_USED_BYTES, covered_seconds, (card.id,))


def reads_nothing(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield from ()


def is_lost_half_way(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield READING
    raise NvmlError("nvmlDeviceGetMemoryInfo", pynvml.NVML_ERROR_GPU_IS_LOST, "GPU is lost")


def is_broken(card: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    yield READING
    raise ZeroDivisionError("division by zero")


def test_what_was_collected_is_handed_on() -> None:
    outcome = guard.run("memory", collector(reads), CARD, 1.5)

    assert outcome == guard.Outcome((Sample(GPU_MEMORY_USED_BYTES, 1.5, ("GPU-0001",)),), None)


def test_hardware_that_has_no_such_thing_is_no_failure() -> None:
    assert guard.run("memory", collector(reads_nothing), CARD, 1.0) == guard.Outcome((), None)


def test_a_reading_that_fails_half_way_gives_its_reason_and_no_samples() -> None:
    assert guard.run("memory", collector(is_lost_half_way), CARD, 1.0) == guard.Outcome(
        (), Reason.LOST
    )


def test_a_mistake_of_our_own_is_caught_and_told_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome = guard.run("memory", collector(is_broken), CARD, 1.0)

    assert outcome == guard.Outcome((), Reason.UNKNOWN)
    assert "memory on GPU-0001 failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_failure_of_the_driver_is_one_line_that_names_card_and_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard.run("memory", collector(is_lost_half_way), CARD, 1.0)

    assert caplog.record_tuples == [
        (
            "rightslice.exporter.guard",
            logging.WARNING,
            "memory on GPU-0001: nvmlDeviceGetMemoryInfo: GPU is lost (NVML code 15)",
        )
    ]
