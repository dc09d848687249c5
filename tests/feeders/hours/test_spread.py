"""The hours between two readings."""

from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.hours.spread import hour_of, hour_start, spread


def test_a_reading_on_the_hour_belongs_to_the_hour_that_ends() -> None:
    assert hour_of(7200.0) == 1
    assert hour_of(7200.1) == 2


def test_an_hour_starts_where_it_says() -> None:
    assert hour_start(1).isoformat() == "1970-01-01T01:00:00+00:00"


def test_an_interval_that_straddles_an_edge_is_split_by_time() -> None:
    assert list(spread(3570.0, 3630.0, 6.0)) == [(0, 3.0), (1, 3.0)]


def test_an_interval_within_an_hour_stays_whole() -> None:
    assert list(spread(10.0, 20.0, 5.0)) == [(0, 5.0)]


def test_what_has_no_length_belongs_to_the_hour_of_its_end() -> None:
    assert list(spread(50.0, 50.0, 1.0)) == [(0, 1.0)]


@given(
    start=st.floats(0, 1e6),
    length=st.floats(0, 1e5),
    amount=st.floats(0, 1e9),
)
def test_the_parts_sum_to_the_amount_and_lie_within_the_interval(
    start: float, length: float, amount: float
) -> None:
    parts = list(spread(start, start + length, amount))

    hours = [hour for hour, _ in parts]
    assert abs(sum(part for _, part in parts) - amount) <= 1e-6 * max(amount, 1.0)
    assert hours == sorted(set(hours))
    assert all(part >= -1e-6 * max(amount, 1.0) for _, part in parts)
    # What has no length, exactly on an edge, belongs to the hour that ends there.
    assert hours[0] >= int(start // 3600) - (length == 0)
