"""One lock around all series: a page shows whole readings, and waits for none."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.pages import from_text
from support.simulated import START_SECONDS

from rightslice.contract.spec import Kind, MetricSpec, Sample, Unit
from rightslice.exporter.exposition import OPENMETRICS_CONTENT_TYPE, TEXT_CONTENT_TYPE
from rightslice.exporter.host.clock import Clock, ManualClock
from rightslice.exporter.store import Store

GAUGE = MetricSpec("rightslice_test_bytes", Kind.GAUGE, Unit.BYTES, "A gauge.")
COUNTER = MetricSpec("rightslice_test_seconds_total", Kind.COUNTER, Unit.SECONDS, "A counter.")
PEAK = MetricSpec(
    "rightslice_test_peak_bytes", Kind.GAUGE, Unit.BYTES, "A peak.", peak_window_seconds=130
)
FIRST, SECOND = ("GPU-0001",), ("GPU-0002",)


def new_store(clock: ManualClock | None = None) -> Store:
    return Store((clock or ManualClock(START_SECONDS)).clock())


def told(store: Store) -> dict[tuple[str, str], float]:
    """Give the page as a mapping of metric and card to value."""
    return {(name, labels["uuid"]): value for name, labels, value in from_text(store.page()[0])}


def test_what_is_read_is_on_the_page() -> None:
    store = new_store()

    store.apply("memory", [Sample(GAUGE, 1, FIRST), Sample(COUNTER, 2, FIRST)])

    assert told(store) == {(GAUGE.name, "GPU-0001"): 1, (COUNTER.name, "GPU-0001"): 2}


def test_the_page_comes_in_the_format_that_is_asked_for() -> None:
    store = new_store()

    assert store.page()[1] == TEXT_CONTENT_TYPE
    assert store.page("application/openmetrics-text")[1] == OPENMETRICS_CONTENT_TYPE


def test_a_reading_takes_the_place_of_the_one_before_unless_it_is_to_be_kept() -> None:
    store = new_store()
    store.apply("memory", [Sample(GAUGE, 1, FIRST)])

    store.apply("memory", [Sample(COUNTER, 1, FIRST)], keep=True)
    kept = told(store)
    store.apply("memory", [Sample(COUNTER, 1, FIRST)])

    assert kept == {(GAUGE.name, "GPU-0001"): 1, (COUNTER.name, "GPU-0001"): 1}
    assert told(store) == {(COUNTER.name, "GPU-0001"): 2}


def test_owners_that_read_no_more_lose_their_gauges_and_keep_their_counters() -> None:
    store = new_store()
    store.apply("first", [Sample(GAUGE, 1, FIRST), Sample(COUNTER, 1, FIRST)])
    store.apply("second", [Sample(GAUGE, 2, SECOND)])

    store.drop_owners(["first", "an owner that never was"])

    assert told(store) == {(COUNTER.name, "GPU-0001"): 1, (GAUGE.name, "GPU-0002"): 2}


def test_an_owner_that_is_gone_for_good_ends_what_it_alone_told_of() -> None:
    store, peak = new_store(), replace(PEAK, subject_label_count=1)
    store.apply("first", [Sample(peak, 1, FIRST), Sample(GAUGE, 1, FIRST)])
    store.apply("second", [Sample(peak, 2, SECOND)])
    store.apply("third", [Sample(peak, 3, SECOND)])

    store.end_owners(["first", "second", "an owner that never was"])

    assert told(store) == {(PEAK.name, "GPU-0002"): 3}


def test_a_thing_that_is_gone_for_good_takes_all_of_its_series_along() -> None:
    store = new_store()
    store.apply("first", [Sample(spec, 1, FIRST) for spec in (GAUGE, COUNTER, PEAK)])
    store.apply("second", [Sample(COUNTER, 2, SECOND)])

    store.drop_label("GPU-0001")

    assert told(store) == {(COUNTER.name, "GPU-0002"): 2}


def test_a_peak_leaves_the_page_with_its_window() -> None:
    clock = ManualClock(START_SECONDS)
    store = new_store(clock)
    store.apply("memory", [Sample(PEAK, 1, FIRST)])
    clock.advance(130)
    at_its_end = told(store)

    clock.advance(1)

    assert at_its_end == {(PEAK.name, "GPU-0001"): 1}
    assert told(store) == {}


@pytest.mark.parametrize("step_seconds", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_anew_takes_no_peak_along(step_seconds: float) -> None:
    wall, monotonic = ManualClock(START_SECONDS), ManualClock(1_000.0)
    clock = Clock(wall.now_seconds, monotonic.now_seconds, monotonic.clock().wait)
    store = Store(clock)
    store.apply("memory", [Sample(PEAK, 9, FIRST)])

    wall.advance(step_seconds)
    monotonic.advance(1)
    store.apply("memory", [Sample(PEAK, 1, FIRST)])
    after_the_step = told(store)
    monotonic.advance(130)

    assert after_the_step == {(PEAK.name, "GPU-0001"): 9}
    assert told(store) == {(PEAK.name, "GPU-0001"): 1}


def test_samples_that_are_slow_to_come_hold_up_no_page() -> None:
    store = new_store()
    seen = []

    def slow() -> Iterator[Sample]:
        yield Sample(GAUGE, 1, FIRST)
        seen.append(told(store))
        yield Sample(GAUGE, 2, SECOND)

    reading = threading.Thread(target=store.apply, args=("memory", slow()), daemon=True)
    reading.start()
    reading.join(10)

    assert seen == [{}]


def test_a_page_shows_no_half_of_a_reading() -> None:
    store = new_store()
    stop = threading.Event()

    def read() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            samples = [
                Sample(spec, number, labels) for labels in (FIRST, SECOND) for spec in (GAUGE, PEAK)
            ]
            store.apply("memory", samples)

    reading = threading.Thread(target=read)
    reading.start()
    pages = [set(told(store).values()) for _ in range(200)]
    stop.set()
    reading.join(10)

    assert [page for page in pages if len(page) > 1] == []
