"""Amounts keep both ends, their currency and their doubt, to the last digit."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.catalogue.money import Money

amounts = st.decimals(min_value=-(10**9), max_value=10**9, places=4)
money = st.lists(amounts, min_size=2, max_size=2).map(
    lambda ends: Money(min(ends), max(ends), "CNY")
)
factors = st.fractions(min_value=0, max_value=10**6)


def yuan(low: str, high: str | None = None, *, is_estimate: bool = False) -> Money:
    return Money(Decimal(low), Decimal(high or low), "CNY", is_estimate)


def test_one_number_is_no_range() -> None:
    price = Money.exactly(900, "CNY")

    assert price == yuan("900")
    assert not price.is_range


def test_a_range_keeps_both_ends_and_is_ordered_by_its_middle() -> None:
    price = yuan("80000", "120000")

    assert price.is_range
    assert price.middle == 100_000


def test_a_range_upside_down_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="range is upside down: 120000 to 80000"):
        yuan("120000", "80000")


def test_the_lowest_difference_is_the_lowest_less_the_highest() -> None:
    assert yuan("100", "150") - yuan("20", "30") == yuan("70", "130")


@pytest.mark.parametrize("other", [yuan("5", is_estimate=True), yuan("5")], ids=str)
def test_an_estimate_stays_with_every_sum(other: Money) -> None:
    estimate = yuan("1", "2", is_estimate=True)

    assert (estimate + other).is_estimate
    assert (other - estimate).is_estimate
    assert estimate.times(12).is_estimate
    assert estimate.rounded().is_estimate


def test_listed_prices_stay_listed() -> None:
    assert not (yuan("1") + yuan("2")).is_estimate


@pytest.mark.parametrize("sign", ["+", "-"])
def test_currencies_never_mix(sign: str) -> None:
    dollars = Money.exactly(1, "USD")
    act = {"+": yuan("1").__add__, "-": yuan("1").__sub__}[sign]

    with pytest.raises(ValueError, match="cannot mix CNY and USD"):
        act(dollars)


def test_a_factor_multiplies_before_it_divides() -> None:
    # 2000000 / 36 first would already be rounded, and 36 of its parts would miss the whole.
    assert yuan("2000000").times(Fraction(36, 36)) == yuan("2000000")
    assert yuan("1").times(Fraction(2, 3)).low == Decimal(2) / Decimal(3)


@pytest.mark.parametrize("factor", [Fraction(-1, 3), Decimal("-0.2"), -1], ids=str)
def test_a_negative_factor_is_refused_with_its_value(factor: Fraction | Decimal | int) -> None:
    with pytest.raises(ValueError, match=f"factor must not be negative, got {factor}"):
        yuan("1").times(factor)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        pytest.param("55555.555556", "55555.56", id="up"),
        pytest.param("0.005", "0.00", id="half to even, down"),
        pytest.param("0.015", "0.02", id="half to even, up"),
        pytest.param("900", "900.00", id="whole"),
    ],
)
def test_amounts_round_to_cents_for_showing(amount: str, shown: str) -> None:
    assert str(yuan(amount).rounded().low) == shown


@settings(deadline=None)
@given(money, money, factors)
def test_low_stays_at_or_below_high(first: Money, second: Money, factor: Fraction) -> None:
    for amount in (first + second, first - second, first.times(factor), first.rounded()):
        assert amount.low <= amount.high


@settings(deadline=None)
@given(money, money)
def test_adding_takes_nothing_from_either_end(first: Money, second: Money) -> None:
    total = first + second

    assert total == second + first
    assert total.low - second.low == first.low
    assert total.high - second.high == first.high


@settings(deadline=None)
@given(money)
def test_an_amount_less_itself_encloses_zero(amount: Money) -> None:
    difference = amount - amount

    assert difference.low <= 0 <= difference.high
    assert replace(amount, low=amount.high) - replace(amount, low=amount.high) == yuan("0")
