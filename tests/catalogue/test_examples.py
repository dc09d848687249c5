"""The worked examples of the price pages, to the last digit, from the default price book.

Left out: the cheapest way to serve ten services of 4 GiB each, which needs the fleet plan.
"""

from decimal import Decimal
from fractions import Fraction

import pytest

from rightslice.advice.candidate import per_year, savings_at_terms
from rightslice.catalogue.elastic import (
    break_even_replicas,
    elastic_price_per_month,
    mean_replicas,
)
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import (
    CardOffer,
    SliceOffer,
    load_price_book,
    owned_per_month,
    price_at_term,
)

BOOK = load_price_book()
A100 = "NVIDIA A100-SXM4-40GB"
RTX_3090 = "NVIDIA GeForce RTX 3090"
H100 = "NVIDIA H100 80GB HBM3"
SERVICES = 10


def yuan(low: int | str, high: int | str | None = None) -> Money:
    return Money(Decimal(low), Decimal(low if high is None else high), "CNY")


def card(name: str, channel: str) -> CardOffer:
    offer = BOOK.card_offer(name, channel)
    assert offer is not None
    return offer


def price_of(offer: CardOffer | SliceOffer) -> Money:
    assert offer.price_per_month is not None
    return offer.price_per_month


def server_price(offer: CardOffer, term: str) -> Money:
    """What all cards of a server cost together."""
    return price_at_term(price_of(offer), term, offer.discounts).times(offer.card_count).rounded()


WHOLE = card(A100, "cloud")
TWENTIETH = next(offer for offer in BOOK.slices if offer.name == "A100 1/20")


def test_one_chat_service_saves_1600_a_month_and_19200_a_year() -> None:
    savings = savings_at_terms(
        price_of(WHOLE), WHOLE.discounts, price_of(TWENTIETH), TWENTIETH.discounts
    )

    assert price_of(WHOLE) == yuan(2500)
    assert price_of(TWENTIETH) == yuan(900)
    month = savings[0]
    assert (month.term, month.per_month, month.per_year) == ("month", yuan(1600), yuan(19200))


@pytest.mark.parametrize(
    ("term", "from_per_year", "to_per_year", "saves_per_year"),
    [
        pytest.param("month", 300_000, 108_000, 192_000, id="month terms"),
        pytest.param("year", 240_000, 86_400, 153_600, id="year terms, 20 % off both"),
    ],
)
def test_ten_chat_services(
    term: str, from_per_year: int, to_per_year: int, saves_per_year: int
) -> None:
    before = price_at_term(price_of(WHOLE), term, WHOLE.discounts).times(SERVICES)
    after = price_at_term(price_of(TWENTIETH), term, TWENTIETH.discounts).times(SERVICES)

    assert per_year(before) == yuan(from_per_year)
    assert per_year(after) == yuan(to_per_year)
    assert per_year(before - after) == yuan(saves_per_year)


def test_ten_chat_services_cost_25000_a_month_whole_and_9000_sliced() -> None:
    assert price_of(WHOLE).times(SERVICES) == yuan(25_000)
    assert price_of(TWENTIETH).times(SERVICES) == yuan(9_000)


def test_elastic_slices_cost_from_900_at_night_to_4500_at_the_noon_peak() -> None:
    assert elastic_price_per_month(price_of(TWENTIETH), Fraction(1)) == yuan(900)
    assert elastic_price_per_month(price_of(TWENTIETH), Fraction(5)) == yuan(4500)


def test_five_replicas_for_four_hours_and_one_for_twenty_cost_1500() -> None:
    replicas = mean_replicas([(5, 4), (1, 20)])

    assert replicas == Fraction(5, 3)
    assert elastic_price_per_month(price_of(TWENTIETH), replicas) == yuan(1500)


def test_elastic_breaks_even_at_25_ninths_which_is_a_peak_of_10_h_40_min() -> None:
    peak_hours = 10 + Fraction(40, 60)

    even = break_even_replicas(price_of(WHOLE), price_of(TWENTIETH))

    assert even == Fraction(25, 9)
    assert mean_replicas([(5, peak_hours), (1, 24 - peak_hours)]) == even


@pytest.mark.parametrize(
    ("offer", "month", "year"),
    [
        pytest.param(card(RTX_3090, "server"), yuan(7000), yuan(5600), id="4 x RTX 3090"),
        pytest.param(card(A100, "server"), yuan(11_200), yuan(8_960), id="4 x A100 40GB"),
        pytest.param(
            card(H100, "cloud"),
            yuan(80_000, 120_000),
            yuan(68_000, 102_000),
            id="8 x H100, 15 % off",
        ),
    ],
)
def test_servers_at_month_and_year_terms(offer: CardOffer, month: Money, year: Money) -> None:
    assert server_price(offer, "month") == month
    assert server_price(offer, "year") == year


def test_the_depreciation_of_a_bought_server_is_derived_never_stored_rounded() -> None:
    depreciation = owned_per_month(yuan(2_000_000, 3_000_000), 36, yuan(0))

    assert depreciation.rounded() == yuan("55555.56", "83333.33")


def test_a_bought_server_costs_its_depreciation_and_its_running() -> None:
    bought = card(H100, "owned")

    month = server_price(bought, "month")

    assert (month.low, month.high) == (Decimal("75555.56"), Decimal("113333.33"))
    assert month.is_estimate
    assert server_price(bought, "year") == month


@pytest.mark.parametrize(
    ("channel", "saved_ratio"),
    [
        pytest.param("custom", Decimal("0.375"), id="against 2800"),
        pytest.param("cloud", Decimal("0.30"), id="against 2500"),
    ],
)
def test_a_3090_saves_less_than_the_pages_claim(channel: str, saved_ratio: Decimal) -> None:
    whole = price_of(card(A100, channel))

    assert whole - price_of(card(RTX_3090, "cloud")) == whole.times(saved_ratio)
