"""A slice billed for the replicas that run costs its mean number of replicas."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.catalogue.elastic import (
    break_even_replicas,
    elastic_price_per_month,
    mean_replicas,
)
from rightslice.catalogue.money import Money

SLICE = Money.exactly(900, "CNY")
RANGE = Money(Decimal(2000), Decimal(3000), "CNY")


@pytest.mark.parametrize(
    ("schedule", "mean"),
    [
        pytest.param([(1, 24)], Fraction(1), id="one all day"),
        pytest.param([(0, 24)], Fraction(0), id="none"),
        pytest.param([(5, 4), (1, 20)], Fraction(5, 3), id="noon peak"),
        pytest.param([(2, Fraction(1, 3)), (0, Fraction(71, 3))], Fraction(1, 36), id="minutes"),
    ],
)
def test_the_mean_weighs_replicas_by_their_hours(
    schedule: list[tuple[int, Fraction | int]], mean: Fraction
) -> None:
    assert mean_replicas(schedule) == mean


@pytest.mark.parametrize(
    ("schedule", "hours"),
    [
        pytest.param([(1, 23)], "23", id="an hour short"),
        pytest.param([(1, 20), (2, 5)], "25", id="an hour over"),
        pytest.param([], "0", id="empty"),
    ],
)
def test_a_plan_that_does_not_fill_the_day_is_refused(
    schedule: list[tuple[int, Fraction | int]], hours: str
) -> None:
    with pytest.raises(ValueError, match=f"must fill 24 hours, got {hours}"):
        mean_replicas(schedule)


def test_zero_replicas_cost_nothing() -> None:
    assert elastic_price_per_month(SLICE, Fraction(0)) == Money.exactly(0, "CNY")


@pytest.mark.parametrize(
    ("whole", "replica"),
    [
        pytest.param(RANGE, SLICE, id="range of the card"),
        pytest.param(SLICE, RANGE, id="range of the slice"),
    ],
)
def test_a_range_has_no_one_break_even(whole: Money, replica: Money) -> None:
    assert break_even_replicas(whole, replica) is None


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_at_the_break_even_slices_cost_the_whole_card(whole: int, replica: int) -> None:
    card, slice_price = Money.exactly(whole, "CNY"), Money.exactly(replica, "CNY")

    even = break_even_replicas(card, slice_price)

    assert even is not None
    assert elastic_price_per_month(slice_price, even) == card
