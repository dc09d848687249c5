"""The price book's offers, as the API lists them."""

from dataclasses import dataclass

from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import CardOffer, PriceBook, SliceOffer, price_at_term
from rightslice.report.document import MoneyDocument, money_document


@dataclass(frozen=True, slots=True)
class TierDocument:
    """One offer. `prices` holds the monthly price at each term; empty where it is unknown."""

    name: str
    kind: str
    channel: str
    gpu: str | None
    memory_bytes: int | None
    compute_ratio: float
    mechanism: str | None
    billing: str
    released_with_cards: int
    prices: dict[str, MoneyDocument]


def tier_documents(book: PriceBook) -> list[TierDocument]:
    """List slices, then cards, in the order of the book."""
    return [_slice(offer) for offer in book.slices] + [_card(offer) for offer in book.cards]


def _prices(price: Money | None, offer: SliceOffer | CardOffer) -> dict[str, MoneyDocument]:
    if price is None:
        return {}
    return {
        term: money_document(price_at_term(price, term, offer.discounts))
        for term in offer.discounts
    }


def _slice(offer: SliceOffer) -> TierDocument:
    return TierDocument(
        name=offer.name,
        kind="slice",
        channel="",
        gpu=offer.gpu.name,
        memory_bytes=offer.memory_bytes,
        compute_ratio=float(offer.compute_ratio),
        mechanism=offer.mechanism,
        billing=offer.billing,
        released_with_cards=1,
        prices=_prices(offer.price_per_month, offer),
    )


def _card(offer: CardOffer) -> TierDocument:
    return TierDocument(
        name=offer.name,
        kind="owned_card" if offer.is_owned else "card",
        channel=offer.channel,
        gpu=offer.gpu.name if offer.gpu else None,
        memory_bytes=offer.gpu.memory_bytes if offer.gpu else None,
        compute_ratio=1.0,
        mechanism=None,
        billing="fixed",
        released_with_cards=offer.card_count,
        prices=_prices(offer.price_per_month, offer),
    )
