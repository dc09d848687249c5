"""NVML is kept open and its list true, over drivers that come late, go, break and come back."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pynvml
import pytest
from support.pages import failures, from_text, observed, values
from support.simulated import Simulate, SimulatedNode, simulated_card, text

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.nvml.errors import Reason
from rightslice.exporter.host.nvml.session import SETTLING_SECONDS
from rightslice.exporter.inventory import (
    GIVE_UP_SECONDS,
    REFRESH_SECONDS,
    RELEASE_SECONDS,
    SILENT_SECONDS,
    Inventory,
)
from rightslice.exporter.known_cards import KEPT_SECONDS
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.faults import ALL
from rightslice.exporter.simulate.timeline import Event
from rightslice.exporter.store import Store

INIT, SHUTDOWN = "nvmlInitWithFlags", "nvmlShutdown"
COUNT, UUID, HANDLE = "nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex_v2"
MEMORY_V2, RATES = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates"
READINGS = (MEMORY_V2, "nvmlDeviceGetSamples", "nvmlDeviceGetComputeRunningProcesses_v3")
READERS = (
    "gpu_memory",
    "gpu_use",
    "gpu_processes",
    "workload_info",
    "workload_memory",
    "workload_use",
)
LOST, UNKNOWN = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN
BLOCKED = pynvml.NVML_ERROR_OPERATING_SYSTEM
MISMATCH = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
NOT_LOADED, NO_LIBRARY = (
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
)
DAY_SECONDS = 86_400

FIRST, SECOND = '{uuid="GPU-0001"}', '{uuid="GPU-0002"}'
UP, USED = "rightslice_gpu_up", "rightslice_gpu_memory_used_bytes"
BUSY, VISIBLE = "rightslice_gpu_busy_seconds_total", "rightslice_gpus_visible"
RELEASED = "rightslice_nvml_released"
OPENED = 'rightslice_collector_success{collector="nvml"}'

INCURABLE = [
    pytest.param(UNKNOWN, id="unknown error"),
    pytest.param(BLOCKED, id="blocked by the operating system"),
    pytest.param(MISMATCH, id="driver replaced"),
]
CURABLE = [
    pytest.param(NOT_LOADED, id="driver not loaded"),
    pytest.param(NO_LIBRARY, id="library missing"),
]


@dataclass
class Quiesce:
    """Lanes that are out of the library, unless a call is said to hang."""

    is_quiet: bool = True

    @contextmanager
    def __call__(self) -> Iterator[bool]:
        yield self.is_quiet


@dataclass
class Bench:
    """An inventory alone, on a simulated node; no lane reads its cards."""

    node: SimulatedNode
    quiesce: Quiesce = field(default_factory=Quiesce)

    def __post_init__(self) -> None:
        self.store = Store(self.clock.clock())
        self.inventory = Inventory(
            self.node.host.nvml, self.store, self.clock.clock(), self.quiesce
        )

    @property
    def clock(self) -> ManualClock:
        return self.node.clock

    @property
    def is_open(self) -> bool:
        return self.node.host.nvml.is_open

    def steps(self, count: int, step_seconds: float = 1.0) -> None:
        for _ in range(count):
            self.clock.advance(step_seconds)
            self.inventory.step()

    def hear(self, count: int, *reasons: Reason | None) -> None:
        """Make steps, after each of which the lanes tell why their cards do not answer."""
        for _ in range(count):
            self.steps(1)
            self.inventory.hear(reasons)

    def told(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Give a metric's series."""
        page, _ = self.store.page()
        return [(labels, value) for found, labels, value in from_text(page) if found == name]


@pytest.fixture
def bench(simulate: Simulate) -> Bench:
    return Bench(simulate(simulated_card(1), simulated_card(2)))


def seconds_of(
    node: SimulatedNode, name: str, make_round: Callable[[], None], count: int
) -> list[int]:
    """Give the rounds, a second apart, in which an NVML function was called."""
    called = node.record_calls()
    rounds = []
    for number in range(count):
        before = called.count(name)
        make_round()
        rounds += [number] * (called.count(name) > before)
    return rounds


def given_up_at(node: SimulatedNode, sampler: Sampler, limit: int) -> int | None:
    """Make rounds, a second apart, until the sampler gives up; None if it does not."""
    for second in range(limit):
        node.sample_rounds(sampler, 1)
        if sampler.give_up_text:
            return second
    return None


def test_nvml_is_opened_once_and_its_cards_are_told(bench: Bench) -> None:
    called = bench.node.record_calls()

    bench.steps(200)

    assert called.count(INIT) == 1
    assert bench.told(VISIBLE) == [({}, 2)]
    assert bench.told(RELEASED) == [({}, 0)]


def test_a_round_in_which_opening_fails_tries_once(bench: Bench) -> None:
    bench.node.fail(INIT, UNKNOWN)
    called = bench.node.record_calls()

    bench.steps(1)

    assert called.count(INIT) == 1
    assert [value for _, value in bench.told("rightslice_collector_failures_total")] == [1]


def test_the_cards_are_listed_anew_every_minute(bench: Bench) -> None:
    listed = seconds_of(bench.node, COUNT, lambda: bench.steps(1), 200)

    assert listed == [0, 60, 120, 180]


def test_a_node_without_cards_is_looked_at_every_second(bench: Bench) -> None:
    bench.node.list_cards()

    listed = seconds_of(bench.node, COUNT, lambda: bench.steps(1), 5)

    assert listed == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("code", [*CURABLE, *INCURABLE])
def test_opening_is_tried_again_after_one_second_and_then_twice_as_long_up_to_a_minute(
    code: int, bench: Bench
) -> None:
    bench.node.fail(INIT, code)

    tried = seconds_of(bench.node, INIT, lambda: bench.steps(1), 250)

    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


@pytest.mark.parametrize("code", CURABLE)
def test_a_driver_that_is_missing_is_waited_for_as_long_as_it_takes(
    code: int, bench: Bench
) -> None:
    bench.node.fail(INIT, code)

    bench.steps(DAY_SECONDS // 30, 30)

    assert bench.inventory.give_up_text == ""


@pytest.mark.parametrize("code", CURABLE)
def test_a_driver_that_was_missing_for_a_day_is_found_within_a_minute(
    code: int, bench: Bench
) -> None:
    bench.node.fail(INIT, code)
    bench.steps(DAY_SECONDS // 30, 30)
    bench.node.fail(INIT, 0)

    bench.steps(60)

    assert bench.told(VISIBLE) == [({}, 2)]


@pytest.mark.parametrize("code", INCURABLE)
def test_what_only_another_process_may_cure_is_given_up_after_two_minutes(
    code: int, bench: Bench
) -> None:
    bench.node.fail(INIT, code)

    bench.steps(120)
    before = bench.inventory.give_up_text
    bench.steps(60)

    assert before == ""
    assert bench.inventory.give_up_text.startswith("nvmlInit: ")
    assert bench.inventory.give_up_text.endswith(" for 120 s; a new process may do better")


def test_the_time_until_giving_up_starts_anew_when_the_reason_was_another_in_between(
    bench: Bench,
) -> None:
    bench.node.fail(INIT, MISMATCH)
    bench.steps(65)
    bench.node.fail(INIT, NOT_LOADED)
    bench.steps(60)
    bench.node.fail(INIT, MISMATCH)

    # The driver is tried a minute apart by now.
    bench.steps(175)
    before = bench.inventory.give_up_text
    bench.steps(60)

    assert before == ""
    assert bench.inventory.give_up_text


def test_a_driver_that_cannot_list_its_cards_is_closed_and_opened_anew(bench: Bench) -> None:
    bench.steps(1)
    bench.node.fail(COUNT, pynvml.NVML_ERROR_UNINITIALIZED)
    bench.steps(1, REFRESH_SECONDS)
    without = bench.is_open, bench.told(VISIBLE), bench.inventory.trouble_text
    bench.node.list_cards(0, 1)

    bench.steps(1)

    assert without == (False, [], "nvmlDeviceGetCount: Uninitialized (NVML code 1)")
    assert bench.told(VISIBLE) == [({}, 2)]
    assert bench.inventory.trouble_text == ""


def test_cards_that_none_answers_for_five_seconds_have_nvml_opened_anew(bench: Bench) -> None:
    bench.steps(1)
    called = bench.node.record_calls()

    bench.hear(int(SILENT_SECONDS), Reason.UNKNOWN, Reason.LOST)
    before = list(called)
    bench.hear(3, Reason.UNKNOWN, Reason.LOST)

    assert SHUTDOWN not in before
    assert (called.count(SHUTDOWN), called.count(INIT)) == (1, 1)
    assert called.index(SHUTDOWN) < called.index(INIT)


def test_one_card_that_answers_keeps_nvml_open(bench: Bench) -> None:
    bench.steps(1)
    called = bench.node.record_calls()

    bench.hear(300, Reason.UNKNOWN, None)

    assert SHUTDOWN not in called
    assert bench.inventory.give_up_text == ""


def test_cards_that_answer_again_after_all_hung_keep_nvml_open(bench: Bench) -> None:
    bench.steps(1)
    bench.quiesce.is_quiet = False
    bench.hear(20, Reason.STUCK, Reason.STUCK)
    called = bench.node.record_calls()
    bench.quiesce.is_quiet = True

    bench.inventory.hear((None, None))
    bench.steps(5)

    assert SHUTDOWN not in called


def test_a_card_that_comes_while_all_others_hang_is_found(bench: Bench) -> None:
    bench.node.list_cards(0)
    bench.steps(1)
    bench.quiesce.is_quiet = False
    bench.hear(20, Reason.STUCK)
    bench.node.list_cards(0, 1)

    bench.hear(int(REFRESH_SECONDS), Reason.STUCK)

    assert [card.id for card in bench.node.host.gpus] == ["GPU-0001", "GPU-0002"]


def test_a_card_that_answers_now_and_then_keeps_nvml_open(bench: Bench) -> None:
    bench.steps(1)
    called = bench.node.record_calls()

    for _ in range(60):
        bench.hear(4, Reason.UNKNOWN, Reason.UNKNOWN)
        bench.hear(1, None, None)

    assert SHUTDOWN not in called
    assert bench.inventory.give_up_text == ""


def test_nvml_is_not_closed_while_a_call_hangs_in_it_and_as_soon_as_none_does(
    bench: Bench,
) -> None:
    bench.steps(1)
    called = bench.node.record_calls()
    bench.quiesce.is_quiet = False
    bench.hear(60, Reason.STUCK, Reason.STUCK)
    hanging = list(called)
    bench.quiesce.is_quiet = True

    bench.steps(1)

    assert SHUTDOWN not in hanging
    assert SHUTDOWN in called


@pytest.mark.parametrize(
    ("reasons", "gives_up"),
    [
        pytest.param((Reason.STUCK, Reason.STUCK), True, id="all hang"),
        pytest.param((Reason.UNKNOWN, Reason.STUCK), True, id="all are beyond cure"),
        pytest.param((Reason.STUCK, Reason.LOST), False, id="one is lost"),
        pytest.param((Reason.STUCK, None), False, id="one answers"),
        pytest.param((Reason.LOST, Reason.LOST), False, id="all are lost"),
        pytest.param((Reason.PERMISSION, Reason.PERMISSION), False, id="none is permitted"),
        pytest.param((Reason.DRIVER, Reason.DRIVER), False, id="the driver is gone"),
    ],
)
def test_cards_that_only_another_process_may_cure_are_given_up_after_two_minutes(
    reasons: tuple[Reason | None, ...], gives_up: bool, bench: Bench
) -> None:
    bench.quiesce.is_quiet = False
    bench.steps(1)

    bench.hear(int(GIVE_UP_SECONDS), *reasons)
    before = bench.inventory.give_up_text
    bench.hear(2, *reasons)

    assert before == ""
    assert bool(bench.inventory.give_up_text) is gives_up


def test_a_release_closes_nvml_and_makes_no_call_until_it_is_taken_up_again(
    bench: Bench,
) -> None:
    bench.steps(1)
    called = bench.node.record_calls()
    bench.inventory.release()

    bench.steps(1)
    closed = bench.is_open, called.count(SHUTDOWN)
    called.clear()
    bench.steps(100)
    while_released = list(called)
    bench.inventory.resume()
    bench.steps(1)

    assert closed == (False, 1)
    assert while_released == []
    assert called.count(INIT) == 1
    assert bench.told(RELEASED) == [({}, 0)]
    assert bench.told(VISIBLE) == [({}, 2)]


def test_a_release_is_told_and_takes_the_count_of_cards_off(bench: Bench) -> None:
    bench.steps(1)
    bench.inventory.release()

    bench.steps(1)

    assert bench.told(RELEASED) == [({}, 1)]
    assert bench.told(VISIBLE) == []
    assert bench.inventory.trouble_text == "NVML is released on request"


def test_a_release_that_nobody_takes_back_ends_by_itself(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.steps(1)
    bench.inventory.release()

    bench.steps(int(RELEASE_SECONDS) - 1)
    before = bench.is_open
    bench.steps(1)

    assert (before, bench.is_open) == (False, True)
    assert "nobody took NVML up again: sampling goes on" in caplog.text


def test_a_release_of_nvml_that_is_not_open_keeps_it_closed(bench: Bench) -> None:
    bench.node.fail(INIT, NOT_LOADED)
    bench.steps(1)
    bench.inventory.release()
    bench.node.fail(INIT, 0)

    bench.steps(60)

    assert not bench.is_open
    assert bench.told(RELEASED) == [({}, 1)]


def test_a_second_release_starts_the_time_anew(bench: Bench) -> None:
    bench.inventory.release()
    bench.steps(600)
    bench.inventory.release()

    bench.steps(600)

    assert not bench.is_open


def test_a_resume_without_a_release_changes_nothing(bench: Bench) -> None:
    bench.steps(1)
    called = bench.node.record_calls()

    bench.inventory.resume()
    bench.steps(1)

    assert bench.is_open
    assert INIT not in called


def test_a_release_waits_for_a_call_that_hangs_and_is_not_told_before_it_is_done(
    bench: Bench,
) -> None:
    bench.steps(1)
    bench.quiesce.is_quiet = False
    bench.inventory.release()
    bench.steps(5)
    waiting = bench.is_open, bench.told(RELEASED)
    bench.quiesce.is_quiet = True

    bench.steps(1)

    assert waiting == (True, [({}, 0)])
    assert (bench.is_open, bench.told(RELEASED)) == (False, [({}, 1)])


def test_a_release_that_was_held_up_is_over_when_nvml_is_taken_up_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.steps(1)
    bench.quiesce.is_quiet = False
    bench.inventory.release()
    bench.steps(1)
    before = list(caplog.messages)

    bench.inventory.resume()
    bench.steps(1)

    assert before[-1].startswith("releasing NVML: a call that hangs is inside")
    assert "releasing NVML: works again" in caplog.messages


def test_a_release_that_is_held_up_while_nvml_is_taken_up_again_is_over_as_well(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @contextmanager
    def resume_meanwhile() -> Iterator[bool]:
        bench.inventory.resume()
        yield False

    bench.steps(1)
    bench.inventory.quiesce = resume_meanwhile
    bench.inventory.release()

    bench.steps(2)

    assert caplog.messages[-1] == "releasing NVML: works again"


def test_a_release_that_was_held_up_is_over_when_nvml_is_closed_all_the_same(
    bench: Bench,
) -> None:
    bench.steps(1)
    bench.quiesce.is_quiet = False
    bench.inventory.release()
    bench.steps(1)

    bench.node.host.nvml.close()
    bench.steps(1)

    assert bench.inventory.trouble_text == "NVML is released on request"


def test_a_library_that_does_not_even_close_counts_as_closed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.steps(1)
    bench.node.fail(SHUTDOWN, UNKNOWN)
    bench.inventory.release()

    bench.steps(1)

    assert not bench.is_open
    assert "closing NVML: nvmlShutdown: " in caplog.text


def test_a_card_that_cannot_be_opened_is_counted_logged_once_and_hides_no_other(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    broken = simulated_card(1, faults={UUID: pynvml.NVML_ERROR_NO_PERMISSION})
    node = simulate(broken, simulated_card(2))
    sampler = node.sampler()

    node.sample_rounds(sampler, 181)

    page = values(sampler)
    # At once, then half as often each time: after 5, 10, 20, 40 and 60 s.
    assert page[failures("nvml", "index 0", "permission")] == 6
    assert page[UP + SECOND] == 1
    assert [line for line in caplog.messages if "index 0" in line] == [
        "card at index 0: opening a card: Insufficient Permissions (NVML code 4)"
    ]


def test_a_card_that_could_not_be_opened_and_now_can_is_read(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    faults = {UUID: pynvml.NVML_ERROR_NO_PERMISSION}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    faults.clear()

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    assert values(sampler)[UP + FIRST] == 1
    assert "card at index 0: works again" in caplog.messages


def test_when_no_card_can_be_opened_any_more_nvml_is_opened_anew(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2, faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    called = node.record_calls()
    faults[UUID] = LOST

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)
    faults.clear()
    node.sample_rounds(sampler, 1)

    assert (called.count(SHUTDOWN), called.count(INIT)) == (1, 1)
    assert values(sampler)[UP + FIRST] == 1


@pytest.mark.parametrize("code", INCURABLE)
def test_cards_of_which_none_can_ever_be_opened_are_given_up(code: int, simulate: Simulate) -> None:
    faults = {HANDLE: code}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2, faults=faults))

    assert given_up_at(node, node.sampler(), 300) is not None


@pytest.mark.parametrize(
    "code", [pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"), *CURABLE]
)
def test_cards_that_cannot_be_opened_for_a_curable_reason_are_not_given_up(
    code: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card(faults={HANDLE: code}))

    assert given_up_at(node, node.sampler(), 600) is None


@pytest.mark.parametrize("code", INCURABLE)
@pytest.mark.parametrize(
    "functions",
    [
        pytest.param(READINGS, id="readings"),
        pytest.param((ALL,), id="every call about a card"),
    ],
)
def test_cards_of_which_every_call_fails_beyond_cure_are_given_up_after_two_minutes(
    functions: tuple[str, ...], code: int, simulate: Simulate
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2, faults=faults))
    sampler = node.sampler(("gpu_memory", "gpu_use"))
    node.sample_rounds(sampler, 10)
    faults |= dict.fromkeys(functions, code)

    second = given_up_at(node, sampler, 300)

    assert second is not None
    # Nothing is tried while NVML waits to be opened anew.
    assert GIVE_UP_SECONDS <= second <= GIVE_UP_SECONDS + 64


def test_cards_that_answer_nothing_but_a_slow_collector_have_nvml_opened_anew_seldom(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults))
    # The card's MIG mode, which gpu_info reads, still answers: in every first round, too.
    sampler = node.sampler(("gpu_info", "gpu_memory", "gpu_use"))
    node.sample_rounds(sampler, 1)
    called = node.record_calls()
    faults |= dict.fromkeys(READINGS, UNKNOWN)

    node.sample_rounds(sampler, 3600)

    assert called.count(INIT) <= 120
    assert len(caplog.messages) <= 600


def test_a_driver_of_which_every_call_fails_is_opened_anew_more_and_more_seldom(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1), events=(Event(10, driver="unknown_error"),))
    sampler = node.sampler()

    tried = seconds_of(node, INIT, lambda: node.sample_rounds(sampler, 1), 200)

    assert tried[0] == 0
    assert [later - before for before, later in pairwise(tried[1:])] == [
        2,
        4,
        8,
        16,
        32,
        60,
        60,
    ]
    assert sampler.give_up_text


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        pytest.param("unloaded", "driver", id="driver not loaded"),
        pytest.param("library_missing", "driver", id="library missing"),
        pytest.param("mismatched", "version_mismatch", id="driver replaced"),
        pytest.param("unknown_error", "unknown", id="unknown error"),
    ],
)
def test_a_driver_that_breaks_for_a_minute_comes_back_by_itself(
    state: str, reason: str, simulate: Simulate
) -> None:
    events = (Event(0.5, driver=state), Event(60, driver="loaded"))
    node = simulate(simulated_card(1), simulated_card(2), events=events)
    sampler = node.sampler()
    node.sample_rounds(sampler, 59)
    broken = values(sampler)

    node.sample_rounds(sampler, 60)

    page = values(sampler)
    assert broken[failures("nvml", "", reason)] == 6
    assert broken[OPENED] == 0
    assert USED + FIRST not in broken
    assert (page[UP + FIRST], page[UP + SECOND], page[OPENED]) == (1, 1, 1)
    assert sampler.give_up_text == ""


def test_a_driver_that_is_reloaded_under_way_takes_the_cards_down_and_brings_them_back(
    simulate: Simulate,
) -> None:
    events = (Event(30, driver="unloaded"), Event(50, driver="loaded"))
    node = simulate(simulated_card(1), events=events)
    sampler = node.sampler()
    node.sample_rounds(sampler, 48)
    without = values(sampler)

    node.sample_rounds(sampler, 70)

    page = values(sampler)
    assert without[UP + FIRST] == 0
    assert USED + FIRST not in without
    assert page[UP + FIRST] == 1
    assert page[observed("GPU-0001", "memory")] > without[observed("GPU-0001", "memory")]


def test_one_lost_card_leaves_the_other_alone_and_is_looked_for_more_and_more_seldom(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    sampler.sample()
    faults |= dict.fromkeys(READINGS, LOST)

    listed = seconds_of(node, COUNT, lambda: node.sample_rounds(sampler, 1), 300)

    page = values(sampler)
    # The first round is one second after the list was read.
    assert [number + 1 for number in listed] == [5, 15, 35, 75, 135, 195, 255]
    assert (page[UP + FIRST], page[UP + SECOND]) == (0, 1)
    assert page[observed("GPU-0002", "memory")] == 300
    assert sampler.is_ready


def test_a_card_that_is_lost_again_is_looked_for_as_soon_as_the_first_time(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    faults |= dict.fromkeys(READINGS, LOST)
    node.sample_rounds(sampler, 200)
    faults.clear()
    node.sample_rounds(sampler, 200)
    faults |= dict.fromkeys(READINGS, LOST)

    listed = seconds_of(node, COUNT, lambda: node.sample_rounds(sampler, 1), 100)

    assert [later - before for before, later in pairwise(listed)][:3] == [
        10,
        20,
        40,
    ]


def test_a_card_that_is_gone_is_told_as_down_for_a_day_and_then_forgotten(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 2)
    node.list_cards(1)
    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    # The card was last listed a minute before it was missed.
    node.sample_rounds(sampler, 1, KEPT_SECONDS - REFRESH_SECONDS)
    a_day = values(sampler)
    node.sample_rounds(sampler, 2)

    page = values(sampler)
    assert a_day[UP + FIRST] == 0
    assert a_day[observed("GPU-0001", "memory")] == 1
    assert [series for series in page if "GPU-0001" in series] == []
    assert page[UP + SECOND] == 1


def test_a_lost_card_whose_error_was_reported_is_forgotten_as_well(simulate: Simulate) -> None:
    events = (Event(2.5, card=0, xid=79), Event(3.5, card=0, listed=False))
    node = simulate(simulated_card(1), simulated_card(2), events=events)
    sampler = node.sampler()
    node.sample_rounds(sampler, 100)
    lost = values(sampler)

    node.sample_rounds(sampler, 2, KEPT_SECONDS)

    error = '{uuid="GPU-0001",xid="79"}'
    assert lost["rightslice_gpu_xid_errors_total" + error] == 1
    assert [series for series in values(sampler) if "GPU-0001" in series] == []


def test_cards_that_move_up_in_the_list_go_on_without_a_gap(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 61)
    node.list_cards(1)

    node.sample_rounds(sampler, 120)

    page = values(sampler)
    assert page[observed("GPU-0002", "memory")] == 180
    assert page[observed("GPU-0002", "busy")] == 180
    assert [series for series in page if "gpu_info" in series and 'gpu="0"' in series]


def test_the_first_cards_are_believed_at_once(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    sampler = node.sampler()
    sampler.sample()

    node.sample_rounds(sampler, 10)

    assert values(sampler)[observed("GPU-0001", "busy")] == 10


def test_the_start_up_of_a_card_that_appears_later_is_nobody_s_use_of_it(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    sampler = node.sampler()
    sampler.sample()
    node.list_cards(0, 1)
    node.sample_rounds(sampler, 60)

    node.sample_rounds(sampler, int(SETTLING_SECONDS))
    settling = values(sampler)
    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert settling[BUSY + SECOND] == 0
    assert settling[observed("GPU-0002", "busy")] == 0
    assert settling[observed("GPU-0002", "memory")] == SETTLING_SECONDS
    assert page[observed("GPU-0002", "busy")] == 10
    assert page[observed("GPU-0001", "busy")] == 100


def test_a_card_of_a_driver_that_came_late_has_to_settle(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    node.fail(INIT, NOT_LOADED)
    sampler = node.sampler()
    sampler.sample()
    node.fail(INIT, 0)

    node.sample_rounds(sampler, int(SETTLING_SECONDS) + 1)

    page = values(sampler)
    assert page[observed("GPU-0001", "busy")] == 0
    assert page[observed("GPU-0001", "memory")] == SETTLING_SECONDS


def test_another_mig_mode_makes_another_card_whose_abilities_are_asked_for_anew(
    simulate: Simulate,
) -> None:
    events = (Event(100, card=0, mig=Mig(enabled=False, pending=False)),)
    node = simulate(simulated_card(1, mig=Mig()), events=events)
    sampler = node.sampler()
    node.sample_rounds(sampler, 99)
    (with_mig,) = node.host.gpus
    before = values(sampler)

    node.sample_rounds(sampler, 100)

    (without_mig,) = node.host.gpus
    assert without_mig is not with_mig
    assert without_mig.identity.mig == "disabled"
    assert BUSY + FIRST not in before
    assert values(sampler)[BUSY + FIRST] > 0


def test_a_mig_mode_that_cannot_be_read_for_once_leaves_the_card_what_it_was(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, mig=Mig(), faults=faults))
    sampler = node.sampler(("gpu_memory", "mig"))
    node.sample_rounds(sampler, 1)
    (before,) = node.host.gpus
    faults["nvmlDeviceGetMigMode"] = pynvml.NVML_ERROR_TIMEOUT

    node.sample_rounds(sampler, 1, REFRESH_SECONDS)

    assert node.host.gpus == (before,)


def test_a_card_that_stays_what_it_is_keeps_what_it_is_known_to_lack(simulate: Simulate) -> None:
    faults = {"nvmlDeviceGetSamples": pynvml.NVML_ERROR_NOT_SUPPORTED}
    node = simulate(simulated_card(1, faults=faults))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    called = node.record_calls()

    node.sample_rounds(sampler, 200)

    assert called.count("nvmlDeviceGetSamples") == 0


def test_a_card_whose_name_is_no_text_is_read_all_the_same(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    node.answer("nvmlDeviceGetName", text(b"NVIDIA \xff"))
    sampler = node.sampler()

    node.sample_rounds(sampler, 1)

    assert values(sampler)[UP + FIRST] == 1


def test_readiness_says_that_no_card_answers_while_nvml_waits_to_be_opened_anew(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults))
    sampler = node.sampler(("gpu_memory", "gpu_use"))
    node.sample_rounds(sampler, 1)
    faults |= dict.fromkeys(READINGS, UNKNOWN)
    # It was opened four times in vain, and waits for the fifth.
    node.sample_rounds(sampler, 54)

    assert not node.host.nvml.is_open
    assert "no card answers (unknown)" in sampler.not_ready_text
    assert VISIBLE not in values(sampler)


def story_of_trouble(node: SimulatedNode, sampler: Sampler) -> int:
    """Let much go wrong for an hour; give the number of rounds."""
    for _ in range(12):
        node.fail(COUNT, UNKNOWN)
        node.sample_rounds(sampler, 150)
        node.list_cards(0, 1)
        node.sample_rounds(sampler, 150)
    return 12 * 300


def test_an_hour_of_trouble_fills_no_log(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = dict.fromkeys((*READINGS, "nvmlDeviceGetPowerUsage"), UNKNOWN)
    unopened = {UUID: pynvml.NVML_ERROR_NO_PERMISSION}
    node = simulate(simulated_card(1, faults=broken), simulated_card(2, faults=unopened))
    sampler = node.sampler()

    round_count = story_of_trouble(node, sampler)

    assert round_count == 3600
    assert len(caplog.messages) < 300


@pytest.mark.parametrize("code", [LOST, UNKNOWN, pynvml.NVML_ERROR_TIMEOUT])
def test_a_card_that_fails_for_an_hour_is_logged_a_few_times(
    code: int, simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 1)
    faults |= dict.fromkeys(READINGS, code)

    node.sample_rounds(sampler, 3600)

    # Each collector that reads one of them: when it begins, and every ten minutes.
    assert len(caplog.messages) <= 7 * len(READERS)
