"""A price book is read as written, or refused with file, line, key and remedy."""

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import (
    Billing,
    Mechanism,
    PriceBook,
    load_price_book,
    owned_per_month,
    price_at_term,
)

GIB = 1024**3
BUILT_IN = files("rightslice.catalogue").joinpath("prices.yml").read_bytes()
HEAD = "version: 1\ncurrency: CNY\n"
CARD = "{name: T4, nvml_name_regex: Tesla T4, price_per_month: 850}"
CARDS = f"cards:\n  - {CARD}\n"
SLICE: Mapping[str, str] = {
    "name": "A16 1/16",
    "gpu": "NVIDIA A16",
    "memory_gib": "1",
    "compute_ratio": "0.0625",
    "price_per_month": "210",
}
SERVER: Mapping[str, str] = {
    "name": "8 x H100",
    "nvml_name_regex": "NVIDIA H100 80GB HBM3",
    "card_count": "8",
    "price_per_month": "80000",
}
OWNED: Mapping[str, str] = {
    "name": "8 x H100 bought",
    "nvml_name_regex": "NVIDIA H100 80GB HBM3",
    "channel": "owned",
    "card_count": "8",
    "price": "[2000000, 3000000]",
    "depreciation_months": "36",
    "running_cost_per_month": "20000",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prices") / "prices.yml"


def book(file: Path, text: str) -> PriceBook:
    file.write_text(text, encoding="utf-8")
    return load_price_book(file)


def complaint_about(file: Path) -> str:
    """Read a book; give the complaint, empty if there is none."""
    try:
        load_price_book(file)
    except DocumentError as refusal:
        return str(refusal)
    return ""


def row(base: Mapping[str, str], **changed: str | None) -> str:
    """Write a row on one line, changed, or without the keys set to None."""
    keys = {**base, **changed}
    return f"{{{', '.join(f'{key}: {value}' for key, value in keys.items() if value is not None)}}}"


def with_slice(**changed: str | None) -> str:
    return f"{HEAD}{CARDS}tiers:\n  - {row(SLICE, **changed)}\n"


def with_server(**changed: str | None) -> str:
    return f"{HEAD}{CARDS}servers:\n  - {row(SERVER, **changed)}\n"


def with_owned(**changed: str | None) -> str:
    return f"{HEAD}{CARDS}owned:\n  - {row(OWNED, **changed)}\n"


def with_card_price(price: str) -> str:
    return HEAD + CARDS.replace("850", price)


def test_the_built_in_book_knows_its_cards_slices_and_terms() -> None:
    built_in = load_price_book()

    assert built_in.currency == "CNY"
    assert list(built_in.terms) == ["month", "quarter", "year"]
    assert [offer.name for offer in built_in.slices] == ["A100 1/20", "A16 1/16", "A100 1/10"]
    assert [offer.name for offer in built_in.cards if offer.gpu is None] == []


def test_a_slice_carries_its_size_share_type_and_price() -> None:
    offer = load_price_book().slices[0]

    assert offer.memory_bytes == 4 * GIB
    assert offer.compute_ratio == Fraction(1, 20)
    assert offer.mechanism is Mechanism.VGPU
    assert offer.vgpu_type is not None
    assert offer.vgpu_type.name == "A100D-4C"
    assert offer.billing is Billing.USAGE
    assert offer.price_per_month == Money.exactly(900, "CNY")


def test_what_the_page_does_not_tell_is_unknown_never_zero() -> None:
    offer = load_price_book().slices[2]

    assert offer.name == "A100 1/10"
    assert offer.memory_bytes is None
    assert offer.price_per_month is None


@pytest.mark.parametrize(
    ("price", "money"),
    [
        pytest.param("null", None, id="null"),
        pytest.param("~", None, id="tilde"),
        pytest.param("850", Money.exactly(850, "CNY"), id="number"),
        pytest.param("850.50", Money.exactly(Decimal("850.50"), "CNY"), id="cents"),
        pytest.param("[800, 900]", Money(Decimal(800), Decimal(900), "CNY"), id="range"),
        pytest.param(
            "850, evidence: estimate", Money(Decimal(850), Decimal(850), "CNY", True), id="estimate"
        ),
    ],
)
def test_a_price_is_unknown_a_number_or_a_range(
    file: Path, price: str, money: Money | None
) -> None:
    assert book(file, with_card_price(price)).cards[0].price_per_month == money


@pytest.mark.parametrize("name", ["T4", "Tesla T4", "NVIDIA T4"])
def test_a_card_is_found_by_the_name_that_nvml_prints(name: str) -> None:
    offer = load_price_book().card_offer(name)

    assert offer is not None
    assert offer.name == "T4"


@pytest.mark.parametrize("name", ["T400", "xT4", "", "NVIDIA L4"])
def test_a_card_that_the_book_does_not_know_has_no_offer(name: str) -> None:
    assert load_price_book().card_offer(name) is None


@pytest.mark.parametrize(
    ("name", "channel", "price"),
    [
        pytest.param("NVIDIA A100-SXM4-40GB", None, 2500, id="the default channel"),
        pytest.param("NVIDIA A100-SXM4-40GB", "custom", 2800, id="the asked channel"),
        pytest.param("NVIDIA A100-SXM4-40GB", "server", 2800, id="a share of a server"),
    ],
)
def test_a_card_costs_what_its_channel_asks(name: str, channel: str | None, price: int) -> None:
    offer = load_price_book().card_offer(name, channel)

    assert offer is not None
    assert offer.price_per_month == Money.exactly(price, "CNY")


def test_a_card_sold_in_another_channel_only_is_found_unless_one_was_asked(file: Path) -> None:
    only_server = book(file, HEAD + f"servers:\n  - {row(SERVER, channel='server')}\n")

    assert only_server.card_offer("NVIDIA H100 80GB HBM3") is not None
    assert only_server.card_offer("NVIDIA H100 80GB HBM3", "cloud") is None


def test_a_card_of_a_server_costs_its_share_and_ends_with_the_others(file: Path) -> None:
    offer = book(file, with_server(price_per_month="[80000, 120000]")).cards[1]

    assert offer.card_count == 8
    assert offer.price_per_month == Money(Decimal(10_000), Decimal(15_000), "CNY")
    assert not offer.is_owned


def test_the_share_of_a_server_without_a_price_is_unknown(file: Path) -> None:
    assert book(file, with_server(price_per_month="null")).cards[1].price_per_month is None


def test_a_bought_server_is_owned_and_costs_the_same_at_every_term(file: Path) -> None:
    owned = book(
        file, HEAD + f"terms: {{year: {{discount_ratio: 0.20}}}}\n{with_owned()[len(HEAD) :]}"
    )

    offer = owned.cards[1]

    assert offer.is_owned
    assert offer.discounts == {"month": 0, "year": 0}


def test_a_running_cost_of_zero_is_a_cost(file: Path) -> None:
    offer = book(file, with_owned(running_cost_per_month="0", price="2880000")).cards[1]

    assert offer.price_per_month == Money.exactly(10_000, "CNY")


def test_owned_money_is_an_estimate_if_one_part_is() -> None:
    bought = Money(Decimal(36), Decimal(36), "CNY", is_estimate=True)

    assert owned_per_month(bought, 36, Money.exactly(1, "CNY")) == Money(
        Decimal(2), Decimal(2), "CNY", is_estimate=True
    )


def test_an_offer_may_have_terms_of_its_own(file: Path) -> None:
    terms = "terms: {year: {discount_ratio: 0.20}}\n"
    text = HEAD + terms + with_server(terms="{year: {discount_ratio: 0.15}}")[len(HEAD) :]

    offers = book(file, text).cards

    assert [offer.discounts["year"] for offer in offers] == [Decimal("0.20"), Decimal("0.15")]


def test_a_term_takes_its_discount_off_both_ends() -> None:
    price = Money(Decimal(80_000), Decimal(120_000), "CNY")

    assert price_at_term(price, "year", {"year": Decimal("0.15")}) == Money(
        Decimal(68_000), Decimal(102_000), "CNY"
    )


def test_a_book_may_price_in_any_currency(file: Path) -> None:
    offer = book(file, f"version: 1\ncurrency: USD\n{CARDS}").cards[0]

    assert offer.price_per_month == Money.exactly(850, "USD")


def test_the_first_card_whose_facts_match_lends_its_hardware(file: Path) -> None:
    text = HEAD + "cards: [{name: X, nvml_name_regex: Tesla T9, price_per_month: 850}]\n"

    assert book(file, HEAD + CARDS).cards[0].gpu is not None
    assert book(file, text).cards[0].gpu is None


HOURLY = "looks like an hourly price or a whole contract; give the price of one month"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(CARDS, "line 1: version is missing; add it", id="no version"),
        pytest.param(
            f"version: 2\ncurrency: CNY\n{CARDS}",
            "line 1: version must be 1, got '2'; a newer rightslice may read it",
            id="version 2",
        ),
        pytest.param(f"version: 1\n{CARDS}", "line 1: currency is missing; add it", id="currency"),
        pytest.param(
            f"version: 1\ncurrency: yuan\n{CARDS}",
            "line 2: currency must be an ISO code like CNY or USD, got 'yuan'",
            id="unknown currency",
        ),
        pytest.param(
            HEAD,
            "line 1: cards is empty: without the price of a card there is no saving",
            id="no cards",
        ),
        pytest.param(
            f"{HEAD}cards: []\n",
            "line 3: cards is empty: without the price of a card there is no saving",
            id="empty cards",
        ),
        pytest.param(
            f"{HEAD}{CARDS}  - {CARD}\n",
            "line 4: cards has 'T4' twice in channel 'cloud'; keep one",
            id="twins",
        ),
        pytest.param(
            f"{HEAD}{CARDS}card: 1\n",
            "line 5: card is not a known key; known here: cards, currency, default_channel, "
            "owned, servers, terms, tiers, version",
            id="unknown key at the top",
        ),
        pytest.param(
            with_slice(prise="210"),
            "line 6: tiers[0].prise is not a known key; known here: billing, compute_ratio, "
            "evidence, gpu, mechanism, memory_gib, name, price_per_month, terms, vgpu_type",
            id="unknown key in a row",
        ),
        pytest.param(
            f"{HEAD}{CARDS}currency: USD\n",
            "line 5: currency is given twice; keep one",
            id="duplicate key",
        ),
        pytest.param(f"{HEAD}cards: T4\n", "line 3: cards must be a list", id="wrong type"),
        pytest.param(
            f"{HEAD}cards: [T4]\n",
            "line 3: cards must be a mapping of keys to values",
            id="a word for a card",
        ),
        pytest.param(
            with_slice(name=None), "line 6: tiers[0].name is missing; add it", id="no name"
        ),
        pytest.param(
            with_slice(name="null"), "line 6: tiers[0].name is missing; add it", id="null name"
        ),
        pytest.param(
            with_card_price("-850"),
            "line 4: cards[0].price_per_month must be above 0, got -850; "
            "write null where it is unknown",
            id="negative price",
        ),
        pytest.param(
            with_card_price("0"),
            "line 4: cards[0].price_per_month must be above 0, got 0; "
            "write null where it is unknown",
            id="zero price",
        ),
        pytest.param(
            with_card_price("2.5"),
            "line 4: cards[0].price_per_month is 2.5: a month's price below 20 or above "
            f"100000000 CNY {HOURLY}",
            id="hourly price",
        ),
        pytest.param(
            with_server(price_per_month="110"),
            "line 6: servers[0].price_per_month is 110: a month's price below 160 or above "
            f"100000000 CNY {HOURLY}",
            id="hourly price of a server",
        ),
        pytest.param(
            with_card_price("[850, 850000000]"),
            "line 4: cards[0].price_per_month is 850: a month's price below 20 or above "
            f"100000000 CNY {HOURLY}",
            id="a whole contract",
        ),
        pytest.param(
            with_card_price("NaN"),
            "line 4: cards[0].price_per_month must be a finite number, got 'NaN'",
            id="NaN",
        ),
        pytest.param(
            with_card_price("[900, 800]"),
            "line 4: cards[0].price_per_month range is upside down: 900 to 800; write [low, high]",
            id="range upside down",
        ),
        pytest.param(
            with_card_price("[1, 2, 3]"),
            "line 4: cards[0].price_per_month must be one number or a range [low, high]",
            id="range of three",
        ),
        pytest.param(
            with_card_price("850, evidence: rumour"),
            "line 4: cards[0].evidence must be one of listed, estimate, got 'rumour'",
            id="unknown evidence",
        ),
        pytest.param(
            HEAD + CARDS.replace("Tesla T4", "'(T4'"),
            "line 4: cards[0].nvml_name_regex is not a regular expression: "
            "missing ), unterminated subpattern at position 0",
            id="bad pattern",
        ),
        pytest.param(
            with_slice(gpu="A17"),
            "line 6: tiers[0].gpu is 'A17', which is no card in the hardware facts; "
            "write it as NVML prints it",
            id="unknown gpu",
        ),
        pytest.param(
            with_slice(vgpu_type="GRID A16-1Q"),
            "line 6: tiers[0].vgpu_type is 'GRID A16-1Q', which is no vGPU type in the hardware "
            "facts; write it without the vendor's prefix, such as A100D-4C",
            id="unknown vGPU type",
        ),
        pytest.param(
            with_slice(mechanism="magic"),
            "line 6: tiers[0].mechanism must be one of vgpu, mig, time_slice, got 'magic'",
            id="unknown mechanism",
        ),
        pytest.param(
            with_slice(billing="hour"),
            "line 6: tiers[0].billing must be one of fixed, usage, got 'hour'",
            id="unknown billing",
        ),
        pytest.param(
            with_slice(memory_gib="0"),
            "line 6: tiers[0].memory_gib must be above 0, got 0",
            id="no memory",
        ),
        pytest.param(
            with_slice(compute_ratio="0"),
            "line 6: tiers[0].compute_ratio must be above 0",
            id="no compute",
        ),
        pytest.param(
            with_slice(compute_ratio="6.25"),
            "line 6: tiers[0].compute_ratio must be between 0 and 1, got 6.25; "
            "20 % is written 0.20",
            id="share in percent",
        ),
        pytest.param(
            f"{HEAD}terms: {{year: 0.2}}\n{CARDS}",
            "line 3: terms.year must be a mapping of keys to values",
            id="a term without its key",
        ),
        pytest.param(
            f"{HEAD}terms: {{year: null}}\n{CARDS}",
            "line 3: terms year must be a mapping with discount_ratio",
            id="an empty term",
        ),
        pytest.param(
            f"{HEAD}terms: {{year: {{discount_ratio: 20}}}}\n{CARDS}",
            "line 3: terms.year.discount_ratio must be between 0 and 1, got 20; "
            "20 % is written 0.20",
            id="discount in percent",
        ),
        pytest.param(
            with_server(card_count="0"),
            "line 6: servers[0].card_count must be a whole number above 0, got 0",
            id="a server without cards",
        ),
        pytest.param(
            with_owned(price="null"), "line 6: owned[0].price is missing; add it", id="owned: null"
        ),
        pytest.param(
            with_owned(price="[-1, 5]"),
            "line 6: owned[0].price must be above 0, got -1; give what was paid",
            id="owned: negative",
        ),
        pytest.param(
            with_owned(running_cost_per_month="-3"),
            "line 6: owned[0].running_cost_per_month must not be below 0, got -3",
            id="owned: negative running cost",
        ),
        pytest.param(
            with_owned(evidence="rumour"),
            "line 6: owned[0].evidence must be one of listed, estimate, got 'rumour'",
            id="owned: unknown evidence",
        ),
        pytest.param(
            with_owned(depreciation_months="0"),
            "line 6: owned[0].depreciation_months must be a whole number above 0, got 0",
            id="owned: no months",
        ),
        pytest.param(
            "- a list\n", "line 1: must be a mapping of keys to values", id="a list at the top"
        ),
    ],
)
def test_a_broken_book_is_refused_with_line_key_and_remedy(
    file: Path, text: str, complaint: str
) -> None:
    with pytest.raises(DocumentError) as refusal:
        book(file, text)

    assert str(refusal.value) == f"{file}, {complaint}"


def test_a_missing_book_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "prices.yml"

    with pytest.raises(DocumentError, match=f"{re.escape(str(missing))}: cannot be read"):
        load_price_book(missing)


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # of patterns that chance wrote
@settings(deadline=None, max_examples=150)
@given(
    at=st.integers(0, len(BUILT_IN)),
    length=st.integers(0, 200),
    junk=st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [b"", b"\n", b": ", b"- ", b"[", b"{", b"null", b"-1", b"1e99", b"NaN", b"&a", b"*a"]
        ),
    ),
)
def test_a_damaged_book_is_read_or_refused(file: Path, at: int, length: int, junk: bytes) -> None:
    file.write_bytes(BUILT_IN[:at] + junk + BUILT_IN[at + length :])

    complaint = complaint_about(file)

    assert complaint == "" or complaint.startswith(str(file))
