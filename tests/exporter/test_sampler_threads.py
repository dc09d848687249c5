"""Real threads: a call that hangs costs its own card, and neither the others nor the page."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pynvml
import pytest
from support.pages import failures, observed, values
from support.simulated import (
    IDENTITY,
    PAUSE_SECONDS,
    Simulate,
    running,
    simulated_card,
    wait_until,
)

from rightslice.contract.spec import Sample
from rightslice.exporter import sampler as sampler_module
from rightslice.exporter.collector import Collector
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.host.clock import Clock, real_clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.process import OwnProcess
from rightslice.exporter.inventory import GIVE_UP_SECONDS, REFRESH_SECONDS, RELEASE_SECONDS
from rightslice.exporter.lane import DEADLINE_SECONDS, Lane
from rightslice.exporter.sampler import OPENING_DEADLINE_SECONDS, Sampler
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.faults import HANG

INIT, SHUTDOWN, UUID = "nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetUUID"
SAMPLE_FREE = "nvmlGpmSampleFree"
MEMORY_V2, POWER = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetPowerUsage"
FIRST, SECOND = '{uuid="GPU-0001"}', '{uuid="GPU-0002"}'
UP, USED = "rightslice_gpu_up", "rightslice_gpu_memory_used_bytes"
RELEASED = "rightslice_nvml_released"
NVML_OPEN = 'rightslice_collector_success{collector="nvml"}'
STUCK = failures("gpu_memory", "GPU-0001", "stuck")
OPENING_STUCK = failures("nvml", "", "stuck")


def pause(stop: threading.Event, seconds: float) -> bool:
    """Wait for a moment, however long one should."""
    return stop.wait(PAUSE_SECONDS)


class Threads:
    """A sampler whose threads run, while time moves by hand, a second at a time.

    `faults` are those of each card.
    """

    def __init__(
        self,
        simulate: Simulate,
        collectors: tuple[str, ...] = ENABLED,
        card_count: int = 2,
        **changes: Any,
    ) -> None:
        self.faults: tuple[dict[str, int], ...] = tuple({} for _ in range(card_count))
        self.node = simulate(
            *(
                simulated_card(number, faults=each, **changes)
                for number, each in enumerate(self.faults, 1)
            )
        )
        self._pulse_count = 0
        # How threads, by name, wait for their next round; any other does so for a moment.
        self.waits: dict[str, Callable[..., int]] = {}
        now_seconds = self.node.clock.now_seconds
        self.sampler = Sampler(
            self.node.host,
            {
                **{name: load(name) for name in collectors},
                # Beats in each round of the one thread that asks no card anything.
                "pulse": Collector((), lambda host: (host.own_process,), self._pulse),
            },
            Clock(now_seconds, now_seconds, self._wait),
            IDENTITY,
        )

    def _pulse(self, process: OwnProcess, covered_seconds: float) -> Iterator[Sample]:
        self._pulse_count += 1
        yield from ()

    def _wait(self, stop: threading.Event, seconds: float) -> bool:
        wait = self.waits.get(threading.current_thread().name, pause)
        return bool(wait(stop, seconds))

    def page(self) -> dict[str, float]:
        return values(self.sampler)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, slowly enough for every thread that runs to keep up."""
        for _ in range(int(seconds)):
            self.node.clock.advance(1)
            self._wait_for_pulses(3)

    def _wait_for_pulses(self, count: int) -> None:
        until_count = self._pulse_count + count
        wait_until(lambda: self._pulse_count >= until_count)

    def wait_for_value(self, series: str, value: float | None) -> None:
        """Wait until a series has this value; None is for one that is not told."""
        wait_until(lambda: self.page().get(series) == value)

    def pass_time_until(self, series: str, value: float | None) -> None:
        """Let time pass until a series has this value."""

        def is_so_a_second_later() -> bool:
            self.pass_time(1)
            return self.page().get(series) == value

        wait_until(is_so_a_second_later)

    def wait_for_cards(self) -> None:
        """Wait until both cards are being read."""
        self.wait_for_value(UP + FIRST, 1)
        self.wait_for_value(UP + SECOND, 1)

    def hang(self, function: str = MEMORY_V2) -> None:
        """Let a call on the first card hang, until it is found."""
        self.faults[0][function] = HANG
        self.pass_time_until(UP + FIRST, 0)

    def recover(self) -> None:
        for each in self.faults:
            each.clear()


@pytest.fixture
def threads(simulate: Simulate) -> Iterator[Threads]:
    """A sampler whose threads run, and have read both cards."""
    threads = Threads(simulate)
    with running(threads.sampler):
        threads.wait_for_cards()
        yield threads
        threads.recover()


class HangingCall:
    """A function that does not come back until it is let go; then it does its work."""

    def __init__(self, function: Callable[..., int]) -> None:
        self.entered, self.is_over = threading.Event(), threading.Event()
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        self.entered.set()
        self.is_over.wait(30)
        return self._function(*arguments)


def test_a_call_that_hangs_stops_neither_the_other_card_nor_the_page(threads: Threads) -> None:
    threads.hang()
    before = threads.page()

    threads.pass_time(30)

    page = threads.page()
    covered = observed("GPU-0002", "memory")
    assert 29 <= page[covered] - before[covered] <= 31
    assert (page[UP + FIRST], page[UP + SECOND]) == (0, 1)
    assert threads.sampler.is_ready


def test_a_hang_is_counted_each_second_and_takes_the_card_s_gauges_off(threads: Threads) -> None:
    threads.hang()
    threads.pass_time(20)

    page = threads.page()
    gauges = [
        series
        for series in page
        if 'uuid="GPU-0001"' in series
        and series.startswith(("rightslice_gpu_power", "rightslice_gpu_memory_total", USED + "{"))
    ]
    assert 15 <= page[STUCK] <= 30
    assert gauges == []
    # An alert on the card has to say which one it is.
    assert [series for series in page if "gpu_info" in series and FIRST[1:-1] in series]
    assert page['rightslice_collector_success{collector="gpu_memory"}'] == 0
    assert page['rightslice_collector_success{collector="gpu_use"}'] == 0
    assert page['rightslice_collector_device_success{collector="gpu_use",device="GPU-0002"}'] == 1


def test_a_call_that_comes_back_brings_its_card_back(threads: Threads) -> None:
    threads.hang()
    before = threads.page()

    threads.recover()
    threads.wait_for_value(UP + FIRST, 1)
    threads.pass_time(10)

    page = threads.page()
    covered = observed("GPU-0001", "memory")
    assert page[USED + FIRST] > 0
    assert page[covered] > before[covered]
    assert page[STUCK] - before[STUCK] <= 2
    assert page['rightslice_collector_success{collector="gpu_memory"}'] == 1


def test_a_hang_is_logged_once(threads: Threads, caplog: pytest.LogCaptureFixture) -> None:
    threads.hang()

    threads.pass_time(60)

    assert len([line for line in caplog.messages if "has not come back" in line]) == 1


def test_while_a_card_hangs_the_list_is_read_and_a_new_card_is_found(simulate: Simulate) -> None:
    threads = Threads(simulate, card_count=3)
    threads.node.list_cards(0, 1)
    with running(threads.sampler):
        threads.wait_for_cards()
        threads.hang()
        threads.node.list_cards(0, 1, 2)

        threads.pass_time(REFRESH_SECONDS)
        threads.wait_for_value(UP + '{uuid="GPU-0003"}', 1)

        threads.recover()


def test_a_card_that_hangs_from_the_start_hides_no_other(simulate: Simulate) -> None:
    threads = Threads(simulate)
    threads.faults[0][MEMORY_V2] = HANG
    with running(threads.sampler):
        threads.pass_time(DEADLINE_SECONDS + 5)
        page = threads.page()
        threads.recover()

    assert page.get(UP + SECOND) == 1
    assert page.get(UP + FIRST) == 0


def test_a_card_is_not_told_before_its_first_round(simulate: Simulate) -> None:
    threads = Threads(simulate, ("gpu_power",))
    threads.faults[0][POWER] = HANG
    with running(threads.sampler):
        threads.wait_for_value(UP + SECOND, 1)
        threads.pass_time(DEADLINE_SECONDS - 2)
        page = threads.page()
        threads.recover()

    assert UP + FIRST not in page


def test_opening_that_hangs_is_told_once_and_everything_comes_with_its_end(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    threads = Threads(simulate)
    call = HangingCall(threads.node.library.nvmlInitWithFlags)
    threads.node.answer(INIT, call)
    with running(threads.sampler):
        assert call.entered.wait(10)
        threads.pass_time(OPENING_DEADLINE_SECONDS + 2)
        threads.wait_for_value(NVML_OPEN, 0)
        threads.pass_time(10)
        hanging = threads.page()
        call.is_over.set()

        threads.wait_for_cards()
        threads.wait_for_value(NVML_OPEN, 1)

    assert hanging[OPENING_STUCK] == 1
    assert threads.page()[OPENING_STUCK] == 1
    assert caplog.messages.count("opening NVML: a call does not come back") == 1


def test_readiness_says_that_opening_hangs(simulate: Simulate) -> None:
    threads = Threads(simulate)
    call = HangingCall(threads.node.library.nvmlInitWithFlags)
    threads.node.answer(INIT, call)
    with running(threads.sampler):
        threads.pass_time(OPENING_DEADLINE_SECONDS + 2)
        threads.wait_for_value(NVML_OPEN, 0)
        text = threads.sampler.not_ready_text
        call.is_over.set()

    assert "a call does not come back" in text


def test_listing_that_hangs_costs_no_card_that_is_known(threads: Threads) -> None:
    threads.faults[0][UUID] = HANG

    threads.pass_time(REFRESH_SECONDS + OPENING_DEADLINE_SECONDS + 2)
    threads.wait_for_value(NVML_OPEN, 0)

    page = threads.page()
    assert (page[UP + FIRST], page[UP + SECOND]) == (1, 1)
    assert page[OPENING_STUCK] == 1


def test_a_listing_that_hangs_while_cards_are_read_is_not_given_up(threads: Threads) -> None:
    threads.faults[0][UUID] = HANG

    threads.pass_time(REFRESH_SECONDS + OPENING_DEADLINE_SECONDS + GIVE_UP_SECONDS + 5)

    assert threads.page()[OPENING_STUCK] == 1
    assert threads.sampler.give_up_text == ""


def test_a_listing_that_hangs_is_given_up_when_no_card_answers_any_more(
    threads: Threads,
) -> None:
    threads.faults[0][UUID] = HANG
    threads.pass_time(REFRESH_SECONDS + OPENING_DEADLINE_SECONDS + GIVE_UP_SECONDS + 5)

    for each in threads.faults:
        each[MEMORY_V2] = pynvml.NVML_ERROR_GPU_IS_LOST
    wait_until(lambda: threads.sampler.give_up_text)

    assert "opening NVML does not come back" in threads.sampler.give_up_text


def test_what_a_card_is_stays_told_while_the_very_call_that_tells_it_hangs(
    simulate: Simulate,
) -> None:
    threads = Threads(simulate, mig=Mig(enabled=False, pending=False))
    with running(threads.sampler):
        threads.wait_for_cards()
        threads.hang("nvmlDeviceGetMigMode")
        page = threads.page()
        threads.recover()

    assert page[failures("gpu_info", "GPU-0001", "stuck")] >= 1
    assert [series for series in page if "gpu_info{" in series and FIRST[1:-1] in series]


def test_a_process_in_which_every_card_hangs_is_given_up(threads: Threads) -> None:
    for each in threads.faults:
        each[MEMORY_V2] = HANG
    threads.pass_time_until(UP + FIRST, 0)
    threads.pass_time_until(UP + SECOND, 0)

    threads.pass_time(GIVE_UP_SECONDS - 10)
    before = threads.sampler.give_up_text
    threads.pass_time(15)
    wait_until(lambda: threads.sampler.give_up_text)

    assert before == ""
    assert threads.sampler.give_up_text == (
        "no card answers (stuck), and NVML cannot be closed: a new process may do better"
    )


def test_a_node_with_one_card_that_does_not_hang_is_not_given_up(threads: Threads) -> None:
    threads.hang()

    threads.pass_time(GIVE_UP_SECONDS + 20)

    assert threads.sampler.give_up_text == ""


def test_a_release_closes_the_library_and_takes_all_cards_off_the_page(threads: Threads) -> None:
    called = threads.node.record_calls()

    threads.sampler.release()
    threads.wait_for_value(RELEASED, 1)
    called.clear()
    threads.pass_time(20)

    page = threads.page()
    assert called == []
    assert [series for series in page if series.startswith((UP, USED + "{"))] == []
    assert page[observed("GPU-0001", "memory")] >= 0
    assert threads.sampler.not_ready_text.endswith("NVML is released on request")


def test_nvml_that_is_closed_while_threads_are_given_out_is_not_called_any_more(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1))
    closing: list[threading.Thread] = []

    def devices(host: Host) -> tuple[NvmlCard, ...]:
        """List the cards, and have NVML closed before anything is done with them."""
        cards = host.gpus
        sampler.release()
        closing.append(threading.Thread(target=sampler._step_inventory))
        closing[-1].start()
        closing[-1].join(0.1)
        return cards

    memory = replace(load("gpu_memory"), devices=devices)
    sampler = Sampler(node.host, {"gpu_memory": memory}, node.clock.clock(), IDENTITY)
    called = node.record_calls()

    sampler.sample()

    closing[0].join(10)
    assert called[called.index(SHUTDOWN) + 1 :] == []


def test_what_was_released_is_taken_up_on_request(threads: Threads) -> None:
    threads.sampler.release()
    threads.wait_for_value(RELEASED, 1)
    threads.wait_for_value(UP + FIRST, None)

    threads.sampler.resume()
    threads.wait_for_cards()

    threads.wait_for_value(RELEASED, 0)
    assert threads.page()[USED + FIRST] > 0


def test_what_was_released_is_taken_up_by_itself_in_the_end(threads: Threads) -> None:
    threads.sampler.release()
    threads.wait_for_value(RELEASED, 1)

    threads.node.clock.advance(RELEASE_SECONDS)

    threads.wait_for_cards()
    threads.wait_for_value(RELEASED, 0)


def test_a_release_waits_for_a_call_that_hangs(threads: Threads) -> None:
    called = threads.node.record_calls()
    threads.hang()

    threads.sampler.release()
    threads.pass_time(10)
    hanging = called.count(SHUTDOWN), threads.page()[RELEASED]
    threads.recover()
    threads.wait_for_value(RELEASED, 1)

    assert hanging == (0, 0)
    assert called.count(SHUTDOWN) == 1


def test_a_release_waits_for_a_call_that_hangs_on_a_card_that_left_the_list(
    threads: Threads,
) -> None:
    called = threads.node.record_calls()
    threads.hang()
    threads.node.list_cards(1)
    threads.pass_time(REFRESH_SECONDS)

    threads.sampler.release()
    threads.pass_time(10)
    closed_count = called.count(SHUTDOWN)

    assert closed_count == 0


def test_a_card_that_left_and_sleeps_holds_no_release_up_and_gives_its_samples_back(
    simulate: Simulate,
) -> None:
    threads = Threads(simulate, name="NVIDIA H100 80GB HBM3")
    sleep = HangingCall(pause)
    with running(threads.sampler):
        threads.wait_for_cards()
        threads.pass_time(10)
        called = threads.node.record_calls()
        threads.waits["GPU-0001"] = sleep
        assert sleep.entered.wait(10)
        threads.node.list_cards(1)
        threads.pass_time(REFRESH_SECONDS)
        threads.wait_for_value(UP + FIRST, 0)

        threads.sampler.release()
        threads.wait_for_value(RELEASED, 1)
        sleep.is_over.set()

    # Two of each card.
    assert called[: called.index(SHUTDOWN)].count(SAMPLE_FREE) == 4


def test_closing_waits_for_no_call_that_hangs_and_leaves_the_library_open(
    threads: Threads,
) -> None:
    called = threads.node.record_calls()
    threads.hang()

    threads.sampler.close()

    assert SHUTDOWN not in called


def test_closing_gives_up_on_a_call_that_takes_long(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "QUIET_SECONDS", 0.05)
    called = threads.node.record_calls()
    call = HangingCall(getattr(threads.node.library, MEMORY_V2))
    threads.node.answer(MEMORY_V2, call)
    assert call.entered.wait(10)

    threads.sampler.close()
    call.is_over.set()

    assert SHUTDOWN not in called


def test_closing_after_a_hang_that_is_over_closes_the_library(threads: Threads) -> None:
    called = threads.node.record_calls()
    threads.hang()
    threads.recover()
    threads.wait_for_value(UP + FIRST, 1)

    threads.sampler.close()

    assert called.count(SHUTDOWN) >= 1


def test_every_thread_ends_when_it_is_told_to(simulate: Simulate) -> None:
    threads = Threads(simulate)
    before = set(threading.enumerate())
    with running(threads.sampler):
        threads.wait_for_cards()
        names = {thread.name for thread in set(threading.enumerate()) - before}

    assert {"nvml", "node", "events", "GPU-0001", "GPU-0002"} <= names
    wait_until(lambda: not set(threading.enumerate()) - before)


def test_the_thread_of_a_card_that_is_gone_ends(threads: Threads) -> None:
    threads.node.list_cards(1)

    threads.pass_time(REFRESH_SECONDS + 1)

    wait_until(lambda: "GPU-0001" not in {thread.name for thread in threading.enumerate()})
    threads.wait_for_value(UP + FIRST, 0)


def test_a_driver_that_goes_and_comes_back_is_followed_by_all_threads(threads: Threads) -> None:
    threads.node.fail("nvmlDeviceGetCount_v2", 1)
    threads.pass_time(REFRESH_SECONDS + 1)
    threads.wait_for_value(UP + FIRST, 0)
    threads.node.list_cards(0, 1)

    threads.pass_time(5)

    threads.wait_for_cards()


@pytest.mark.parametrize(
    ("owner", "part"),
    [
        pytest.param(Sampler, "_keep_inventory", id="the inventory"),
        pytest.param(Lane, "run", id="a lane"),
    ],
)
def test_a_thread_that_ends_ends_the_sampler_so_that_it_is_seen(
    owner: type, part: str, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, part, lambda each, stop: None)
    sampler = simulate(simulated_card()).sampler(clock=real_clock(), interval_seconds=0.01)

    thread = threading.Thread(target=sampler.run, args=(threading.Event(),), daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()


def test_the_real_clock_paces_the_rounds(simulate: Simulate) -> None:
    node = simulate(simulated_card(1))
    sampler = node.sampler(("gpu_memory",), 0.02, clock=real_clock())
    covered = observed("GPU-0001", "memory")
    started_seconds = time.monotonic()
    with running(sampler):
        wait_until(lambda: values(sampler).get(covered, 0) >= 0.2)

    passed_seconds = time.monotonic() - started_seconds
    assert values(sampler)[covered] <= passed_seconds


def test_an_opening_that_never_comes_back_is_given_up(simulate: Simulate) -> None:
    threads = Threads(simulate)
    call = HangingCall(threads.node.library.nvmlInitWithFlags)
    threads.node.answer(INIT, call)
    with running(threads.sampler):
        assert call.entered.wait(10)
        threads.pass_time(OPENING_DEADLINE_SECONDS + 5)
        before = threads.sampler.give_up_text
        threads.pass_time(GIVE_UP_SECONDS)
        text = threads.sampler.give_up_text
        call.is_over.set()

    assert before == ""
    assert "opening NVML does not come back" in text


def test_closing_does_not_come_between_a_listing(threads: Threads) -> None:
    called = threads.node.record_calls()
    threads.faults[0][UUID] = HANG
    threads.pass_time(REFRESH_SECONDS + 2)

    threads.sampler.close()

    assert SHUTDOWN not in called


def test_a_release_that_a_call_holds_up_says_so(
    threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    threads.hang()

    threads.sampler.release()
    threads.pass_time(5)

    held_up = [
        line for line in caplog.messages if line.startswith("releasing NVML: a call that hangs")
    ]
    assert len(held_up) == 1
    assert "NVML is released" not in caplog.messages


def test_a_card_that_leaves_gives_its_samples_back(simulate: Simulate) -> None:
    threads = Threads(simulate, card_count=2, name="NVIDIA H100 80GB HBM3")
    with running(threads.sampler):
        threads.wait_for_cards()
        threads.pass_time(10)
        called = threads.node.record_calls()
        threads.node.list_cards(1)
        threads.pass_time(REFRESH_SECONDS)
        wait_until(lambda: called.count(SAMPLE_FREE) == 2)
