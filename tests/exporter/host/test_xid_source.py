"""Xids of both sources: each event once, whoever tells it first, and none of the past as new."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest
from support.simulated import START_SECONDS, Simulate, SimulatedNode, simulated_card

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import RETRY_SECONDS, KernelLog
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.xid import SAME_INCIDENT_SECONDS
from rightslice.exporter.host.xid_source import MOST_WAITING, DriverEvents, XidEvent, XidSource
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

KERNEL, USER = 4, 12  # a priority of the kernel's, and one that a program's line is given
WALL_AHEAD_SECONDS = 1_000_000.0
START_WALL_SECONDS = START_SECONDS + WALL_AHEAD_SECONDS
FIRST_BUS, SECOND_BUS, UNKNOWN_BUS = "0000:07:00", "0000:08:00", "0000:99:00"
FIRST, SECOND = "GPU-0001", "GPU-0002"


@dataclass
class Watch:
    """Both sources of one node, and a kernel log to write into."""

    node: SimulatedNode
    path: Path
    events: DriverEvents
    source: XidSource
    log: KernelLog
    sequence: int = 0

    def write(
        self, bus: str, xid: int, *, priority: int = KERNEL, ago_seconds: float = 0.0, who: str = ""
    ) -> None:
        """Let the kernel, or a program, write a line now, or some time ago."""
        text = f"NVRM: Xid (PCI:{bus}): {xid}, {who or 'GPU has a problem'}"
        self.write_text(text, priority=priority, ago_seconds=ago_seconds)

    def write_text(self, text: str, *, priority: int = KERNEL, ago_seconds: float = 0.0) -> None:
        self.sequence += 1
        stamp_us = int((self.node.clock.now_seconds() - ago_seconds) * 1_000_000)
        with self.path.open("a") as stream:
            stream.write(f"{priority},{self.sequence},{stamp_us},-;{text}\n")

    def told(self) -> list[tuple[str, int, bool]]:
        """Poll the driver, read the log, and give what is told: card, number, whether it is new."""
        self.events.poll()
        return [(event.uuid, event.xid, event.is_new) for event in self.source.read_new()]


Start = Callable[..., Watch]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty file in the place of the device."""
    path = tmp_path / "kmsg"
    path.touch()
    return path


@pytest.fixture
def watch(simulate: Simulate, path: Path) -> Iterator[Start]:
    """Watch a node of two cards; the wall clock is ahead of the other by a million seconds."""
    logs: list[KernelLog] = []

    def start(*events: Event, is_open: bool = True) -> Watch:
        node = simulate(simulated_card(1), simulated_card(2), events=events)
        clock = Clock(
            lambda: node.clock.now_seconds() + WALL_AHEAD_SECONDS,
            node.clock.now_seconds,
            lambda *_: False,
        )
        log = KernelLog(path, clock.monotonic_seconds)
        logs.append(log)
        driver_events = DriverEvents(node.host.nvml)
        source = XidSource(node.host.nvml, driver_events, log, clock)
        if is_open:
            node.open()
        return Watch(node, path, driver_events, source, log)

    yield start
    for log in logs:
        log.close()


def test_an_error_that_only_the_log_tells_is_told(watch: Start) -> None:
    both = watch()
    both.told()
    both.write(SECOND_BUS, 31)

    assert both.told() == [(SECOND, 31, True)]


def test_an_error_that_only_the_driver_tells_is_told(watch: Start) -> None:
    both = watch(Event(1.0, 1, xid=31))
    both.told()
    both.node.clock.advance(1)

    assert both.told() == [(SECOND, 31, True)]


def test_an_error_that_both_tell_is_one(watch: Start) -> None:
    both = watch(Event(1.0, 0, xid=79))
    both.told()
    both.node.clock.advance(1)
    both.write(FIRST_BUS, 79)

    assert both.told() == [(FIRST, 79, True)]


def test_an_error_that_the_log_tells_first_is_one(watch: Start) -> None:
    both = watch(Event(3.0, 0, xid=79))
    both.told()
    both.node.clock.advance(1)
    both.write(FIRST_BUS, 79, who="pid=1234, name=python")
    first = both.told()
    both.node.clock.advance(2)

    assert (first, both.told()) == ([(FIRST, 79, True)], [])


def test_an_error_that_the_driver_tells_first_is_one(watch: Start) -> None:
    both = watch(Event(1.0, 0, xid=79))
    both.told()
    both.node.clock.advance(1)
    first = both.told()
    both.node.clock.advance(2)
    both.write(FIRST_BUS, 79, who="pid=1234, name=python")

    assert (first, both.told()) == ([(FIRST, 79, True)], [])


def test_two_errors_far_apart_are_two(watch: Start) -> None:
    both = watch(Event(1.0, 0, xid=79))
    both.told()
    both.node.clock.advance(1)
    first = both.told()
    both.node.clock.advance(SAME_INCIDENT_SECONDS + 1)
    both.write(FIRST_BUS, 79)

    assert (first, both.told()) == ([(FIRST, 79, True)], [(FIRST, 79, True)])


def test_one_number_on_two_cards_is_two_errors(watch: Start) -> None:
    both = watch()
    both.told()
    both.write(FIRST_BUS, 31)
    both.write(SECOND_BUS, 31)

    assert both.told() == [(FIRST, 31, True), (SECOND, 31, True)]


def test_two_processes_are_two_errors_and_the_driver_s_is_one_of_them(watch: Start) -> None:
    both = watch(Event(1.0, 0, xid=31))
    both.told()
    both.node.clock.advance(1)
    both.write(FIRST_BUS, 31, who="pid=1, name=a")
    both.write(FIRST_BUS, 31, who="pid=2, name=b")

    assert both.told() == [(FIRST, 31, True), (FIRST, 31, True)]


def test_what_the_log_held_before_is_not_new_and_has_its_time(watch: Start) -> None:
    both = watch()
    both.write(FIRST_BUS, 79, ago_seconds=3600)

    (event,) = both.source.read_new()

    assert event == XidEvent(FIRST, 79, START_WALL_SECONDS - 3600, is_new=False)
    assert both.source.last_seconds == {(FIRST, 79): START_WALL_SECONDS - 3600}


def test_what_the_log_gets_later_is_of_now(watch: Start) -> None:
    both = watch()
    both.told()
    both.node.clock.advance(100)
    both.write(FIRST_BUS, 79, ago_seconds=30)

    (event,) = both.source.read_new()

    assert event == XidEvent(FIRST, 79, START_WALL_SECONDS + 100, is_new=True)


def test_the_time_of_an_error_is_that_of_the_last_one(watch: Start) -> None:
    both = watch()
    both.write(FIRST_BUS, 79, ago_seconds=3600)
    both.told()
    both.node.clock.advance(100)
    both.write(FIRST_BUS, 79)

    both.told()

    assert both.source.last_seconds == {(FIRST, 79): START_WALL_SECONDS + 100}


def test_lines_wait_until_the_cards_are_known(watch: Start) -> None:
    both = watch(is_open=False)
    both.write(FIRST_BUS, 79, ago_seconds=3600)
    waiting = both.told()
    both.node.clock.advance(30)
    both.write(SECOND_BUS, 31)
    waiting += both.told()
    both.node.open()

    assert waiting == []
    assert both.told() == [(FIRST, 79, False), (SECOND, 31, True)]


def test_lines_do_not_wait_for_ever_for_a_driver_that_never_opens(watch: Start) -> None:
    both = watch(is_open=False)
    both.write(FIRST_BUS, 79)
    waiting = both.told()
    both.node.clock.advance(61)

    assert waiting == []
    assert both.told() == [("", 79, False)]


def test_a_line_that_waited_keeps_its_time(watch: Start) -> None:
    both = watch(is_open=False)
    both.told()
    both.write(FIRST_BUS, 79)
    both.told()
    both.node.clock.advance(30)
    both.node.open()

    (event,) = both.source.read_new()

    assert event.wall_seconds == START_WALL_SECONDS


def test_only_the_last_lines_wait(watch: Start) -> None:
    both = watch(is_open=False)
    for xid in range(1, MOST_WAITING + 11):
        both.write(FIRST_BUS, xid)
    both.told()
    both.node.open()

    numbers = [xid for _, xid, _ in both.told()]

    assert (len(numbers), numbers[0]) == (MOST_WAITING, 11)


def test_a_card_in_an_unknown_place_has_no_uuid(watch: Start) -> None:
    both = watch()
    both.told()
    both.write(UNKNOWN_BUS, 79)

    assert both.told() == [("", 79, True)]


def test_a_card_that_is_gone_is_still_known_by_its_place(watch: Start) -> None:
    both = watch()
    both.told()
    both.node.list_cards(1)
    both.node.host.nvml.refresh()
    both.write_text("NVRM: GPU 0000:07:00.0: GPU has fallen off the bus.")

    assert both.told() == [(FIRST, 79, True)]


@pytest.mark.parametrize(
    "bus",
    [
        pytest.param("0000:07:00", id="short"),
        pytest.param("00000000:07:00", id="long"),
        pytest.param("0000:07:00.0", id="with function"),
        pytest.param("0000:07:00 GPU-I:03 GPU-CI:00", id="with MIG"),
    ],
)
def test_a_place_is_the_same_however_it_is_spelt(bus: str, watch: Start) -> None:
    both = watch()
    both.told()
    both.write(bus, 31)

    assert both.told() == [(FIRST, 31, True)]


def test_a_place_that_is_no_address_is_no_failure(watch: Start) -> None:
    both = watch()
    both.node.host.nvml.bus_ids = {"": FIRST, "00000000:08:00.0": SECOND}
    both.told()
    both.write(SECOND_BUS, 31)

    assert both.told() == [(SECOND, 31, True)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("NVRM: Xid (PCI:0000:07:00): 79, forged", id="at the start"),
        pytest.param("NVRM: GPU 0000:07:00.0: GPU has fallen off the bus.", id="off the bus"),
    ],
)
def test_a_line_that_a_program_wrote_is_no_error(text: str, watch: Start) -> None:
    both = watch()
    both.write_text(text, priority=USER)
    first = both.told()
    both.write_text(text, priority=USER)

    assert (first, both.told()) == ([], [])


def test_a_name_that_looks_like_an_error_is_none(watch: Start) -> None:
    both = watch()
    both.told()
    both.write_text("traps: NVRM: Xid (PCI:0000:07:00): 79 trap divide error")

    assert both.told() == []


def test_without_a_log_the_driver_s_events_are_told(watch: Start, path: Path) -> None:
    both = watch(Event(1.0, 0, xid=79))
    path.unlink()
    both.told()
    both.node.clock.advance(1)

    told = both.told()

    assert told == [(FIRST, 79, True)]
    assert "kmsg cannot be read" in (both.source.log_unavailable_reason or "")


def test_a_log_that_can_be_read_has_nothing_to_say_about_itself(watch: Start) -> None:
    both = watch()

    both.told()

    assert both.source.log_unavailable_reason is None


def test_a_log_that_comes_late_is_still_of_the_past(watch: Start, path: Path) -> None:
    both = watch()
    path.unlink()
    both.told()
    both.write(FIRST_BUS, 79, ago_seconds=3600)
    both.node.clock.advance(RETRY_SECONDS)

    assert both.told() == [(FIRST, 79, False)]


def test_what_was_written_while_the_log_was_away_is_new(watch: Start, path: Path) -> None:
    both = watch()
    both.write(FIRST_BUS, 31)
    both.told()
    aside = path.rename(path.with_name("aside"))
    both.log.close()
    both.told()
    both.node.clock.advance(RETRY_SECONDS)
    aside.rename(path)
    both.write(SECOND_BUS, 79, ago_seconds=10)

    assert both.told() == [(SECOND, 79, True)]


def test_cards_are_new_once(watch: Start) -> None:
    both = watch()

    assert [both.source.new_cards(), both.source.new_cards()] == [{FIRST, SECOND}, set()]


def test_a_card_that_comes_later_is_new_then(watch: Start) -> None:
    both = watch(is_open=False)
    both.node.list_cards(0)
    both.node.open()
    before = both.source.new_cards()
    both.node.list_cards(0, 1)

    both.node.host.nvml.refresh()

    assert (before, both.source.new_cards()) == ({FIRST}, {SECOND})


def test_polling_a_library_that_is_closed_tells_that_nothing_is_watched(watch: Start) -> None:
    both = watch(is_open=False)
    before = both.events.poll()
    both.node.open()

    assert (before, both.events.poll()) == (None, True)


def test_a_change_of_the_layout_is_told_to_its_card_and_is_no_error(simulate: Simulate) -> None:
    mig = Mig(instances=(MigInstance("3g.20gb", 0),))
    node = simulate(
        simulated_card(1, mig=Mig()),
        simulated_card(2, mig=Mig()),
        events=(Event(1.0, 1, mig=mig),),
    )
    node.open()
    node.clock.advance(1)
    events = DriverEvents(node.host.nvml)

    events.poll()

    assert [card.is_reshaped for card in node.host.gpus] == [False, True]
    assert not events.waiting


def test_a_change_of_a_card_that_is_gone_is_nobody_s(watch: Start) -> None:
    codes = [int(pynvml.NVML_SUCCESS), int(pynvml.NVML_ERROR_TIMEOUT)]
    both = watch()
    both.node.answer("nvmlEventSetWait_v2", lambda *_: codes.pop(0))

    assert both.events.poll() is True
    assert [card.is_reshaped for card in both.node.host.gpus] == [False, False]


def test_an_event_of_an_unknown_card_has_no_uuid(watch: Start) -> None:
    both = watch()
    both.events.waiting.append(("", 79))

    assert both.told() == [("", 79, True)]


def test_events_that_nobody_fetches_push_out_the_oldest(watch: Start) -> None:
    both = watch()

    both.events.waiting.extend((FIRST, xid) for xid in range(MOST_WAITING + 10))

    assert (len(both.events.waiting), both.events.waiting[0]) == (MOST_WAITING, (FIRST, 10))


def test_a_poll_that_fails_is_told(watch: Start) -> None:
    both = watch()
    both.node.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError, match="nvmlEventSetWait_v2"):
        both.events.poll()


def test_both_sources_are_always_up(watch: Start) -> None:
    both = watch()

    both.source.begin_round()
    both.events.begin_round()

    assert (both.source.id, both.source.lane, both.source.is_up) == ("xid", "node", True)
    assert (both.events.id, both.events.lane, both.events.is_up) == ("events", "events", True)
