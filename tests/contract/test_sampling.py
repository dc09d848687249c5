"""Means over wall-clock spans."""

from rightslice.contract.sampling import FinishedSpan, SpanMean


def fed(*readings: tuple[float, float, float]) -> list[FinishedSpan | None]:
    mean = SpanMean(60.0)
    return [mean.add(*reading) for reading in readings]


def test_a_span_is_finished_by_the_first_reading_of_another() -> None:
    given = fed((30.0, 0.2, 30.0), (60.0, 0.4, 30.0), (90.0, 0.9, 30.0))

    assert given[:2] == [None, None]
    assert given[2] is not None
    assert (given[2].end_seconds, round(given[2].mean, 9)) == (60.0, 0.3)


def test_a_span_covered_for_three_quarters_counts_and_one_for_less_does_not() -> None:
    enough = fed((50.0, 0.5, 45.0), (90.0, 0.0, 30.0))
    too_little = fed((50.0, 0.5, 44.0), (90.0, 0.0, 30.0))

    assert enough[1] == FinishedSpan(60.0, 0.5)
    assert too_little[1] is None


def test_readings_weigh_by_the_time_they_cover() -> None:
    given = fed((45.0, 0.0, 45.0), (60.0, 1.0, 15.0), (120.0, 0.0, 60.0))

    assert given[2] == FinishedSpan(60.0, 0.25)


def test_nothing_is_finished_before_anything_was_read() -> None:
    assert fed((1000.0, 0.5, 10.0)) == [None]
