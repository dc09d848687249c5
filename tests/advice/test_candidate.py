"""A candidate's saving at each term, and whether it may lead."""

from decimal import Decimal

import pytest

from rightslice.advice.candidate import (
    Candidate,
    Kind,
    Remark,
    TermSaving,
    per_year,
    savings_at_terms,
)
from rightslice.catalogue.money import Money

MONTH = {"month": Decimal(0)}
YEAR = {**MONTH, "year": Decimal("0.20")}
CHECK = Remark("older_architecture", "check: older architecture, no BF16")


def yuan(low: int, high: int | None = None) -> Money:
    return Money(Decimal(low), Decimal(low if high is None else high), "CNY")


def test_prices_are_compared_at_every_term() -> None:
    assert savings_at_terms(yuan(2500), YEAR, yuan(900), YEAR) == (
        TermSaving("month", yuan(1600), yuan(19_200)),
        TermSaving("year", yuan(1280), yuan(15_360)),
    )


def test_a_term_that_one_side_does_not_offer_is_left_out() -> None:
    assert [saving.term for saving in savings_at_terms(yuan(2500), YEAR, yuan(900), MONTH)] == [
        "month"
    ]


def test_each_side_has_its_own_discount() -> None:
    bought = {"month": Decimal(0), "year": Decimal(0)}

    savings = savings_at_terms(yuan(2500), bought, yuan(900), YEAR)

    assert savings[1].per_month == yuan(2500 - 720)


def test_the_saving_of_a_range_keeps_both_ends() -> None:
    savings = savings_at_terms(yuan(10_000, 15_000), MONTH, yuan(900, 1000), MONTH)

    assert savings[0].per_month == yuan(9000, 14_100)


def test_a_loss_is_a_saving_below_zero() -> None:
    assert per_year(yuan(-100, 50)) == yuan(-1200, 600)


@pytest.mark.parametrize(
    ("fits", "checks", "leads"),
    [
        pytest.param(True, (), True, id="fits"),
        pytest.param(True, (CHECK,), False, id="fits with a new risk"),
        pytest.param(False, (), False, id="does not fit"),
    ],
)
def test_only_what_fits_without_a_new_risk_may_lead(
    fits: bool, checks: tuple[Remark, ...], leads: bool
) -> None:
    candidate = Candidate(Kind.WHOLE_CARD, "T4 whole", fits, checks=checks)

    assert candidate.leads_without_risk is leads


def test_a_saving_is_found_by_its_term() -> None:
    savings = savings_at_terms(yuan(2500), YEAR, yuan(900), YEAR)
    candidate = Candidate(Kind.RENT_SLICE, "A100 1/20", fits=True, savings=savings)

    assert candidate.saving("year") == savings[1]
    assert candidate.saving("week") is None
