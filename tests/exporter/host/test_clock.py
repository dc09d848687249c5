"""The real clock, and the one that is moved by hand."""

import threading
import time

from rightslice.exporter.host.clock import ManualClock, real_clock


def test_the_real_clock_is_the_machine_s() -> None:
    clock = real_clock()

    before, now, after = time.time(), clock.wall_seconds(), time.time()
    first, second = clock.monotonic_seconds(), clock.monotonic_seconds()

    assert before <= now <= after
    assert first <= second


def test_waiting_ends_with_the_event() -> None:
    stop = threading.Event()
    stop.set()

    assert real_clock().wait(stop, 60.0)


def test_waiting_without_the_event_takes_its_time() -> None:
    assert not real_clock().wait(threading.Event(), 0.001)


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    manual = ManualClock(1000.0)
    clock = manual.clock()
    before = (clock.wall_seconds(), clock.monotonic_seconds())

    manual.advance(86400.0)

    assert before == (1000.0, 1000.0)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (87400.0, 87400.0)


def test_waiting_on_a_manual_clock_moves_it() -> None:
    manual, stop = ManualClock(1000.0), threading.Event()

    went_on = manual.clock().wait(stop, 5.0)
    stop.set()
    ended = manual.clock().wait(stop, 5.0)

    assert (went_on, ended) == (False, True)
    assert manual.now_seconds() == 1010.0
