"""Answers as documents: JSON can hold them, money is decimal text, unknown is null."""

import json
from dataclasses import asdict, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.usage import END, H100_80GB, START, UUID, holder, usage_profile_of

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.advice.recommend import Answer, recommend
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import PriceBook, load_price_book
from rightslice.profile.profile import IdleClass, Signal, UsageProfile
from rightslice.report.document import (
    MoneyDocument,
    SummaryDocument,
    answer_document,
    money_document,
    summary_document,
)

BOOK = load_price_book()
CHAT = usage_profile_of()
FREE = replace(
    CHAT, uuid="GPU-2", idle_class=IdleClass.UNALLOCATED, memory_used_peak_bytes=0, busy_ratio=0.0
)
ON_H100 = usage_profile_of(card_name=H100_80GB, memory_total_gib=79.6)
ON_L4 = usage_profile_of(card_name="NVIDIA L4", memory_total_gib=22.5)
BUSY = replace(usage_profile_of(memory_gib=35, compute={0.9: 1.0}), idle_class=IdleClass.OK)


def answered(profile: UsageProfile, channel: str | None = None, book: PriceBook = BOOK) -> Answer:
    return recommend(profile, book, DEFAULT_POLICY, END, channel)


def as_json(given_answer: Answer) -> dict[str, Any]:
    """Send a document through JSON, which has no Decimal, no enum and no NaN of ours."""
    text = json.dumps(asdict(answer_document(given_answer)), allow_nan=False)
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(CHAT, id="advice"),
        pytest.param(FREE, id="give back"),
        pytest.param(ON_H100, id="a range"),
        pytest.param(ON_L4, id="no price"),
        pytest.param(replace(CHAT, signal=Signal.NONE, compute_bin_seconds=()), id="no signal"),
        pytest.param(
            replace(
                CHAT,
                memory_total_bytes=None,
                memory_used_peak_bytes=None,
                busy_ratio=None,
                allocated_ratio=None,
            ),
            id="little known",
        ),
    ],
)
def test_json_holds_every_answer_as_it_is(profile: UsageProfile) -> None:
    document = asdict(answer_document(answered(profile)))

    assert as_json(answered(profile)) == document


def test_an_advice_tells_what_was_measured_needed_and_decided() -> None:
    document = as_json(answered(CHAT))

    assert document["uuid"] == UUID
    assert document["node"] == "node-1"
    assert document["reason"] is None
    assert document["workloads"] == ["serving/chat-0"]
    assert document["usage"]["start"] == START.isoformat()
    assert document["usage"]["signal"] == "sm_active"
    assert document["usage"]["compute_p95_low_ratio"] == 0.02
    assert document["usage"]["compute_p95_high_ratio"] == 0.03
    assert document["needs"]["memory_headroom_ratio"] == 0.1
    assert document["headline"]["name"] == "A100 1/20"
    assert document["headline"]["compute"] == {
        "available_ratio": 0.05,
        "edge_ratio": 1 / 24,
        "share_of_time_ratio": 0.96,
        "minutes_above_per_day": pytest.approx(57.6),
        "is_borderline": False,
        "mean_ratio": pytest.approx(0.96 * 0.03 + 0.04 * 0.10),
    }
    assert [one["name"] for one in document["above_the_fold"]] == ["T4 whole", "RTX 2080 Ti whole"]
    assert len(document["candidates"]) == 14


def test_money_is_decimal_text() -> None:
    headline = as_json(answered(CHAT))["headline"]

    assert headline["price_per_month"] == {
        "low": "900.00",
        "high": "900.00",
        "currency": "CNY",
        "is_estimate": False,
    }
    assert [(one["term"], one["per_year"]["low"]) for one in headline["savings"]] == [
        ("month", "19200.00"),
        ("quarter", "18240.00"),
        ("year", "15360.00"),
    ]


def test_a_range_keeps_both_ends_and_an_estimate_its_mark() -> None:
    bought = as_json(answered(ON_H100, "owned"))

    assert bought["present_price_per_month"] == {
        "low": "9444.44",
        "high": "14166.67",
        "currency": "CNY",
        "is_estimate": True,
    }
    assert bought["headline"]["freed_per_month"]["is_estimate"]


def test_no_advice_has_a_reason_and_no_headline() -> None:
    document = as_json(answered(replace(CHAT, most_cards=8)))

    assert document["headline"] is None
    assert document["needs"] is None
    assert document["candidates"] == []
    assert document["reason"] == {
        "code": "several_cards",
        "text": "a workload on it holds 8 cards at once: never cut a card of such a job",
    }
    assert document["present_price_per_month"]["low"] == "2500.00"


def test_what_is_unknown_is_null() -> None:
    unmeasured = replace(CHAT, signal=Signal.NONE, compute_bin_seconds=(), busy_ratio=None)

    document = as_json(answered(unmeasured))
    unpriced = as_json(answered(ON_L4))

    usage = document["usage"]
    assert usage["compute_p50_ratio"] is None
    assert usage["compute_p95_ratio"] is None
    assert usage["compute_p99_ratio"] is None
    assert usage["busy_ratio"] is None
    assert unpriced["present_price_per_month"] is None


def test_a_candidate_without_a_price_has_none() -> None:
    tenth = next(one for one in as_json(answered(CHAT))["candidates"] if one["name"] == "A100 1/10")

    assert tenth["price_per_month"] is None
    assert tenth["savings"] == []
    assert not tenth["fits"]


def test_each_workload_is_named_once() -> None:
    holders = (holder("chat-0"), replace(holder("chat-0"), container="proxy"), holder("chat-1"))

    document = as_json(answered(replace(CHAT, holders=holders)))

    assert document["workloads"] == ["serving/chat-0", "serving/chat-1"]


@pytest.mark.parametrize(
    ("low", "shown"),
    [
        pytest.param("0", "0.00", id="zero"),
        pytest.param("55555.555556", "55555.56", id="rounded"),
        pytest.param("-3.5", "-3.50", id="a loss"),
        pytest.param("1E+3", "1000.00", id="no exponents"),
    ],
)
def test_amounts_are_written_out_in_cents(low: str, shown: str) -> None:
    amount = Money(Decimal(low), Decimal(low), "USD")

    assert money_document(amount) == MoneyDocument(shown, shown, "USD", False)


def test_the_summary_of_a_fleet_adds_up_with_each_card_once() -> None:
    fleet = [
        answered(CHAT),
        answered(FREE),
        answered(ON_H100),
        answered(BUSY),
        answered(ON_L4),
        answered(replace(CHAT, most_cards=8)),
        answered(replace(CHAT, is_shared=True)),
        answered(replace(CHAT, end=END - timedelta(days=9))),
    ]

    summary = summary_document(fleet)

    assert summary == SummaryDocument(
        card_count=8,
        advised_count=4,
        saving_count=3,
        unpriced_count=1,
        price_per_month=MoneyDocument("22500.00", "27500.00", "CNY", False),
        saving_per_month=MoneyDocument("4100.00", "4100.00", "CNY", False),
        server_saving_per_month=None,
        freed_per_month=MoneyDocument("8750.00", "13125.00", "CNY", False),
        no_advice={"gone": 1, "no_price": 1, "several_cards": 1, "shared_card": 1},
    )
    assert summary.card_count == summary.advised_count + sum(summary.no_advice.values())


def test_a_card_of_a_server_saves_no_cash_before_the_server_ends() -> None:
    free_in_server = replace(
        FREE, card_name="NVIDIA H100 80GB HBM3", memory_total_bytes=81559 << 20
    )

    summary = summary_document([answered(free_in_server)])

    assert summary.saving_per_month is None
    assert summary.server_saving_per_month == MoneyDocument("10000.00", "15000.00", "CNY", False)


def test_the_summary_of_nothing_knows_no_money() -> None:
    assert summary_document([]) == SummaryDocument(0, 0, 0, 0, None, None, None, None, {})


def test_a_fleet_without_prices_costs_an_unknown_amount_not_zero() -> None:
    summary = summary_document([answered(ON_L4), answered(ON_L4)])

    assert summary.unpriced_count == 2
    assert summary.price_per_month is None


def test_one_estimate_makes_the_sum_an_estimate() -> None:
    summary = summary_document([answered(CHAT), answered(ON_H100, "owned")])

    assert summary.price_per_month is not None
    assert summary.price_per_month.is_estimate
