"""One way to serve a workload: whether it fits, what it costs, what must be checked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from rightslice.advice.needs import ComputeFit
from rightslice.catalogue.money import MONTHS_PER_YEAR, Money
from rightslice.catalogue.price_book import price_at_term


class Kind(StrEnum):
    """What one would do."""

    GIVE_BACK = "give_back"
    RENT_SLICE = "rent_slice"
    MIG = "mig"
    WHOLE_CARD = "whole_card"
    STAY = "stay"


class Cash(StrEnum):
    """When a saving becomes money."""

    NOW = "now"
    WHEN_SERVER_ENDS = "when_server_ends"
    CAPACITY_ONLY = "capacity_only"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Remark:
    """A stable code, and the sentence for people, with its numbers."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class TermSaving:
    """What one saves at a term, by the month and by the year."""

    term: str
    per_month: Money
    per_year: Money


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate. `refusals` say why it does not fit; `checks` are new risks to look at.

    `price_per_month` is what will be paid, the present card's own price where that stays paid;
    `freed_per_month` is the worth of capacity freed on it. None is unknown, never 0.
    """

    kind: Kind
    name: str
    fits: bool
    refusals: tuple[Remark, ...] = ()
    checks: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    memory_usable_bytes: int | None = None
    memory_spare_bytes: int | None = None
    compute: ComputeFit | None = None
    price_per_month: Money | None = None
    savings: tuple[TermSaving, ...] = ()
    cash: Cash = Cash.NONE
    freed_per_month: Money | None = None
    isolation: str = ""
    steps: tuple[str, ...] = ()
    way_back: str = ""
    break_even_replicas: float | None = None

    @property
    def leads_without_risk(self) -> bool:
        return self.fits and not self.checks

    def saving(self, term: str) -> TermSaving | None:
        return next((saving for saving in self.savings if saving.term == term), None)


def savings_at_terms(
    from_price: Money,
    from_discounts: Mapping[str, Decimal],
    to_price: Money,
    to_discounts: Mapping[str, Decimal],
) -> tuple[TermSaving, ...]:
    """Compare two monthly list prices at every term that both know."""
    savings = []
    for term in from_discounts:
        if term in to_discounts:
            before = price_at_term(from_price, term, from_discounts)
            per_month = before - price_at_term(to_price, term, to_discounts)
            savings.append(TermSaving(term, per_month, per_year(per_month)))
    return tuple(savings)


def per_year(per_month: Money) -> Money:
    """Give twelve months of a saving, which may be below zero."""
    return replace(
        per_month, low=per_month.low * MONTHS_PER_YEAR, high=per_month.high * MONTHS_PER_YEAR
    )
