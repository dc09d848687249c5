"""The seconds of an hour lie in exactly one place each, whatever the readings were."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import card_hour

from rightslice.ledger.closure import HourSplit, milliseconds, split_hour
from rightslice.ledger.rows import CardHour

HOUR = 3_600_000
WATCHED = card_hour()

any_seconds = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=0, max_value=4000),
    st.sampled_from([0.0, 0.0004, 0.0006, 5e-324, 1e308, -1e308, 1800.0005, 3600.0]),
)
any_hours = st.builds(
    replace,
    st.just(WATCHED),
    owned_seconds=any_seconds,
    observed_seconds=any_seconds,
    allocation_observed_seconds=any_seconds,
    allocated_seconds=any_seconds,
    busy_observed_seconds=any_seconds,
    busy_seconds=any_seconds,
    unrequested_busy_seconds=any_seconds,
)


@pytest.mark.parametrize(
    ("row", "split"),
    [
        pytest.param(
            WATCHED,
            HourSplit(HOUR, 0, HOUR // 2, 900_000, 900_000, 0),
            id="half held, a quarter busy",
        ),
        pytest.param(
            replace(WATCHED, allocation_observed_seconds=0.0, allocated_seconds=0.0),
            HourSplit(HOUR, HOUR, 0, 0, 0, 0),
            id="nothing observed is unknown, not idle",
        ),
        pytest.param(
            replace(WATCHED, allocated_seconds=0.0, busy_seconds=0.0),
            HourSplit(HOUR, 0, HOUR, 0, 0, 0),
            id="held by nobody",
        ),
        pytest.param(
            replace(WATCHED, busy_observed_seconds=0.0, busy_seconds=0.0),
            HourSplit(HOUR, 0, HOUR // 2, 0, 0, HOUR // 2),
            id="held, but busy not observable",
        ),
        pytest.param(
            replace(WATCHED, busy_observed_seconds=1800.0, busy_seconds=100.0),
            HourSplit(HOUR, 0, HOUR // 2, 100_000, 800_000, 900_000),
            id="busy observed half of the time",
        ),
        pytest.param(
            replace(WATCHED, allocated_seconds=600.0),
            HourSplit(HOUR, 0, HOUR - 600_000, 600_000, 0, 0),
            id="busy longer than held",
        ),
        pytest.param(
            replace(WATCHED, unrequested_busy_seconds=700.0),
            HourSplit(HOUR, 0, HOUR // 2, 200_000, 1_600_000, 0),
            id="busy while nobody held it stands apart",
        ),
        pytest.param(
            replace(WATCHED, owned_seconds=600.0),
            HourSplit(600_000, 0, 0, 600_000, 0, 0),
            id="observed longer than owned",
        ),
        pytest.param(
            replace(WATCHED, allocation_observed_seconds=3600.5),
            HourSplit(HOUR, 0, HOUR // 2, 900_000, 899_750, 250),
            id="a clock's jitter",
        ),
        pytest.param(
            replace(WATCHED, owned_seconds=0.0), HourSplit(0, 0, 0, 0, 0, 0), id="not owned"
        ),
        pytest.param(
            replace(WATCHED, allocated_seconds=-5.0, busy_observed_seconds=-5.0, busy_seconds=-5.0),
            HourSplit(HOUR, 0, HOUR, 0, 0, 0),
            id="below zero counts as nothing",
        ),
    ],
)
def test_an_hour_is_split(row: CardHour, split: HourSplit) -> None:
    assert split_hour(row) == split


@settings(deadline=None, max_examples=300)
@given(any_hours)
def test_the_parts_sum_to_the_hour_and_none_is_negative(row: CardHour) -> None:
    split = split_hour(row)

    parts = (split.unknown, split.unallocated, split.busy, split.idle, split.unmeasured)
    assert sum(parts) == split.owned
    assert min(parts) >= 0
    assert split.owned <= HOUR


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(replace(WATCHED, allocated_seconds=math.nan), id="allocated"),
        pytest.param(replace(WATCHED, busy_seconds=math.nan), id="busy"),
        pytest.param(replace(WATCHED, owned_seconds=math.nan), id="owned"),
    ],
)
def test_a_reading_that_is_no_number_is_refused_not_counted_as_zero(row: CardHour) -> None:
    with pytest.raises(ValueError, match="NaN"):
        split_hour(row)


@pytest.mark.parametrize(
    ("seconds", "whole"), [(0.0004, 0), (0.0006, 1), (1800.0, 1_800_000), (-0.5, -500)]
)
def test_seconds_round_to_whole_milliseconds(seconds: float, whole: int) -> None:
    assert milliseconds(seconds) == whole
