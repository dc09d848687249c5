"""Which prices were in force when: a price book is kept with the moment since which it counts.

The price of a month gone by stays what it was, whatever the book says today.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import PriceBook
from rightslice.ledger.columns import naive
from rightslice.ledger.ledger import Ledger

KIND_CARD, KIND_SLICE = "card", "slice"
# What the file keeps of an amount: a share of a server's price need not be a whole cent.
STEP = Decimal("0.000001")

_AT = """
    SELECT kind, channel, name, nvml_name_regex, currency, low_per_month, high_per_month,
        is_estimate
    FROM price WHERE since = (SELECT max(since) FROM price WHERE since <= ?) ORDER BY ALL
"""


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """What a card or a slice cost a month; amounts are None where the book did not know.

    `nvml_name_regex` says which cards are meant, and is empty for slices, as `channel` is.
    """

    kind: str
    channel: str
    name: str
    nvml_name_regex: str
    currency: str
    low_per_month: Decimal | None
    high_per_month: Decimal | None
    is_estimate: bool


def prices_of(book: PriceBook) -> list[Price]:
    """Give the prices of a book, to the millionth."""
    cards = [
        _price(KIND_CARD, one.channel, one.name, one.nvml_name_regex, book, one.price_per_month)
        for one in book.cards
    ]
    slices = [
        _price(KIND_SLICE, "", one.name, "", book, one.price_per_month) for one in book.slices
    ]
    return sorted([*cards, *slices], key=lambda price: (price.kind, price.channel, price.name))


def _price(
    kind: str, channel: str, name: str, regex: str, book: PriceBook, amount: Money | None
) -> Price:
    low = amount.low.quantize(STEP) if amount else None
    high = amount.high.quantize(STEP) if amount else None
    is_estimate = amount.is_estimate if amount else False
    return Price(kind, channel, name, regex, book.currency, low, high, is_estimate)


def prices_at(ledger: Ledger, moment: datetime) -> list[Price]:
    """Give the prices that were in force at a moment; none before the first book was noted."""
    rows = ledger.read("read prices", _AT, [naive(moment)])
    prices = [Price(*row) for row in rows]
    return sorted(prices, key=lambda price: (price.kind, price.channel, price.name))


def note_prices(ledger: Ledger, book: PriceBook, since: datetime) -> bool:
    """Keep a book as in force from a moment on; tells whether that changed anything."""
    prices = prices_of(book)
    if prices == prices_at(ledger, since):
        return False
    with ledger.transaction("note prices") as run:
        run("DELETE FROM price WHERE since = ?", [naive(since)])
        for one in prices:
            run(
                "INSERT INTO price VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    naive(since),
                    one.kind,
                    one.channel,
                    one.name,
                    one.nvml_name_regex,
                    one.currency,
                    one.low_per_month,
                    one.high_per_month,
                    one.is_estimate,
                ],
            )
    return True
