"""One thread's devices: when each collector reads, what a failure costs, and a call that hangs."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pynvml
import pytest
from support.pages import from_text
from support.simulated import START_SECONDS

from rightslice.contract.metrics import (
    COLLECTOR_DEVICE_SUCCESS,
    COLLECTOR_FAILURES_TOTAL,
    GPU_MEMORY_USED_BYTES,
    GPU_OBSERVED_SECONDS_TOTAL,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.nvml import calls
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.lane import DEADLINE_SECONDS, RUN_DEADLINE_SECONDS, Lane, Task
from rightslice.exporter.states import collector_samples
from rightslice.exporter.store import Store
from rightslice.exporter.trouble import Trouble

USED, OBSERVED = GPU_MEMORY_USED_BYTES.name, GPU_OBSERVED_SECONDS_TOTAL.name
FAILURES = COLLECTOR_FAILURES_TOTAL.name
LOST = NvmlError("nvmlDeviceGetMemoryInfo_v2", pynvml.NVML_ERROR_GPU_IS_LOST)
LATER = NvmlError("nvmlDeviceGetMemoryInfo_v2", pynvml.NVML_ERROR_TIMEOUT)


@dataclass
class FakeDevice:
    """A card that answers what it is told to."""

    id: str = "GPU-0001"
    lane: str = "GPU-0001"
    is_up: bool = True
    round_count: int = 0

    def begin_round(self) -> None:
        self.round_count += 1


@dataclass
class Meter:
    """A collector's reading: what it does is `script`, one step per reading, then nothing special.

    A step is an error to raise, or something to do first.
    """

    clock: ManualClock
    script: list[Exception | Callable[[], object]] = field(default_factory=list)
    read_at_seconds: list[float] = field(default_factory=list)
    covered_seconds: list[float] = field(default_factory=list)

    def __call__(self, device: FakeDevice, covered_seconds: float) -> Iterator[Sample]:
        self.read_at_seconds.append(self.clock.now_seconds() - START_SECONDS)
        self.covered_seconds.append(covered_seconds)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            step()
        yield Sample(GPU_MEMORY_USED_BYTES, 1, (device.id,))
        yield Sample(GPU_OBSERVED_SECONDS_TOTAL, covered_seconds, (device.id, "memory"))


@dataclass
class Bench:
    """A lane with one device, and all that it works with."""

    clock: ManualClock
    store: Store
    device: FakeDevice
    meters: tuple[Meter, ...]
    lane: Lane

    @property
    def meter(self) -> Meter:
        return self.meters[0]

    def rounds(self, count: int, step_seconds: float = 1.0) -> None:
        for _ in range(count):
            self.clock.advance(step_seconds)
            self.lane.read()

    def names(self) -> set[str]:
        return {name for name, _, _ in from_text(self.store.page()[0])}

    def failures(self) -> dict[tuple[str, str], float]:
        """Give the counted failures by collector and reason."""
        return {
            (labels["collector"], labels["reason"]): value
            for name, labels, value in from_text(self.store.page()[0])
            if name == FAILURES
        }

    def watch(self) -> Task | None:
        return self.lane.watch(self.clock.now_seconds())


def bench(*every_seconds: float, interval_seconds: float = 1.0) -> Bench:
    """Make a lane with one collector per pace; one that reads every round if none is said."""
    clock, device = ManualClock(START_SECONDS), FakeDevice()
    store = Store(clock.clock())
    meters = tuple(Meter(clock) for _ in every_seconds or (0.0,))
    tasks = tuple(
        Task(
            f"meter_{number}",
            Collector((), lambda host: (), meter, pace_seconds),
            device,
            Trouble(f"meter_{number} on {device.id}"),
        )
        for number, (meter, pace_seconds) in enumerate(
            zip(meters, every_seconds or (0.0,), strict=True)
        )
    )
    lane = Lane("GPU-0001", tasks, store, clock.clock(), interval_seconds)
    return Bench(clock, store, device, meters, lane)


@dataclass
class Hang:
    """A call that does not come back until it is let go."""

    entered: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.entered.set()
        self.is_over.wait(10)


@pytest.fixture
def hang() -> Iterator[Hang]:
    """A call that hangs; at the end of the test it is over."""
    hang = Hang()
    yield hang
    hang.is_over.set()


def start_reading(lane: Lane, hang: Hang) -> threading.Thread:
    """Make a round in another thread, and wait until it hangs."""
    thread = threading.Thread(target=lane.read, daemon=True)
    thread.start()
    assert hang.entered.wait(10)
    return thread


def reading_of_calls(each: Bench, seconds: float) -> list[Task | None]:
    """Make a round of calls that each take DEADLINE_SECONDS; give what a watch found after each."""
    found = []

    def make_calls() -> None:
        for _ in range(int(seconds / DEADLINE_SECONDS)):
            calls.call("nvmlNoSuchFunction")
            each.clock.advance(DEADLINE_SECONDS)
            found.append(each.watch())

    each.meter.script = [make_calls]
    each.lane.read()
    return found


def states(lane: Lane) -> list[Sample]:
    """What a lane's collectors tell of their devices."""
    told = collector_samples([lane])
    return [sample for sample in told if sample.spec is COLLECTOR_DEVICE_SUCCESS]


def test_the_first_reading_covers_nothing_and_the_others_the_time_between() -> None:
    each = bench()

    each.lane.read()
    each.rounds(2)
    each.rounds(1, 1.5)

    assert each.meter.covered_seconds == [0, 1, 1, 1.5]


@pytest.mark.parametrize(
    ("every_seconds", "gap_seconds", "covered_seconds"),
    [
        pytest.param(0.0, 2.0, 2.0, id="two intervals"),
        pytest.param(0.0, 3.0, 2.0, id="more than two intervals"),
        pytest.param(5.0, 10.0, 10.0, id="two steps of a slow collector"),
        pytest.param(5.0, 3600.0, 10.0, id="more than two steps of a slow collector"),
        pytest.param(0.5, 2.0, 2.0, id="a collector faster than the loop"),
    ],
)
def test_a_reading_stands_for_no_more_than_two_of_its_steps(
    every_seconds: float, gap_seconds: float, covered_seconds: float
) -> None:
    each = bench(every_seconds)
    each.lane.read()

    each.rounds(1, gap_seconds)

    assert each.meter.covered_seconds == [0, covered_seconds]


def test_a_failed_reading_is_bridged_by_the_next() -> None:
    each = bench()
    each.meter.script = [lambda: None, LOST]

    each.rounds(3)

    assert each.meter.covered_seconds == [0, 1, 2]


def test_collectors_of_one_lane_each_read_at_their_own_pace() -> None:
    each = bench(0.0, 5.0, 60.0)

    each.lane.read()
    each.rounds(60)

    assert each.meters[0].read_at_seconds == list(range(61))
    assert each.meters[1].read_at_seconds == list(range(0, 61, 5))
    assert each.meters[2].read_at_seconds == [0, 60]
    assert each.meters[1].covered_seconds == [0] + [5] * 12
    assert each.meters[2].covered_seconds == [0, 60]


def test_a_slow_collector_keeps_its_pace_when_rounds_start_a_little_early() -> None:
    each = bench(5.0)
    each.lane.read()

    each.rounds(4)
    each.rounds(1, 0.95)

    assert each.meter.read_at_seconds == [0, pytest.approx(4.95)]


def test_a_slow_collector_does_not_run_a_round_early() -> None:
    each = bench(5.0, interval_seconds=2.0)
    each.lane.read()

    each.rounds(3, 2.0)

    assert each.meter.read_at_seconds == [0, 6]


def test_a_slow_collector_that_fails_waits_for_its_next_turn() -> None:
    each = bench(5.0)
    each.meter.script = [LOST]

    each.lane.read()
    each.rounds(5)

    assert each.meter.read_at_seconds == [0, 5]


def test_a_round_begins_once_for_a_device_that_several_collectors_read() -> None:
    each = bench(0.0, 0.0, 0.0)

    each.rounds(2)

    assert each.device.round_count == 2


def test_a_collector_that_fails_stops_none_of_those_after_it() -> None:
    each = bench(0.0, 0.0)
    each.meters[0].script = [LOST]

    each.rounds(1)

    assert each.meters[1].read_at_seconds == [1]
    assert each.failures() == {("meter_0", "lost"): 1}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
        pytest.param(pynvml.NVML_ERROR_IN_USE, id="in use"),
        pytest.param(pynvml.NVML_ERROR_NOT_READY, id="not ready"),
        pytest.param(pynvml.NVML_ERROR_INVALID_STATE, id="invalid state"),
    ],
)
def test_not_now_keeps_the_gauges_for_one_round_and_no_longer(code: int) -> None:
    each = bench()
    each.rounds(1)
    each.meter.script = [NvmlError("a call", code)] * 2

    each.rounds(1)
    after_one = each.names()
    each.rounds(1)

    assert after_one == {USED, OBSERVED, FAILURES}
    assert each.names() == {OBSERVED, FAILURES}
    assert each.failures() == {("meter_0", "not_ready"): 2}


def test_not_now_keeps_the_gauges_again_after_a_reading_in_between() -> None:
    each = bench()
    each.meter.script = [lambda: None, LATER, lambda: None, LATER]

    each.rounds(4)

    assert USED in each.names()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(LOST, id="lost"),
        pytest.param(NvmlError("a call", pynvml.NVML_ERROR_NO_PERMISSION), id="no permission"),
        pytest.param(NvmlError("a call", pynvml.NVML_ERROR_UNKNOWN), id="unknown"),
        pytest.param(ZeroDivisionError("a mistake of our own"), id="mistake"),
    ],
)
def test_any_other_failure_takes_the_gauges_off_at_once(error: Exception) -> None:
    each = bench()
    each.meter.script = [lambda: None, error]

    each.rounds(2)

    assert each.names() == {OBSERVED, FAILURES}


def test_a_reading_after_failures_brings_the_gauges_back() -> None:
    each = bench()
    each.meter.script = [lambda: None, LOST, LOST]

    each.rounds(4)

    assert USED in each.names()


def test_before_its_first_round_a_lane_tells_nothing() -> None:
    each = bench()

    assert each.lane.is_up is None
    assert list(states(each.lane)) == []


def test_a_lane_tells_whether_its_device_answered_in_the_last_round() -> None:
    each = bench()
    each.rounds(1)
    before = each.lane.is_up
    each.device.is_up = False
    unread = each.lane.is_up

    each.rounds(1)

    assert (before, unread, each.lane.is_up) == (True, True, False)


def test_each_collector_that_ran_tells_whether_it_served_its_device() -> None:
    each = bench(0.0, 0.0)
    each.meters[0].script = [LOST]

    each.rounds(1)

    assert [(sample.labels, sample.value) for sample in states(each.lane)] == [
        (("meter_0", "GPU-0001"), 0),
        (("meter_1", "GPU-0001"), 1),
    ]


def test_a_retired_lane_reads_no_more_and_only_its_counters_stay() -> None:
    each = bench()
    each.rounds(2)

    each.lane.retire()
    each.rounds(3)

    assert each.meter.read_at_seconds == [1, 2]
    assert each.names() == {OBSERVED}


def test_a_lane_that_is_retired_during_a_call_tells_nothing_of_it() -> None:
    each = bench(0.0, 0.0)
    each.meters[0].script = [each.lane.retire]

    each.rounds(1)

    assert each.names() == set()
    assert each.meters[1].read_at_seconds == []


def test_rounds_start_at_even_steps_and_a_late_one_is_not_made_up_for() -> None:
    each, stop = bench(), threading.Event()
    each.meter.script = [
        lambda: each.clock.advance(0.25),
        lambda: each.clock.advance(0.5),
        lambda: each.clock.advance(3.5),
        lambda: each.clock.advance(0.25),
        stop.set,
    ]

    each.lane.run(stop)

    assert each.meter.read_at_seconds == [0, 1, 2, 5.5, 6.5]


def test_a_lane_that_is_told_to_stop_before_it_starts_reads_nothing() -> None:
    each, stop = bench(), threading.Event()
    stop.set()

    each.lane.run(stop)

    assert each.meter.read_at_seconds == []


def test_a_lane_that_is_retired_ends_its_thread() -> None:
    each = bench()
    each.meter.script = [lambda: None, each.lane.retire]

    each.lane.run(threading.Event())

    assert each.meter.read_at_seconds == [0, 1]


def test_a_call_within_its_time_is_not_found_to_hang(hang: Hang) -> None:
    each = bench()
    each.rounds(1)
    each.meter.script = [hang]
    start_reading(each.lane, hang)

    each.clock.advance(DEADLINE_SECONDS)

    assert each.watch() is None
    assert each.lane.is_up
    assert USED in each.names()


def test_a_call_that_hangs_is_counted_each_interval_and_takes_every_gauge_of_the_lane_off(
    hang: Hang,
) -> None:
    each = bench(0.0, 0.0)
    each.rounds(1)
    each.meters[1].script = [hang]
    start_reading(each.lane, hang)
    each.clock.advance(DEADLINE_SECONDS + 0.1)

    found = [each.watch() for _ in range(5)]
    each.clock.advance(1)
    each.watch()

    assert found == [each.lane.tasks[1]] * 5
    assert each.failures() == {("meter_1", "stuck"): 2}
    assert USED not in each.names()
    assert each.lane.is_up is False
    assert [sample.value for sample in states(each.lane)] == [0, 0]


def test_the_first_call_of_all_may_hang(hang: Hang) -> None:
    each = bench()
    each.meter.script = [hang]
    start_reading(each.lane, hang)
    each.clock.advance(DEADLINE_SECONDS + 0.1)

    each.watch()

    assert each.lane.is_up is False
    assert [sample.value for sample in states(each.lane)] == [0]


def test_a_call_that_comes_back_brings_everything_back(hang: Hang) -> None:
    each = bench()
    each.rounds(1)
    each.meter.script = [hang]
    each.clock.advance(1)
    thread = start_reading(each.lane, hang)
    each.clock.advance(60)
    each.watch()

    hang.is_over.set()
    thread.join(10)
    each.rounds(1)

    assert each.watch() is None
    assert each.lane.is_up
    assert USED in each.names()
    assert [sample.value for sample in states(each.lane)] == [1]
    assert each.failures() == {("meter_0", "stuck"): 1}
    # Of the minute in which nothing was read, two intervals are bridged.
    assert each.meter.covered_seconds == [0, 1, 2]


def test_each_hang_is_counted() -> None:
    each = bench()
    for _ in range(2):
        hang = Hang()
        each.meter.script = [hang]
        thread = start_reading(each.lane, hang)
        each.clock.advance(DEADLINE_SECONDS + 0.1)
        each.watch()
        hang.is_over.set()
        thread.join(10)

    assert each.failures() == {("meter_0", "stuck"): 2}


def test_a_hang_is_logged_once_and_so_is_its_end(
    hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    each = bench()
    each.meter.script = [hang]
    thread = start_reading(each.lane, hang)
    for _ in range(60):
        each.clock.advance(1)
        each.watch()

    hang.is_over.set()
    thread.join(10)

    assert caplog.messages == [
        "meter_0 on GPU-0001: a call has not come back for 6 s",
        "meter_0 on GPU-0001: works again",
    ]


def test_a_lane_that_was_given_up_while_it_hung_tells_nothing_when_it_comes_back(
    hang: Hang,
) -> None:
    each = bench()
    each.meter.script = [hang]
    thread = start_reading(each.lane, hang)

    each.lane.retire()
    hang.is_over.set()
    thread.join(10)

    assert each.names() == set()


def test_the_lock_is_held_while_a_call_is_under_way(hang: Hang) -> None:
    each = bench()
    each.meter.script = [hang]
    thread = start_reading(each.lane, hang)
    during = each.lane.lock.locked()

    hang.is_over.set()
    thread.join(10)

    assert (during, each.lane.lock.locked()) == (True, False)


def test_a_card_that_only_slow_collectors_read_stays_down_between_their_readings() -> None:
    each = bench(5.0)
    each.device.is_up = False
    each.lane.read()
    each.device.is_up = True  # a round without calls says nothing against a card

    each.rounds(1)

    assert each.lane.is_up is False


def test_many_calls_that_each_come_back_are_no_hang(hang: Hang) -> None:
    each = bench()
    each.rounds(1)
    steps = [Hang() for _ in range(4)]

    def many_calls() -> None:
        for step in steps:
            calls.call("nvmlNoSuchFunction")
            step()

    each.meter.script = [many_calls]
    reading = start_reading(each.lane, steps[0])
    found = []
    for step in steps:
        assert step.entered.wait(10)
        each.watch()
        each.clock.advance(DEADLINE_SECONDS)
        found.append(each.watch())
        step.is_over.set()
    reading.join(10)

    assert found == [None] * 4
    assert each.lane.is_up


def test_a_reading_whose_calls_each_come_back_may_take_all_of_its_time() -> None:
    each = bench()

    found = reading_of_calls(each, RUN_DEADLINE_SECONDS)

    assert set(found) == {None}
    assert each.failures() == {}


def test_a_reading_that_is_not_done_in_its_time_is_stuck_though_each_call_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    each = bench()

    found = reading_of_calls(each, RUN_DEADLINE_SECONDS + DEADLINE_SECONDS)

    assert found[-1] is each.lane.tasks[0]
    assert each.failures() == {("meter_0", "stuck"): 1}
    assert caplog.messages == ["meter_0 on GPU-0001: a reading is not done after 35 s"]


def test_after_a_hang_every_collector_reads_again_at_once(hang: Hang) -> None:
    each = bench(0.0, 60.0)
    each.rounds(1)
    each.meters[0].script = [hang]
    reading = start_reading(each.lane, hang)
    each.clock.advance(DEADLINE_SECONDS + 0.1)
    each.watch()
    hang.is_over.set()
    reading.join(10)

    each.rounds(1)

    assert len(each.meters[1].read_at_seconds) == 2
    assert USED in each.names()


def test_what_lasts_is_told_also_while_the_device_is_silent(hang: Hang) -> None:
    each = bench()
    (task,) = each.lane.tasks
    task.collector = replace(task.collector, is_lasting=True)
    each.rounds(1)

    each.lane.retire()

    assert USED in each.names()


@pytest.mark.parametrize("is_lasting", [True, False])
def test_a_call_that_hangs_takes_off_its_own_gauges_unless_they_last(
    is_lasting: bool, hang: Hang
) -> None:
    each = bench()
    (task,) = each.lane.tasks
    task.collector = replace(task.collector, is_lasting=is_lasting)
    each.rounds(1)
    each.meter.script = [hang]
    start_reading(each.lane, hang)
    each.clock.advance(DEADLINE_SECONDS + 0.1)

    each.watch()

    assert (USED in each.names()) is is_lasting


@pytest.mark.parametrize("is_lasting", [True, False])
def test_readings_that_fail_take_off_their_gauges_unless_they_last(is_lasting: bool) -> None:
    each = bench()
    (task,) = each.lane.tasks
    task.collector = replace(task.collector, is_lasting=is_lasting)
    each.meter.script = [lambda: None, LOST, LOST]

    each.rounds(3)

    assert (USED in each.names()) is is_lasting
    assert each.failures() == {("meter_0", "lost"): 2}


def test_a_retired_lane_counts_as_reading_until_its_thread_has_ended(hang: Hang) -> None:
    each = bench()

    def sleep(stop: threading.Event, seconds: float) -> bool:
        hang()
        return stop.is_set()

    each.lane.clock = replace(each.lane.clock, wait=sleep)
    thread = threading.Thread(target=each.lane.run, args=(threading.Event(),), daemon=True)
    thread.start()
    assert hang.entered.wait(10)
    each.lane.retire()
    asleep = each.lane.is_reading

    hang.is_over.set()
    thread.join(10)

    assert (asleep, each.lane.is_reading) == (True, False)


def test_what_was_read_before_a_failure_counts_its_time_once() -> None:
    each = bench()
    fails = iter((False, True, False))

    def half(device: FakeDevice, covered_seconds: float) -> Iterator[Sample]:
        yield Sample(GPU_OBSERVED_SECONDS_TOTAL, covered_seconds, (device.id, "memory"))
        if next(fails):
            raise LATER

    (task,) = each.lane.tasks
    task.collector = Collector((), lambda host: (), half)

    each.rounds(3)

    told = {name: value for name, _, value in from_text(each.store.page()[0]) if name == OBSERVED}
    assert told == {OBSERVED: 2}
    assert each.failures() == {("meter_0", "not_ready"): 1}
