"""Devices of one lane that come and go: what is told of those that stay has no gap."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from support.pages import failures, values
from support.simulated import (
    IDENTITY,
    PAUSE_SECONDS,
    Simulate,
    SimulatedNode,
    running,
    wait_until,
)

from rightslice.contract.spec import Kind, MetricSpec, Sample, Unit
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.exporter.lane import DEADLINE_SECONDS, Lane
from rightslice.exporter.lives import KEPT_SCRAPES, KEPT_SECONDS
from rightslice.exporter.sampler import Sampler

LABELS = ("netdev",)
CARRIER = MetricSpec("rightslice_test_carrier", Kind.GAUGE, Unit.NONE, "A gauge.", LABELS)
RESETS = MetricSpec(
    "rightslice_test_resets_total",
    Kind.COUNTER,
    Unit.NONE,
    "A counter.",
    LABELS,
    subject_label_count=1,
)
PEAK = MetricSpec(
    "rightslice_test_peak_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "A peak.",
    LABELS,
    peak_window_seconds=130,
    subject_label_count=1,
)
NAMES = ("eth0", "eth1", "eth2")


@dataclass(eq=False)
class Interface(NodePart):
    """An interface that answers, fails, or hangs until it is let go."""

    id: str
    error: Exception | None = None
    closing_threads: list[str] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event | None = None

    lane = "ethtool"
    asks_driver = False

    def hang(self) -> None:
        self.is_over = threading.Event()

    def recover(self) -> None:
        if self.is_over is not None:
            self.is_over.set()

    def close(self) -> None:
        self.closing_threads.append(threading.current_thread().name)


def collect(interface: Interface, covered_seconds: float) -> Iterator[Sample]:
    if interface.is_over is not None:
        interface.entered.set()
        interface.is_over.wait(10)
    if interface.error is not None:
        raise interface.error
    for spec in (CARRIER, RESETS, PEAK):
        yield Sample(spec, 1, (interface.id,))


class Bench:
    """A sampler of interfaces that a test lists."""

    def __init__(self, node: SimulatedNode, *, has_threads: bool = False) -> None:
        self.node = node
        self.interfaces = {name: Interface(name) for name in NAMES}
        self.listed = list(self.interfaces.values())
        meter = Collector((), lambda host: tuple(self.listed), collect)
        clock = real_clock() if has_threads else node.clock.clock()
        pace_seconds = PAUSE_SECONDS if has_threads else 1.0
        self.sampler = Sampler(node.host, {"meter": meter}, clock, IDENTITY, pace_seconds)

    def rounds(self, count: int = 1, step_seconds: float = 1.0) -> None:
        self.node.sample_rounds(self.sampler, count, step_seconds)

    def assign(self) -> None:
        """Take on the list, and read nothing yet."""
        self.sampler._assign_lanes()

    def told(self, spec: MetricSpec = CARRIER) -> list[str]:
        """Name the interfaces that a metric tells of."""
        series = {f'{spec.name}{{netdev="{name}"}}': name for name in (*NAMES, "eth3")}
        page = values(self.sampler)
        return [name for text, name in series.items() if text in page]

    @property
    def lane(self) -> Lane:
        return self.sampler._lanes["ethtool"]


@pytest.fixture
def bench(simulate: Simulate) -> Iterator[Bench]:
    bench = Bench(simulate())
    bench.rounds(2)
    yield bench
    for interface in bench.interfaces.values():
        interface.recover()


def test_an_interface_that_comes_takes_nobody_s_series_off_the_page(bench: Bench) -> None:
    bench.listed.append(Interface("eth3"))

    bench.assign()
    before_it_is_read = bench.told()
    bench.rounds()

    assert before_it_is_read == list(NAMES)
    assert bench.told() == [*NAMES, "eth3"]


def test_an_interface_that_goes_takes_its_own_gauges_along_at_once(bench: Bench) -> None:
    del bench.listed[1]

    bench.assign()

    assert bench.told() == bench.told(PEAK) == ["eth0", "eth2"]
    assert bench.told(RESETS) == list(NAMES)


def test_an_interface_that_goes_is_closed_once_and_no_other(bench: Bench) -> None:
    del bench.listed[1]

    bench.rounds(5)
    bench.listed.clear()
    bench.rounds()

    assert len(bench.interfaces["eth1"].closing_threads) == 1


def test_an_interface_that_stays_goes_on_with_its_task(bench: Bench) -> None:
    lane, before = bench.lane, bench.lane.tasks
    bench.listed = [*bench.listed[:2], Interface("eth2")]

    bench.rounds()

    assert bench.lane is lane
    assert bench.lane.tasks[:2] == before[:2]
    assert bench.lane.tasks[2] is not before[2]
    assert bench.told() == list(NAMES)


def test_a_list_in_another_order_ends_nothing(bench: Bench) -> None:
    tasks = set(bench.lane.tasks)
    bench.listed.reverse()

    bench.rounds()

    assert set(bench.lane.tasks) == tasks
    assert bench.told() == list(NAMES)
    assert [each.closing_threads for each in bench.listed] == [[], [], []]


def test_counters_of_an_interface_that_is_gone_end_when_they_were_read(bench: Bench) -> None:
    error = ReadingError("device_gone", "it was removed")
    bench.interfaces["eth0"].error = bench.interfaces["eth1"].error = error
    bench.rounds()
    bench.interfaces["eth0"].error = None
    del bench.listed[1]
    bench.rounds()

    for _ in range(KEPT_SCRAPES):
        bench.sampler.scraped()
    bench.rounds(1, KEPT_SECONDS - 1)
    just_before = bench.told(RESETS), failures("meter", "eth1", "device_gone")
    assert just_before[0] == list(NAMES)
    assert just_before[1] in values(bench.sampler)
    bench.rounds(2)

    page = values(bench.sampler)
    assert bench.told(RESETS) == ["eth0", "eth2"]
    assert failures("meter", "eth1", "device_gone") not in page
    # That of one which is still there stays, however long ago it was.
    assert page[failures("meter", "eth0", "device_gone")] == 1


def test_an_interface_that_comes_back_goes_on_from_its_counter(bench: Bench) -> None:
    gone = bench.listed.pop(1)
    bench.rounds(10)
    bench.listed.append(Interface(gone.id))
    bench.rounds()
    for _ in range(KEPT_SCRAPES):
        bench.sampler.scraped()

    bench.rounds(1, 2 * KEPT_SECONDS)

    assert values(bench.sampler)[f'{RESETS.name}{{netdev="eth1"}}'] == 4


def test_interfaces_of_other_names_each_time_leave_nothing_behind(bench: Bench) -> None:
    counts = []
    for number in range(20):
        bench.listed[2:] = [Interface(f"eth0v{number}", ReadingError("invalid", "refused"))]
        bench.rounds(2)
        for _ in range(KEPT_SCRAPES):
            bench.sampler.scraped()
        bench.rounds(1, KEPT_SECONDS)
        counts.append((len(values(bench.sampler)), len(bench.sampler._store._aggregate._gauges)))

    assert len(set(counts[2:])) == 1


def in_another_thread(lane: Lane) -> threading.Thread:
    thread = threading.Thread(target=lane.read, name="reading", daemon=True)
    thread.start()
    return thread


def test_an_interface_that_goes_while_it_is_read_tells_nothing_and_is_closed_after(
    bench: Bench,
) -> None:
    going = bench.interfaces["eth1"]
    going.hang()
    bench.node.clock.advance(1)
    reading = in_another_thread(bench.lane)
    assert going.entered.wait(10)
    del bench.listed[1]

    bench.assign()
    closed_while_it_is_read = list(going.closing_threads)
    going.recover()
    reading.join(10)

    assert bench.told() == ["eth0", "eth2"]
    bench.rounds()
    assert (closed_while_it_is_read, len(going.closing_threads)) == ([], 1)


def test_a_lane_that_hangs_is_replaced_when_its_list_changes(bench: Bench) -> None:
    lane, hanging = bench.lane, bench.interfaces["eth1"]
    hanging.hang()
    bench.node.clock.advance(1)
    in_another_thread(lane)
    assert hanging.entered.wait(10)
    bench.node.clock.advance(DEADLINE_SECONDS + 1)
    bench.sampler._watch()
    told_while_it_hangs = bench.told()
    bench.assign()
    assert bench.lane is lane
    del bench.listed[1]

    bench.rounds()

    assert (told_while_it_hangs, bench.told()) == ([], ["eth0", "eth2"])
    assert bench.lane is not lane
    assert lane.is_retired


def test_a_lane_is_replaced_that_is_found_to_hang_on_an_interface_that_has_gone(
    bench: Bench,
) -> None:
    lane, hanging = bench.lane, bench.interfaces["eth1"]
    hanging.hang()
    bench.node.clock.advance(1)
    in_another_thread(lane)
    assert hanging.entered.wait(10)
    del bench.listed[1]
    bench.assign()
    assert bench.lane is lane
    bench.node.clock.advance(DEADLINE_SECONDS + 1)
    bench.sampler._watch()

    bench.rounds()

    assert bench.lane is not lane
    assert bench.told() == ["eth0", "eth2"]
    assert failures("meter", "eth1", "stuck") not in values(bench.sampler)


def test_real_threads_tell_those_that_stay_without_a_gap(simulate: Simulate) -> None:
    bench = Bench(simulate(), has_threads=True)
    missing: list[list[str]] = []
    guests = [Interface("eth3") for _ in range(30)]
    with running(bench.sampler):
        wait_until(lambda: bench.told() == list(NAMES))
        for guest in guests:
            bench.listed.append(guest)
            until_seconds = time.monotonic() + 10
            while "eth3" not in (told := bench.told()) and time.monotonic() < until_seconds:
                missing.append(told)
            bench.listed.remove(guest)
            while "eth3" in (told := bench.told()) and time.monotonic() < until_seconds:
                missing.append(told)
        wait_until(lambda: all(guest.closing_threads for guest in guests))

    assert {name for told in missing for name in NAMES if name not in told} == set()
    assert [guest.closing_threads for guest in guests] == [["ethtool"]] * len(guests)
