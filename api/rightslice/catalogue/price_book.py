"""The price book: what slices, cards and servers cost per month, at each term."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from importlib.resources import as_file, files
from pathlib import Path

from rightslice.catalogue.located_yaml import DocumentError, Section, read_document
from rightslice.catalogue.money import Money
from rightslice.facts.cards import CardFacts, all_cards, find_card
from rightslice.facts.data import BYTES_PER_GIB
from rightslice.facts.vgpu import VgpuType, find_vgpu_type

TERM_MONTH = "month"
EVIDENCE = ("listed", "estimate")
CURRENCY = re.compile(r"[A-Z]{3}")
# Below this a "monthly" price is an hourly one, above it a fleet's: 730 times too low or a whole
# contract is the commonest mistake in price books of other tools.
SANE_PRICE_PER_MONTH = (Decimal(20), Decimal(100_000_000))


class Mechanism(StrEnum):
    """How a rentable slice is cut."""

    VGPU = "vgpu"
    MIG = "mig"
    TIME_SLICE = "time_slice"


class Billing(StrEnum):
    """What is paid for: a fixed month, or the replicas that run."""

    FIXED = "fixed"
    USAGE = "usage"


@dataclass(frozen=True, slots=True)
class SliceOffer:
    """A slice of somebody else's card. None where the page does not tell: never a guess."""

    name: str
    gpu: CardFacts
    mechanism: Mechanism
    vgpu_type: VgpuType | None
    memory_bytes: int | None
    compute_ratio: Fraction
    price_per_month: Money | None
    billing: Billing
    discounts: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class CardOffer:
    """A card, alone or as its share of a server.

    `card_count` is how many cards stop being paid together; 1 for a card rented alone. `gpu` is
    None for a card whose hardware facts are not known.
    """

    name: str
    nvml_name_regex: str
    channel: str
    gpu: CardFacts | None
    price_per_month: Money | None
    card_count: int
    is_owned: bool
    discounts: Mapping[str, Decimal]

    def matches(self, name: str) -> bool:
        return re.fullmatch(self.nvml_name_regex, name) is not None


@dataclass(frozen=True, slots=True)
class PriceBook:
    """All offers of one book. `terms` lists the discount of each term, month first."""

    source: str
    currency: str
    default_channel: str
    terms: Mapping[str, Decimal]
    slices: tuple[SliceOffer, ...]
    cards: tuple[CardOffer, ...]

    def card_offer(self, name: str, channel: str | None = None) -> CardOffer | None:
        """Find what a card costs: in the asked channel, else the default one, else its only one.

        Returns None for a card that the book does not know, or knows in several channels none of
        which is meant.
        """
        matching = [offer for offer in self.cards if offer.matches(name)]
        wanted = channel or self.default_channel
        preferred = [offer for offer in matching if offer.channel == wanted]
        if preferred or channel or len(matching) != 1:
            return next(iter(preferred), None)
        return matching[0]


def price_at_term(price_per_month: Money, term: str, discounts: Mapping[str, Decimal]) -> Money:
    """Give the monthly price under a term: the list price less the term's discount."""
    return price_per_month.times(1 - discounts[term])


def load_price_book(file: Path | None = None) -> PriceBook:
    """Load a price book, or the built-in example. Raises DocumentError."""
    if file is not None:
        return _price_book(read_document(file))
    with as_file(files("rightslice.catalogue").joinpath("prices.yml")) as builtin:
        return _price_book(read_document(builtin))


def _price_book(top: Section) -> PriceBook:
    version = top.text("version")
    if version != "1":
        raise top.error("version", f"must be 1, got {version!r}; a newer rightslice may read it")
    currency = top.text("currency")
    if not CURRENCY.fullmatch(currency):
        raise top.error("currency", f"must be an ISO code like CNY or USD, got {currency!r}")
    default_channel = top.text("default_channel", "cloud")
    terms = _terms(top, {TERM_MONTH: Decimal(0)})
    slices = tuple(_slice(row, currency, terms) for row in top.sections("tiers"))
    cards = [_card(row, currency, default_channel, terms) for row in top.sections("cards")]
    cards += [_server(row, currency, default_channel, terms) for row in top.sections("servers")]
    cards += [_owned(row, currency, default_channel, terms) for row in top.sections("owned")]
    top.finish()
    if not cards:
        raise top.error("cards", "is empty: without the price of a card there is no saving")
    if top.has("default_channel") and default_channel not in {one.channel for one in cards}:
        known = ", ".join(sorted({one.channel for one in cards}))
        raise top.error("default_channel", f"is {default_channel!r}; the cards have {known}")
    _refuse_twins(top, cards)
    return PriceBook(top.file, currency, default_channel, terms, slices, tuple(cards))


def _refuse_twins(top: Section, cards: list[CardOffer]) -> None:
    seen: set[tuple[str, str]] = set()
    for offer in cards:
        key = (offer.nvml_name_regex, offer.channel)
        if key in seen:
            raise top.error(
                "cards", f"has {offer.name!r} twice in channel {offer.channel!r}; keep one"
            )
        seen.add(key)
    for card in all_cards():
        names: dict[str, str] = {}
        for offer in cards:
            if not offer.matches(card.name):
                continue
            other = names.setdefault(offer.channel, offer.name)
            if other != offer.name:
                raise top.error(
                    "cards",
                    f"has both {other!r} and {offer.name!r} for {card.name} in channel "
                    f"{offer.channel!r}; let one nvml_name_regex match it only",
                )


def _terms(row: Section, inherited: Mapping[str, Decimal]) -> dict[str, Decimal]:
    discounts = dict(inherited)
    section = row.section("terms")
    for term in section.keys() if section else ():
        entry = section.section(term) if section else None
        if entry is None:
            raise row.error("terms", f"{term} must be a mapping with discount_ratio")
        discounts[term] = entry.ratio("discount_ratio")
        entry.finish()
    return discounts


def _price(row: Section, key: str, currency: str, card_count: int = 1) -> Money | None:
    """Read a monthly price of `card_count` cards together; null is unknown."""
    is_estimate = row.one_of("evidence", EVIDENCE, "listed") == "estimate"
    if not row.has(key):
        return None
    low, high = row.numbers(key)
    if low <= 0:
        raise row.error(key, f"must be above 0, got {low}; write null where it is unknown")
    least, most = SANE_PRICE_PER_MONTH[0] * card_count, SANE_PRICE_PER_MONTH[1]
    if low < least or high > most:
        raise row.error(
            key,
            f"is {low}: a month's price below {least} or above {most} {currency} looks like "
            "an hourly price or a whole contract; give the price of one month",
        )
    return Money(low, high, currency, is_estimate)


def _facts_of(row: Section, key: str) -> CardFacts:
    name = row.text(key)
    card = find_card(name)
    if card is None:
        raise row.error(
            key, f"is {name!r}, which is no card in the hardware facts; write it as NVML prints it"
        )
    return card


def _slice(row: Section, currency: str, terms: Mapping[str, Decimal]) -> SliceOffer:
    name = row.text("name")
    mechanism = Mechanism(row.one_of("mechanism", tuple(Mechanism), Mechanism.VGPU))
    vgpu_type = None
    if row.has("vgpu_type"):
        type_name = row.text("vgpu_type")
        vgpu_type = find_vgpu_type(type_name)
        if vgpu_type is None:
            raise row.error(
                "vgpu_type",
                f"is {type_name!r}, which is no vGPU type in the hardware facts; write it without "
                "the vendor's prefix, such as A100D-4C",
            )
    memory_gib = row.number("memory_gib") if row.has("memory_gib") else None
    if memory_gib is not None and memory_gib <= 0:
        raise row.error("memory_gib", f"must be above 0, got {memory_gib}")
    compute_ratio = row.ratio("compute_ratio")
    if compute_ratio == 0:
        raise row.error("compute_ratio", "must be above 0")
    offer = SliceOffer(
        name=name,
        gpu=_facts_of(row, "gpu"),
        mechanism=mechanism,
        vgpu_type=vgpu_type,
        memory_bytes=None if memory_gib is None else int(memory_gib * BYTES_PER_GIB),
        compute_ratio=Fraction(compute_ratio),
        price_per_month=_price(row, "price_per_month", currency),
        billing=Billing(row.one_of("billing", tuple(Billing), Billing.FIXED)),
        discounts=_terms(row, terms),
    )
    row.finish()
    return offer


def _card(row: Section, currency: str, channel: str, terms: Mapping[str, Decimal]) -> CardOffer:
    offer = _card_offer(row, channel, terms, _price(row, "price_per_month", currency), 1)
    row.finish()
    return offer


def _server(row: Section, currency: str, channel: str, terms: Mapping[str, Decimal]) -> CardOffer:
    card_count = row.count("card_count")
    price = _price(row, "price_per_month", currency, card_count)
    share = price.times(Fraction(1, card_count)) if price else None
    offer = _card_offer(row, channel, terms, share, card_count)
    row.finish()
    return offer


def _owned(row: Section, currency: str, channel: str, terms: Mapping[str, Decimal]) -> CardOffer:
    card_count = row.count("card_count")
    is_estimate = row.one_of("evidence", EVIDENCE, "listed") == "estimate"
    bought, running = row.numbers("price"), row.numbers("running_cost_per_month")
    if bought[0] <= 0:
        raise row.error("price", f"must be above 0, got {bought[0]}; give what was paid")
    if running[0] < 0:
        raise row.error("running_cost_per_month", f"must not be below 0, got {running[0]}")
    price = owned_per_month(
        Money(*bought, currency, is_estimate),
        row.count("depreciation_months"),
        Money(*running, currency),
    )
    # What is bought has no rental terms: the month is what it costs at any of them.
    no_discount = dict.fromkeys(terms, Decimal(0))
    share = price.times(Fraction(1, card_count))
    offer = _card_offer(row, channel, no_discount, share, card_count, is_owned=True)
    row.finish()
    return offer


def _card_offer(
    row: Section,
    channel: str,
    terms: Mapping[str, Decimal],
    price: Money | None,
    card_count: int,
    *,
    is_owned: bool = False,
) -> CardOffer:
    regex = row.pattern("nvml_name_regex")
    return CardOffer(
        name=row.text("name"),
        nvml_name_regex=regex,
        channel=row.text("channel", channel),
        gpu=_facts_matched(regex),
        price_per_month=price,
        card_count=card_count,
        is_owned=is_owned,
        discounts=_terms(row, terms),
    )


def _facts_matched(regex: str) -> CardFacts | None:
    """Give the facts of the cards that a regex matches, where they are of one size."""
    matched = [card for card in all_cards() if re.fullmatch(regex, card.name)]
    sizes = {card.memory_bytes for card in matched}
    return matched[0] if len(sizes) == 1 else None


def owned_per_month(price: Money, depreciation_months: int, running_cost: Money) -> Money:
    """Spread a purchase over its months and add what running it costs each month."""
    return price.times(Fraction(1, depreciation_months)) + running_cost


__all__ = [
    "Billing",
    "CardOffer",
    "DocumentError",
    "Mechanism",
    "PriceBook",
    "SliceOffer",
    "load_price_book",
    "owned_per_month",
    "price_at_term",
]
