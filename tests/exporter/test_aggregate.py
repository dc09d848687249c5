"""From readings to series: what is set, what grows, what is observed, and what is forgotten."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulated import START_SECONDS

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

amounts = st.integers(min_value=0, max_value=1000)
shares = st.floats(min_value=0, max_value=1)


def apply(
    aggregate: Aggregate,
    owner: str,
    samples: list[Sample],
    now_seconds: float,
    *,
    keep: bool = False,
) -> None:
    """Take in a reading while both clocks tell the same time."""
    aggregate.apply(owner, samples, now_seconds, now_seconds, keep=keep)


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
        apply(aggregate, "use", [sample], START_SECONDS + after_seconds)


def test_a_gauge_shows_the_last_reading() -> None:
    aggregate = Aggregate()

    apply(aggregate, "memory", [Sample(GAUGE, 1, CARD)], START_SECONDS)
    apply(aggregate, "memory", [Sample(GAUGE, 2, CARD)], START_SECONDS + 1)

    assert values(aggregate, GAUGE) == [2]


def test_a_gauge_that_its_owner_no_longer_reads_is_gone() -> None:
    aggregate = Aggregate()
    apply(aggregate, "memory", [Sample(GAUGE, 1, CARD)], START_SECONDS)

    apply(aggregate, "memory", [], START_SECONDS + 1)

    assert read(aggregate) == []


def test_an_owner_leaves_the_gauges_of_others_alone() -> None:
    aggregate = Aggregate()
    apply(aggregate, "first", [Sample(GAUGE, 1, CARD)], START_SECONDS)

    apply(aggregate, "second", [], START_SECONDS)

    assert values(aggregate, GAUGE) == [1]


def test_a_counter_grows_by_what_is_read_and_stays_when_nothing_is() -> None:
    aggregate = Aggregate()

    apply(aggregate, "use", [Sample(COUNTER, 1.5, CARD)], START_SECONDS)
    apply(aggregate, "use", [Sample(COUNTER, 2.0, CARD)], START_SECONDS + 1)
    apply(aggregate, "use", [], START_SECONDS + 2)

    assert values(aggregate, COUNTER) == [3.5]


@given(st.lists(amounts, min_size=1), st.lists(st.floats(-100, 100), min_size=100, max_size=100))
def test_a_counter_never_falls_whatever_the_clock_does(
    readings: list[int], clock_steps: list[float]
) -> None:
    aggregate, seen = Aggregate(), []

    for reading, now_seconds in zip(readings, accumulate(clock_steps), strict=False):
        apply(aggregate, "use", [Sample(COUNTER, reading, CARD)], now_seconds)
        seen += values(aggregate, COUNTER)

    assert seen == list(accumulate(readings[: len(seen)]))


def test_a_histogram_counts_each_reading_in_the_bin_of_its_upper_edge() -> None:
    aggregate = Aggregate()

    for value in (0.0, 0.25, 0.26, 1.0, 1.5):
        apply(aggregate, "memory", [Sample(HISTOGRAM, value, CARD, 1.0)], START_SECONDS)

    assert bins(aggregate, HISTOGRAM) == [2, 1, 1, 1]


def test_the_first_reading_makes_a_histogram_and_is_not_counted() -> None:
    aggregate = Aggregate()

    apply(aggregate, "memory", [Sample(HISTOGRAM, 0.5, CARD, 0.0)], START_SECONDS)

    assert bins(aggregate, HISTOGRAM) == [0, 0, 0, 0]


@given(st.lists(shares))
def test_a_histogram_holds_as_many_observations_as_were_made(readings: list[float]) -> None:
    aggregate = Aggregate()
    apply(aggregate, "memory", [Sample(HISTOGRAM, 0.5, CARD, 0.0)], START_SECONDS)

    for reading in readings:
        apply(aggregate, "memory", [Sample(HISTOGRAM, reading, CARD, 1.0)], START_SECONDS)

    (row,) = read(aggregate)
    assert row.histogram is not None
    assert sum(row.histogram.bins) == len(readings)
    assert row.histogram.value_sum == pytest.approx(sum(readings))


def test_a_peak_is_the_maximum_of_its_window() -> None:
    aggregate = Aggregate()

    for after_seconds, value in ((0, 5.0), (10, 9.0), (20, 3.0)):
        apply(aggregate, "memory", [Sample(PEAK, value, CARD)], START_SECONDS + after_seconds)

    assert values(aggregate, PEAK, START_SECONDS + 140) == [9.0]
    assert values(aggregate, PEAK, START_SECONDS + 141) == [3.0]


def test_a_peak_outlives_a_failed_reading_but_not_its_window() -> None:
    aggregate = Aggregate()
    apply(aggregate, "memory", [Sample(PEAK, 5.0, CARD)], START_SECONDS)

    apply(aggregate, "memory", [], START_SECONDS + 1)

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
        apply(aggregate, "memory", [Sample(PEAK, value, CARD)], now_seconds)
        seen += values(aggregate, PEAK, now_seconds)

    assert seen == [max(value for at, value in stamped if now - 130 <= at <= now) for now in stamps]


@pytest.mark.parametrize("step_seconds", [-3600.0, 3600.0])
def test_a_peak_s_window_is_not_of_the_wall_clock(step_seconds: float) -> None:
    aggregate = Aggregate()
    aggregate.apply("memory", [Sample(PEAK, 9.0, CARD)], START_SECONDS, 100.0)

    aggregate.apply("memory", [Sample(PEAK, 5.0, CARD)], START_SECONDS + step_seconds, 110.0)

    assert values(aggregate, PEAK, 230.0) == [9.0]
    assert values(aggregate, PEAK, 231.0) == [5.0]


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

    apply(aggregate, "all", samples, START_SECONDS)

    assert [(row.spec, row.labels) for row in read(aggregate)] == [
        (GAUGE, ("GPU-0001",)),
        (PEAK, ("GPU-0001",)),
        (HISTOGRAM, ("GPU-0002",)),
        (COUNTER, ("GPU-0001",)),
        (COUNTER, ("GPU-0002",)),
    ]


def read_totals(aggregate: Aggregate, *readings: tuple[float, str]) -> list[float]:
    """Apply running totals, each of a subject; give what the counter shows after each."""
    seen = []
    for total, subject in readings:
        sample = Sample(COUNTER, total, CARD, is_total=True, subject=subject)
        apply(aggregate, "energy", [sample], START_SECONDS)
        seen += values(aggregate, COUNTER)
    return seen


def test_what_a_running_total_held_when_first_seen_is_not_counted() -> None:
    assert read_totals(Aggregate(), (5000.0, "")) == [0]


def test_a_running_total_counts_by_what_it_grew() -> None:
    assert read_totals(Aggregate(), (5000.0, ""), (5003.0, ""), (5003.0, ""), (5010.0, "")) == [
        0,
        3,
        3,
        10,
    ]


def test_a_running_total_that_was_reset_counts_from_zero() -> None:
    assert read_totals(Aggregate(), (5000.0, ""), (5003.0, ""), (2.0, ""), (4.0, "")) == [
        0,
        3,
        5,
        7,
    ]


def test_a_running_total_of_another_source_starts_anew() -> None:
    assert read_totals(Aggregate(), (10.0, "a"), (15.0, "a"), (900.0, "b"), (901.0, "b")) == [
        0,
        5,
        5,
        6,
    ]


def test_a_running_total_that_comes_back_after_another_source_starts_anew() -> None:
    assert read_totals(Aggregate(), (10.0, "a"), (900.0, "b"), (1000.0, "a")) == [0, 0, 0]


def test_a_running_total_bridges_readings_that_were_missed() -> None:
    aggregate = Aggregate()
    read_totals(aggregate, (10.0, ""))

    apply(aggregate, "energy", [], START_SECONDS)

    assert read_totals(aggregate, (25.0, "")) == [15]


def test_growth_that_was_counted_while_the_total_was_missing_is_not_counted_twice() -> None:
    aggregate = Aggregate()
    read_totals(aggregate, (10.0, ""), (15.0, ""))
    apply(aggregate, "energy", [Sample(COUNTER, 3.0, CARD)], START_SECONDS)

    assert read_totals(aggregate, (18.0, ""), (20.0, "")) == [8, 10]


def test_running_totals_of_two_cards_are_told_apart() -> None:
    aggregate = Aggregate()
    for total in (10.0, 12.0):
        samples = [
            Sample(COUNTER, total * factor, (uuid,), is_total=True)
            for factor, uuid in ((1, "GPU-0001"), (100, "GPU-0002"))
        ]
        apply(aggregate, "energy", samples, START_SECONDS)

    assert values(aggregate, COUNTER) == [2, 200]


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from("ab")), min_size=1))
def test_a_counter_of_running_totals_never_falls_nor_counts_more_than_was_there(
    readings: list[tuple[int, str]],
) -> None:
    seen = read_totals(Aggregate(), *((float(total), subject) for total, subject in readings))

    assert seen[0] == 0
    assert seen == sorted(seen)
    assert seen[-1] <= sum(total for total, _ in readings[1:])


@given(st.lists(amounts, min_size=1))
def test_a_running_total_that_is_never_reset_counts_what_came_since_it_was_first_seen(
    steps: list[int],
) -> None:
    totals = list(accumulate(steps))

    seen = read_totals(Aggregate(), *((float(total), "") for total in totals))

    assert seen == [total - totals[0] for total in totals]


def test_a_peak_of_another_subject_is_not_carried_over() -> None:
    aggregate = Aggregate()
    apply(aggregate, "mig", [Sample(PEAK, 9.0, CARD, subject="first")], START_SECONDS)

    apply(aggregate, "mig", [Sample(PEAK, 2.0, CARD, subject="second")], START_SECONDS + 1)

    assert values(aggregate, PEAK, START_SECONDS + 1) == [2]


def test_a_reading_that_is_none_keeps_the_gauges_and_counts() -> None:
    aggregate = Aggregate()
    apply(aggregate, "memory", [Sample(GAUGE, 1, CARD)], START_SECONDS)

    apply(aggregate, "memory", [Sample(COUNTER, 1, CARD)], START_SECONDS + 1, keep=True)

    assert values(aggregate, GAUGE) == [1]
    assert values(aggregate, COUNTER) == [1]


def test_an_owner_that_is_dropped_takes_its_gauges_along_and_nothing_else() -> None:
    aggregate = Aggregate()
    samples = [Sample(GAUGE, 1, CARD), Sample(COUNTER, 2, CARD), Sample(PEAK, 3, CARD)]
    apply(aggregate, "first", samples, START_SECONDS)
    apply(aggregate, "second", [Sample(GAUGE, 4, ("GPU-0002",))], START_SECONDS)

    aggregate.drop_owner("first")
    aggregate.drop_owner("an owner that never was")

    assert [(row.spec, row.labels, row.value) for row in read(aggregate)] == [
        (GAUGE, ("GPU-0002",), 4),
        (PEAK, CARD, 3),
        (COUNTER, CARD, 2),
    ]


def test_a_label_value_that_is_dropped_takes_every_series_that_bears_it() -> None:
    aggregate = Aggregate()
    for labels in (CARD, ("GPU-0002",)):
        samples = [
            Sample(GAUGE, 1, labels),
            Sample(COUNTER, 2, labels),
            Sample(PEAK, 3, labels),
            Sample(HISTOGRAM, 0.5, labels, 1.0),
            Sample(MEANS, 0.5, labels, 1.0),
        ]
        apply(aggregate, labels[0], samples, START_SECONDS)

    aggregate.drop_label("GPU-0001")

    assert {row.labels for row in read(aggregate)} == {("GPU-0002",)}
    assert len(read(aggregate)) == 5


def test_what_comes_back_after_its_label_was_dropped_starts_at_zero() -> None:
    aggregate = Aggregate()
    read_totals(aggregate, (10.0, ""), (15.0, ""))
    observe_minutes(aggregate, *((second, 1.0, 1.0) for second in range(1, 60)))
    aggregate.drop_label("GPU-0001")

    totals = read_totals(aggregate, (20.0, ""), (21.0, ""))
    observe_minutes(aggregate, (60, 1.0, 1.0), (61, 1.0, 1.0))

    assert totals == [0, 1]
    assert bins(aggregate, MEANS) == [0, 0, 0, 0]
