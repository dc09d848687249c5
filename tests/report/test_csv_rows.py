"""The table for finance: plain decimals, empty where unknown, no cell that runs."""

import csv
import io
from dataclasses import asdict, replace

import pytest
from support.usage import END, H100_80GB, holder, usage_profile_of

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.advice.recommend import recommend
from rightslice.catalogue.price_book import PriceBook, load_price_book
from rightslice.profile.profile import IdleClass, Signal, UsageProfile
from rightslice.profile.usage import Holder
from rightslice.report.csv_rows import COLUMNS, csv_text
from rightslice.report.document import answer_document

BOOK = load_price_book()
CHAT = usage_profile_of()
TWIN = usage_profile_of(compute={0.04: 0.948, 0.12: 0.05, 0.5: 0.002})
ON_H100 = usage_profile_of(card_name=H100_80GB, memory_total_gib=79.6)
ON_L4 = usage_profile_of(card_name="NVIDIA L4", memory_total_gib=22.5)


def row(
    profile: UsageProfile, channel: str | None = None, book: PriceBook = BOOK
) -> dict[str, str]:
    """Write one answer, and read it as a spreadsheet would."""
    answer = recommend(profile, book, DEFAULT_POLICY, END, channel)
    text = csv_text([asdict(answer_document(answer))])
    return next(csv.DictReader(io.StringIO(text)))


def held_by(name: str) -> tuple[Holder, ...]:
    return (replace(holder(), namespace=name),)


def test_an_advice_is_one_line_of_plain_decimals() -> None:
    told = row(CHAT)

    assert told["card"] == "NVIDIA A100-SXM4-40GB"
    assert told["workloads"] == "serving/chat-0"
    assert told["currency"] == "CNY"
    assert told["price_per_month_low"] == "2500.00"
    assert told["advice"] == "A100 1/20"
    assert told["advice_kind"] == "rent_slice"
    assert told["advice_price_per_month_high"] == "900.00"
    assert told["saving_per_month_low"] == "1600.00"
    assert told["saving_per_year_high"] == "19200.00"
    assert told["cash"] == "now"
    assert told["is_estimate"] == "False"
    assert (told["reason_code"], told["reason"]) == ("", "")


def test_the_header_names_every_column_even_without_rows() -> None:
    assert csv_text([]) == ",".join(COLUMNS) + "\n"


def test_every_card_has_a_line() -> None:
    answers = [
        asdict(answer_document(recommend(profile, BOOK, DEFAULT_POLICY, END)))
        for profile in (CHAT, TWIN, ON_L4)
    ]

    lines = list(csv.DictReader(io.StringIO(csv_text(answers))))

    assert [line["advice"] for line in lines] == ["A100 1/20", "MIG 2g.10gb", ""]


def test_a_range_keeps_both_ends() -> None:
    told = row(
        replace(ON_H100, idle_class=IdleClass.UNALLOCATED, memory_used_peak_bytes=0, busy_ratio=0.0)
    )

    assert (told["price_per_month_low"], told["price_per_month_high"]) == ("10000.00", "15000.00")
    assert (told["saving_per_month_low"], told["saving_per_month_high"]) == (
        "10000.00",
        "15000.00",
    )
    assert told["cash"] == "when_server_ends"


@pytest.mark.parametrize(
    "column",
    [
        "currency",
        "price_per_month_low",
        "price_per_month_high",
        "advice",
        "advice_price_per_month_low",
        "saving_per_month_low",
        "saving_per_year_high",
        "is_estimate",
        "compute_p95_ratio",
    ],
)
def test_what_is_unknown_is_an_empty_cell_not_zero(column: str) -> None:
    unknown = replace(ON_L4, signal=Signal.NONE, compute_bin_seconds=())

    assert row(unknown)[column] == ""


def test_capacity_on_a_card_that_stays_paid_is_no_saving() -> None:
    told = row(TWIN)

    assert told["cash"] == "capacity_only"
    assert told["saving_per_month_low"] == ""


def test_no_advice_is_a_line_with_its_reason_and_what_the_card_costs() -> None:
    told = row(replace(CHAT, most_cards=8))

    assert told["reason_code"] == "several_cards"
    assert told["reason"] == (
        "a workload on it holds 8 cards at once: never cut a card of such a job"
    )
    assert told["price_per_month_low"] == "2500.00"
    assert told["advice"] == ""


def test_an_estimate_of_the_present_price_is_marked() -> None:
    assert row(ON_H100, "owned")["is_estimate"] == "True"


def test_an_estimate_of_the_advised_price_is_marked() -> None:
    twentieth = BOOK.slices[0]
    assert twentieth.price_per_month is not None
    guessed = replace(twentieth.price_per_month, is_estimate=True)
    book = replace(BOOK, slices=(replace(twentieth, price_per_month=guessed),))

    told = row(CHAT, book=book)

    assert told["advice"] == "A100 1/20"
    assert told["is_estimate"] == "True"


@pytest.mark.parametrize("name", ["=cmd()", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)"])
def test_a_name_that_a_spreadsheet_would_run_is_text(name: str) -> None:
    told = row(replace(CHAT, holders=held_by(name), node=name))

    assert told["workloads"] == f"'{name}/chat-0"
    assert told["node"] == f"'{name}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("\r=cmd()", "\N{REPLACEMENT CHARACTER}=cmd()", id="at the start"),
        pytest.param("a\r=cmd()", "a\N{REPLACEMENT CHARACTER}=cmd()", id="inside"),
        pytest.param("a\x1b[2J", "a\N{REPLACEMENT CHARACTER}[2J", id="a terminal's escape"),
    ],
)
def test_control_characters_of_a_name_rule_nothing(name: str, text: str) -> None:
    assert row(replace(CHAT, node=name))["node"] == text


@pytest.mark.parametrize("name", ['a "quoted" name', "comma, inside", "plain", "线上", "a=b"])
def test_other_names_come_back_as_they_are(name: str) -> None:
    told = row(replace(CHAT, holders=held_by(name), node=name))

    assert told["workloads"] == f"{name}/chat-0"
    assert told["node"] == name


def test_an_amount_below_zero_is_a_number_not_a_formula() -> None:
    document = asdict(answer_document(recommend(CHAT, BOOK, DEFAULT_POLICY, END)))
    document["present_price_per_month"]["low"] = "-5.00"

    told = next(csv.DictReader(io.StringIO(csv_text([document]))))

    assert told["price_per_month_low"] == "-5.00"
