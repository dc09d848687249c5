"""Prices are kept with the moment since which they count."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.usage import START

from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import PriceBook, load_price_book
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.prices import KIND_CARD, KIND_SLICE, note_prices, prices_at, prices_of

LATER = START + timedelta(days=40)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    opened = Ledger.open()
    yield opened
    opened.close()


@pytest.fixture
def book() -> PriceBook:
    return load_price_book()


def dearer(book: PriceBook) -> PriceBook:
    """Give a book whose first card costs one cent more."""
    first, *others = book.cards
    assert first.price_per_month is not None
    raised = first.price_per_month + Money.exactly(Decimal("0.01"), book.currency)
    return replace(book, cards=(replace(first, price_per_month=raised), *others))


def test_a_book_comes_back_as_it_was_noted(ledger: Ledger, book: PriceBook) -> None:
    assert note_prices(ledger, book, START)

    prices = prices_at(ledger, START)
    assert prices == prices_of(book)
    assert {price.kind for price in prices} == {KIND_CARD, KIND_SLICE}
    assert {price.currency for price in prices} == {book.currency}


def test_a_price_that_is_unknown_stays_unknown(ledger: Ledger, book: PriceBook) -> None:
    unknown = replace(book, cards=(replace(book.cards[0], price_per_month=None),), slices=())

    note_prices(ledger, unknown, START)

    (price,) = prices_at(ledger, START)
    assert (price.low_per_month, price.high_per_month) == (None, None)


def test_the_same_book_again_changes_nothing(ledger: Ledger, book: PriceBook) -> None:
    note_prices(ledger, book, START)

    assert not note_prices(ledger, book, LATER)

    assert ledger.read("count", "SELECT count(DISTINCT since) FROM price") == [(1,)]


def test_what_was_in_force_stays_in_force_for_its_time(ledger: Ledger, book: PriceBook) -> None:
    note_prices(ledger, book, START)

    assert note_prices(ledger, dearer(book), LATER)

    assert prices_at(ledger, LATER - timedelta(seconds=1)) == prices_of(book)
    assert prices_at(ledger, LATER) == prices_of(dearer(book))


def test_a_book_noted_twice_at_one_moment_counts_as_told_last(
    ledger: Ledger, book: PriceBook
) -> None:
    note_prices(ledger, book, START)
    note_prices(ledger, dearer(book), START)

    assert prices_at(ledger, START) == prices_of(dearer(book))


def test_before_the_first_book_no_price_is_known(ledger: Ledger, book: PriceBook) -> None:
    note_prices(ledger, book, START)

    assert prices_at(ledger, START - timedelta(seconds=1)) == []


def test_an_offer_that_is_gone_from_the_book_is_not_in_force(
    ledger: Ledger, book: PriceBook
) -> None:
    note_prices(ledger, book, START)

    note_prices(ledger, replace(book, slices=()), LATER)

    assert {price.kind for price in prices_at(ledger, LATER)} == {KIND_CARD}
