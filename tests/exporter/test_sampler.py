"""The background loop: when it reads, what time a reading covers, and when it is ready."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pages import observed, values
from support.simulated import (
    IDENTITY,
    START_SECONDS,
    Simulate,
    SimulatedNode,
    simulated_card,
    simulated_scenario,
)

from rightslice.contract.metrics import GPU_MEMORY_USED_RATIO
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.faults import ALL
from rightslice.exporter.simulate.library import installed

MEMORY_V2, SAMPLES = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetSamples"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
EVERY_READING = (MEMORY_V2, SAMPLES, COMPUTE)
LOST, UNKNOWN = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN

FIRST = '{uuid="GPU-0001"}'
UP, USED = "rightslice_gpu_up", "rightslice_gpu_memory_used_bytes"
BUSY = "rightslice_gpu_busy_seconds_total"


def test_a_process_tells_who_and_where_it_is_before_it_has_read_anything(
    simulate: Simulate,
) -> None:
    page = values(simulate(simulated_card()).sampler(interval_seconds=0.5))

    assert page == {
        'rightslice_build_info{version="0.0.0",revision="test"}': 1,
        'rightslice_node_info{node="node-a"}': 1,
        'rightslice_signal_interval_seconds{signal="memory"}': 0.5,
        'rightslice_signal_interval_seconds{signal="compute"}': 60,
        "process_start_time_seconds": START_SECONDS,
    }


def test_the_first_round_covers_nothing_and_the_second_covers_an_interval(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    sampler.sample()
    first = values(sampler)

    node.sample_rounds(sampler, 1)

    assert first[observed("GPU-0001", "memory")] == 0
    assert values(sampler)[observed("GPU-0001", "memory")] == 1


@pytest.mark.parametrize(
    ("gap_seconds", "covered_seconds"),
    [
        pytest.param(1.0, 1.0, id="on time"),
        pytest.param(1.7, 1.7, id="late"),
        pytest.param(2.0, 2.0, id="one round missed"),
        pytest.param(30.0, 2.0, id="a long gap is unknown"),
    ],
)
def test_a_reading_stands_for_no_more_than_two_intervals(
    gap_seconds: float, covered_seconds: float, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    sampler.sample()

    node.sample_rounds(sampler, 1, gap_seconds)

    page = values(sampler)
    assert page[observed("GPU-0001", "memory")] == pytest.approx(covered_seconds)
    assert page[observed("GPU-0001", "allocation")] == pytest.approx(covered_seconds)


def test_one_failed_reading_is_bridged(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults))
    sampler = node.sampler()
    sampler.sample()
    faults[MEMORY_V2] = UNKNOWN
    node.sample_rounds(sampler, 1)
    faults.clear()

    node.sample_rounds(sampler, 1)

    assert values(sampler)[observed("GPU-0001", "memory")] == 2


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0.01, 90), st.booleans()), max_size=25))
def test_covered_seconds_never_exceed_the_time_that_passed(
    steps: list[tuple[float, bool]],
) -> None:
    faults: dict[str, int] = {}
    clock, card = ManualClock(START_SECONDS), simulated_card(faults=faults)
    with installed(simulated_scenario(card), clock.now_seconds) as library:
        node = SimulatedNode(clock, library, Host("node-a", NOWHERE, clock.clock()))
        sampler = node.sampler()
        sampler.sample()
        for step_seconds, fails in steps:
            faults |= dict.fromkeys(EVERY_READING, int(UNKNOWN)) if fails else {}
            node.sample_rounds(sampler, 1, step_seconds)
            faults.clear()

    page = values(sampler)
    passed_seconds = clock.now_seconds() - START_SECONDS
    assert page[observed("GPU-0001", "memory")] <= passed_seconds + 1e-6
    assert page[observed("GPU-0001", "allocation")] <= passed_seconds + 1e-6
    # The driver stamps whole seconds: at most the one in which we began comes on top.
    assert page[observed("GPU-0001", "busy")] <= passed_seconds + 1 + 1e-6
    assert page[BUSY + FIRST] <= page[observed("GPU-0001", "busy")]


codes = st.sampled_from(
    [
        LOST,
        UNKNOWN,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_OPERATING_SYSTEM,
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_TIMEOUT,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
    ]
)
functions = st.sampled_from([ALL, *EVERY_READING, "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode"])
# What may happen to a node of two cards.
happenings = st.one_of(
    st.tuples(st.just("a card fails"), st.integers(0, 1), functions, codes),
    st.tuples(st.just("a card works"), st.integers(0, 1)),
    st.tuples(st.just("the list changes"), st.lists(st.integers(0, 1), max_size=3)),
    st.tuples(st.just("NVML opens"), st.one_of(st.just(0), codes)),
    st.tuples(st.just("NVML closes"), st.one_of(st.just(0), codes)),
    st.just(("release",)),
    st.just(("resume",)),
)


@dataclass
class Story:
    """A node of two cards to which things happen, and its pages in between."""

    node: SimulatedNode
    faults: tuple[dict[str, int], dict[str, int]]
    sampler: Sampler
    pages: list[dict[str, float]] = field(default_factory=list)

    def happen(self, what: tuple[Any, ...]) -> None:
        match what:
            case ("a card fails", position, function, code):
                self.faults[position][function] = code
            case ("a card works", position):
                self.faults[position].clear()
            case ("the list changes", positions):
                self.node.list_cards(*positions)
            case ("NVML opens", code):
                self.node.fail("nvmlInitWithFlags", code)
            case ("NVML closes", code):
                self.node.fail("nvmlShutdown", code)
            case ("release",):
                self.sampler.release()
            case ("resume",):
                self.sampler.resume()

    def tell(self, steps: list[tuple[float, tuple[Any, ...]]]) -> None:
        for step_seconds, what in steps:
            self.happen(what)
            self.node.sample_rounds(self.sampler, 1, step_seconds)
            self.pages.append(values(self.sampler))

    def fallen(self) -> list[str]:
        """Name the counters that fell or vanished."""
        return [
            series
            for before, after in pairwise(self.pages)
            for series, value in before.items()
            if series.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))
            and after.get(series, -1) < value
        ]


@contextmanager
def story() -> Iterator[Story]:
    faults: tuple[dict[str, int], dict[str, int]] = ({}, {})
    cards = [simulated_card(number + 1, faults=each) for number, each in enumerate(faults)]
    clock = ManualClock(START_SECONDS)
    with installed(simulated_scenario(*cards), clock.now_seconds) as library:
        node = SimulatedNode(clock, library, Host("node-a", NOWHERE, clock.clock()))
        # Without what this very process costs, which a simulation does not know.
        yield Story(node, faults, node.sampler(tuple(n for n in ENABLED if n != "own_process")))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0.01, 700), happenings), max_size=25))
def test_whatever_happens_counters_never_fall_and_no_time_is_covered_twice(
    steps: list[tuple[float, tuple[Any, ...]]],
) -> None:
    with story() as told:
        told.sampler.sample()
        told.tell(steps)

    page = values(told.sampler)
    passed_seconds = told.node.clock.now_seconds() - START_SECONDS
    covered_seconds = [
        value for series, value in page.items() if series.startswith("rightslice_gpu_observed")
    ]
    assert told.fallen() == []
    # The driver stamps whole seconds: at most the one in which we began comes on top.
    assert max(covered_seconds, default=0) <= passed_seconds + 1 + 1e-6


def test_it_is_ready_while_a_card_is_read_and_for_ten_intervals_after(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    before = sampler.is_ready
    sampler.sample()
    fresh = sampler.is_ready
    node.clock.advance(10)
    still = sampler.is_ready
    node.clock.advance(1)

    assert (before, fresh, still, sampler.is_ready) == (False, True, True, False)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(LOST, id="lost"),
        pytest.param(UNKNOWN, id="unknown error"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
    ],
)
def test_it_is_not_ready_when_no_card_answers_any_call(code: int, simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    faults[ALL] = code

    node.sample_rounds(sampler, 11)

    assert not sampler.is_ready
    assert values(sampler)[UP + FIRST] == 0


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(UNKNOWN, id="unknown error"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
    ],
)
def test_it_stays_ready_while_a_card_fails_some_calls_and_answers_others(
    code: int, simulate: Simulate
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    faults[MEMORY_V2] = code

    node.sample_rounds(sampler, 30)

    assert sampler.is_ready
    assert values(sampler)[UP + FIRST] == 1


def test_readiness_counts_the_cards_that_answered_lately(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler(min_cards=2)
    node.sample_rounds(sampler, 1)
    both = sampler.is_ready
    faults[MEMORY_V2] = LOST
    node.sample_rounds(sampler, 10)
    lately = sampler.is_ready

    node.sample_rounds(sampler, 1)

    assert (both, lately, sampler.is_ready) == (True, True, False)
    assert sampler.not_ready_text == (
        "1 cards are being read, --readiness.min-gpus asks for 2: GPU-0001 lost"
    )


def test_a_node_that_may_have_no_card_is_ready_at_once(simulate: Simulate) -> None:
    sampler = simulate(simulated_card()).sampler(min_cards=0)

    assert sampler.is_ready


@pytest.mark.parametrize(
    ("interval_seconds", "after_seconds", "is_ready"),
    [
        pytest.param(0.2, 2.0, True, id="short interval"),
        pytest.param(0.2, 2.1, False, id="short interval, too long ago"),
        pytest.param(30.0, 300.0, True, id="long interval"),
        pytest.param(30.0, 301.0, False, id="long interval, too long ago"),
    ],
)
def test_lately_is_ten_intervals(
    interval_seconds: float, after_seconds: float, is_ready: bool, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(interval_seconds=interval_seconds)
    sampler.sample()

    node.clock.advance(after_seconds)

    assert sampler.is_ready is is_ready


def test_it_stays_ready_when_one_card_of_two_fails(simulate: Simulate) -> None:
    lost = simulated_card(1, faults=dict.fromkeys(EVERY_READING, LOST))
    node = simulate(lost, simulated_card(2))
    sampler = node.sampler()

    node.sample_rounds(sampler, 30)

    assert sampler.is_ready


def test_a_card_with_unified_memory_has_no_memory_series_and_is_ready(simulate: Simulate) -> None:
    absent = pynvml.NVML_ERROR_NOT_SUPPORTED
    node = simulate(simulated_card(faults={MEMORY_V2: absent, "nvmlDeviceGetMemoryInfo": absent}))
    sampler = node.sampler()

    node.sample_rounds(sampler, 2)

    page = values(sampler)
    assert not [series for series in page if series.startswith("rightslice_gpu_memory")]
    assert page[observed("GPU-0001", "busy")] == 1
    assert sampler.is_ready


def test_a_card_that_no_collector_reads_is_not_told_as_down(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("own_process", "mig"))

    node.sample_rounds(sampler, 2)

    assert UP + FIRST not in values(sampler)


def test_the_last_success_of_a_collector_is_that_of_its_worst_card(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 2)
    faults[MEMORY_V2] = LOST

    node.sample_rounds(sampler, 10)

    last = "rightslice_collector_last_success_timestamp_seconds"
    page = values(sampler)
    assert page[last + '{collector="gpu_memory"}'] == START_SECONDS + 2
    assert page[last + '{collector="gpu_power"}'] == START_SECONDS + 11
    assert page['rightslice_collector_success{collector="gpu_memory"}'] == 0
    assert page['rightslice_collector_success{collector="gpu_power"}'] == 1


def test_only_the_collectors_that_were_asked_for_run(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_memory",))

    node.sample_rounds(sampler, 2)

    page = values(sampler)
    assert page[USED + FIRST] > 0
    assert BUSY + FIRST not in page


def slow(clock: ManualClock, durations: Iterator[float]) -> Collector[NvmlCard]:
    """Make a collector that takes some time for each reading."""

    def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
        clock.advance(next(durations))
        yield Sample(GPU_MEMORY_USED_RATIO, 0.5, (gpu.id,), covered_seconds)

    return Collector((GPU_MEMORY_USED_RATIO,), devices=lambda host: host.gpus, collect=collect)


def test_the_time_a_round_takes_is_told(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    collectors = {"slow": slow(node.clock, iter((0.25, 0.5)))}
    sampler = Sampler(node.host, collectors, node.clock.clock(), IDENTITY)

    sampler.sample()

    duration = 'rightslice_collector_duration_seconds{collector="slow"}'
    assert values(sampler)[duration] == 0.75


def test_a_loop_that_is_told_to_stop_before_it_starts_reads_nothing(simulate: Simulate) -> None:
    stop = threading.Event()
    stop.set()
    node = simulate(simulated_card())

    node.sampler().run(stop)

    assert node.library.call_count == 0


def test_a_driver_call_that_hangs_holds_up_no_page(simulate: Simulate) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang(*_: Any) -> int:
        entered.set()
        release.wait(10)
        return int(UNKNOWN)

    node = simulate(simulated_card())
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    node.answer(MEMORY_V2, hang)
    hung = threading.Thread(target=sampler.sample)
    hung.start()
    entered.wait(10)
    node.clock.advance(11)

    page, is_ready = values(sampler), sampler.is_ready

    release.set()
    hung.join(10)
    assert page[UP + FIRST] == 1
    assert not is_ready


def test_closing_releases_the_library(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    sampler.sample()

    sampler.close()

    assert node.host.gpus == ()
