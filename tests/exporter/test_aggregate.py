"""From readings to series: what is set, what grows, what is observed, and what is forgotten."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.contract.sampling import SPAN_COVERED_RATIO
from rightslice.contract.spec import Kind, MetricSpec, Sample, Unit
from rightslice.exporter.aggregate import Aggregate, Series

GAUGE = MetricSpec("rightslice_test_bytes", Kind.GAUGE, Unit.BYTES, "A gauge.")
COUNTER = MetricSpec("rightslice_test_seconds_total", Kind.COUNTER, Unit.SECONDS, "A counter.")
PEAK = MetricSpec(
    "rightslice_test_peak_bytes", Kind.GAUGE, Unit.BYTES, "A peak.", peak_window_seconds=130
)
HISTOGRAM = MetricSpec(
    "rightslice_test_ratio", Kind.HISTOGRAM, Unit.RATIO, "A ratio.", buckets=(0.25, 0.5, 1.0)
)
MEANS = MetricSpec(
    "rightslice_test_mean_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Minute means.",
    buckets=(0.25, 0.5, 1.0),
    mean_seconds=60,
)
CARD = ("GPU-0001",)
# The start of a wall-clock minute.
START_SECONDS = 1_700_000_040.0

amounts = st.integers(min_value=0, max_value=1000)
shares = st.floats(min_value=0, max_value=1)


def read(aggregate: Aggregate, now_seconds: float = START_SECONDS) -> list[Series]:
    return list(aggregate.series(now_seconds))


def values(
    aggregate: Aggregate, spec: MetricSpec, now_seconds: float = START_SECONDS
) -> list[float]:
    """Give the values of a metric's series."""
    return [row.value for row in read(aggregate, now_seconds) if row.spec is spec]


def bins(aggregate: Aggregate, spec: MetricSpec) -> list[int]:
    """Give the bins of a histogram that has one series."""
    (row,) = (row for row in read(aggregate) if row.spec is spec)
    assert row.histogram is not None
    return row.histogram.bins


def observe_minutes(aggregate: Aggregate, *readings: tuple[float, float, float]) -> None:
    """Apply readings of MEANS: (seconds after the start, value, seconds covered)."""
    for after_seconds, value, covered_seconds in readings:
        sample = Sample(MEANS, value, CARD, covered_seconds)
        aggregate.apply("use", [sample], START_SECONDS + after_seconds)


def test_a_gauge_shows_the_last_reading() -> None:
    aggregate = Aggregate()

    aggregate.apply("memory", [Sample(GAUGE, 1, CARD)], START_SECONDS)
    aggregate.apply("memory", [Sample(GAUGE, 2, CARD)], START_SECONDS + 1)

    assert values(aggregate, GAUGE) == [2]


def test_a_gauge_that_its_owner_no_longer_reads_is_gone() -> None:
    aggregate = Aggregate()
    aggregate.apply("memory", [Sample(GAUGE, 1, CARD)], START_SECONDS)

    aggregate.apply("memory", [], START_SECONDS + 1)

    assert read(aggregate) == []


def test_an_owner_leaves_the_gauges_of_others_alone() -> None:
    aggregate = Aggregate()
    aggregate.apply("first", [Sample(GAUGE, 1, CARD)], START_SECONDS)

    aggregate.apply("second", [], START_SECONDS)

    assert values(aggregate, GAUGE) == [1]


def test_a_counter_grows_by_what_is_read_and_stays_when_nothing_is() -> None:
    aggregate = Aggregate()

    aggregate.apply("use", [Sample(COUNTER, 1.5, CARD)], START_SECONDS)
    aggregate.apply("use", [Sample(COUNTER, 2.0, CARD)], START_SECONDS + 1)
    aggregate.apply("use", [], START_SECONDS + 2)

    assert values(aggregate, COUNTER) == [3.5]


@given(st.lists(amounts, min_size=1), st.lists(st.floats(-100, 100), min_size=100, max_size=100))
def test_a_counter_never_falls_whatever_the_clock_does(
    readings: list[int], clock_steps: list[float]
) -> None:
    aggregate, seen = Aggregate(), []

    for reading, now_seconds in zip(readings, accumulate(clock_steps), strict=False):
        aggregate.apply("use", [Sample(COUNTER, reading, CARD)], now_seconds)
        seen += values(aggregate, COUNTER)

    assert seen == list(accumulate(readings[: len(seen)]))


def test_a_histogram_counts_each_reading_in_the_bin_of_its_upper_edge() -> None:
    aggregate = Aggregate()

    for value in (0.0, 0.25, 0.26, 1.0, 1.5):
        aggregate.apply("memory", [Sample(HISTOGRAM, value, CARD, 1.0)], START_SECONDS)

    assert bins(aggregate, HISTOGRAM) == [2, 1, 1, 1]


def test_the_first_reading_makes_a_histogram_and_is_not_counted() -> None:
    aggregate = Aggregate()

    aggregate.apply("memory", [Sample(HISTOGRAM, 0.5, CARD, 0.0)], START_SECONDS)

    assert bins(aggregate, HISTOGRAM) == [0, 0, 0, 0]


@given(st.lists(shares))
def test_a_histogram_holds_as_many_observations_as_were_made(readings: list[float]) -> None:
    aggregate = Aggregate()
    aggregate.apply("memory", [Sample(HISTOGRAM, 0.5, CARD, 0.0)], START_SECONDS)

    for reading in readings:
        aggregate.apply("memory", [Sample(HISTOGRAM, reading, CARD, 1.0)], START_SECONDS)

    (row,) = read(aggregate)
    assert row.histogram is not None
    assert sum(row.histogram.bins) == len(readings)
    assert row.histogram.value_sum == pytest.approx(sum(readings))


def test_a_peak_is_the_maximum_of_its_window() -> None:
    aggregate = Aggregate()

    for after_seconds, value in ((0, 5.0), (10, 9.0), (20, 3.0)):
        aggregate.apply("memory", [Sample(PEAK, value, CARD)], START_SECONDS + after_seconds)

    assert values(aggregate, PEAK, START_SECONDS + 140) == [9.0]
    assert values(aggregate, PEAK, START_SECONDS + 141) == [3.0]


def test_a_peak_outlives_a_failed_reading_but_not_its_window() -> None:
    aggregate = Aggregate()
    aggregate.apply("memory", [Sample(PEAK, 5.0, CARD)], START_SECONDS)

    aggregate.apply("memory", [], START_SECONDS + 1)

    assert values(aggregate, PEAK, START_SECONDS + 130) == [5.0]
    assert values(aggregate, PEAK, START_SECONDS + 131) == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 90), amounts), min_size=1, max_size=40))
def test_a_peak_equals_the_maximum_found_by_looking_at_every_reading(
    readings: list[tuple[int, int]],
) -> None:
    aggregate = Aggregate()
    stamps = list(accumulate(step for step, _ in readings))
    stamped = [(at, value) for at, (_, value) in zip(stamps, readings, strict=True)]
    seen = []

    for now_seconds, value in stamped:
        aggregate.apply("memory", [Sample(PEAK, value, CARD)], now_seconds)
        seen += values(aggregate, PEAK, now_seconds)

    assert seen == [max(value for at, value in stamped if now - 130 <= at <= now) for now in stamps]


def test_a_clock_that_goes_back_keeps_no_peak_beyond_its_window() -> None:
    aggregate = Aggregate()
    aggregate.apply("memory", [Sample(PEAK, 9.0, CARD)], START_SECONDS)

    aggregate.apply("memory", [Sample(PEAK, 5.0, CARD)], START_SECONDS - 3600)

    assert values(aggregate, PEAK, START_SECONDS - 3500) == [5.0]


def test_a_minute_is_observed_once_the_next_one_has_begun() -> None:
    aggregate = Aggregate()

    observe_minutes(aggregate, *((second, 0.75, 1.0) for second in range(1, 61)))
    before = list(bins(aggregate, MEANS))
    observe_minutes(aggregate, (61, 0.0, 1.0))

    assert before == [0, 0, 0, 0]
    assert bins(aggregate, MEANS) == [0, 0, 1, 0]


def test_a_minute_mean_weighs_readings_by_the_time_they_stand_for() -> None:
    aggregate = Aggregate()

    observe_minutes(aggregate, (45, 1.0, 45.0), (60, 0.0, 15.0), (62, 0.0, 1.0))

    (row,) = read(aggregate)
    assert row.histogram is not None
    assert row.histogram.value_sum == pytest.approx(0.75)


def test_a_reading_on_the_stroke_belongs_to_the_minute_that_it_ends() -> None:
    aggregate = Aggregate()

    observe_minutes(aggregate, (30, 0.0, 30.0), (60, 1.0, 30.0), (90, 1.0, 30.0))

    (row,) = read(aggregate)
    assert row.histogram is not None
    assert row.histogram.value_sum == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("covered_seconds", "minute_count"),
    [
        pytest.param(60 * SPAN_COVERED_RATIO, 1, id="just enough"),
        pytest.param(60 * SPAN_COVERED_RATIO - 1, 0, id="just too little"),
    ],
)
def test_a_minute_of_which_too_little_was_seen_is_unknown(
    covered_seconds: float, minute_count: int
) -> None:
    aggregate = Aggregate()

    observe_minutes(aggregate, (covered_seconds, 1.0, covered_seconds), (61, 0.0, 1.0))

    assert sum(bins(aggregate, MEANS)) == minute_count


def test_a_minute_without_any_reading_is_unknown_and_not_idle() -> None:
    aggregate = Aggregate()
    full_minute = [(second, 1.0, 1.0) for second in range(1, 61)]

    observe_minutes(aggregate, *full_minute, (181, 1.0, 1.0))

    assert bins(aggregate, MEANS) == [0, 0, 1, 0]


@settings(deadline=None)
@given(st.lists(st.lists(shares, min_size=60, max_size=60), min_size=1, max_size=4))
def test_minute_means_are_the_plain_means_of_each_minute(minutes: list[list[float]]) -> None:
    aggregate = Aggregate()
    readings = [value for minute in minutes for value in minute]

    observe_minutes(
        aggregate, *((second, value, 1.0) for second, value in enumerate(readings, start=1))
    )
    observe_minutes(aggregate, (len(readings) + 1, 0.0, 1.0))

    (row,) = read(aggregate)
    assert row.histogram is not None
    assert sum(row.histogram.bins) == len(minutes)
    assert row.histogram.value_sum == pytest.approx(sum(sum(minute) / 60 for minute in minutes))


def test_a_clock_that_goes_back_loses_the_minute_and_breaks_nothing() -> None:
    aggregate = Aggregate()

    observe_minutes(aggregate, (30, 1.0, 30.0), (-3600, 1.0, 30.0), (-3500, 1.0, 30.0))

    assert bins(aggregate, MEANS) == [0, 0, 0, 0]


def test_series_come_ordered_by_metric_and_labels() -> None:
    aggregate = Aggregate()
    samples = [
        Sample(HISTOGRAM, 1, ("GPU-0002",), 1.0),
        Sample(COUNTER, 1, ("GPU-0002",)),
        Sample(PEAK, 1, ("GPU-0001",)),
        Sample(COUNTER, 1, ("GPU-0001",)),
        Sample(GAUGE, 1, ("GPU-0001",)),
    ]

    aggregate.apply("all", samples, START_SECONDS)

    assert [(row.spec, row.labels) for row in read(aggregate)] == [
        (GAUGE, ("GPU-0001",)),
        (PEAK, ("GPU-0001",)),
        (HISTOGRAM, ("GPU-0002",)),
        (COUNTER, ("GPU-0001",)),
        (COUNTER, ("GPU-0002",)),
    ]
