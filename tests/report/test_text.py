"""Words and numbers for people: both ends of a range, the mark of an estimate, the why."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from support.usage import END, GIB, H100_80GB, usage_profile_of

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.advice.recommend import recommend
from rightslice.catalogue.price_book import load_price_book
from rightslice.profile.profile import IdleClass, Signal, UsageProfile
from rightslice.report.document import SummaryDocument, answer_document
from rightslice.report.text import (
    CASH_WORDS,
    advice_text,
    amount_text,
    beside_text,
    compute_text,
    gib_text,
    holder_text,
    money_text,
    near_miss_texts,
    need_text,
    percent_text,
    place_text,
    saving_at,
    saving_text,
    summary_text,
    why_text,
)

Document = dict[str, Any]
CHAT = usage_profile_of()
TWIN = usage_profile_of(compute={0.04: 0.948, 0.12: 0.05, 0.5: 0.002})
FREE = replace(CHAT, idle_class=IdleClass.UNALLOCATED, memory_used_peak_bytes=0, busy_ratio=0.0)
BUSY = replace(usage_profile_of(memory_gib=35, compute={0.9: 1.0}), idle_class=IdleClass.OK)
SEVERAL = replace(CHAT, most_cards=8)
ON_H100 = usage_profile_of(card_name=H100_80GB, memory_total_gib=79.6)


def document(profile: UsageProfile, channel: str | None = None) -> Document:
    answer = recommend(profile, load_price_book(), DEFAULT_POLICY, END, channel)
    return asdict(answer_document(answer))


def money(low: str, high: str | None = None, *, is_estimate: bool = False) -> Document:
    return {"low": low, "high": high or low, "currency": "CNY", "is_estimate": is_estimate}


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1600.00", "1,600"),
        ("68.50", "68.50"),
        ("1234567.89", "1,234,567.89"),
        ("0.00", "0"),
        ("-1200.00", "-1,200"),
    ],
)
def test_amounts_are_grouped_and_lose_empty_cents(amount: str, text: str) -> None:
    assert amount_text(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param(None, "unknown", id="unknown is not zero"),
        pytest.param(money("900.00"), "900 CNY", id="one number"),
        pytest.param(money("68000.00", "102000.00"), "68,000 to 102,000 CNY", id="range"),
        pytest.param(money("0.00"), "0 CNY", id="zero"),
        pytest.param(
            money("5625.00", "7250.00", is_estimate=True),
            "5,625 to 7,250 CNY (estimate)",
            id="estimate",
        ),
    ],
)
def test_money_keeps_both_ends_and_its_mark(amount: Document | None, text: str) -> None:
    assert money_text(amount) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(None, "unknown"), (0, "0.0 GiB"), (3.4 * GIB, "3.4 GiB")]
)
def test_sizes_are_in_gib(size_bytes: float | None, text: str) -> None:
    assert gib_text(size_bytes) == text


@pytest.mark.parametrize(("ratio", "text"), [(None, "unknown"), (0.0, "0.0 %"), (0.1234, "12.3 %")])
def test_shares_are_in_percent(ratio: float | None, text: str) -> None:
    assert percent_text(ratio) == text


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        pytest.param(TWIN, "12.0 % (11.9 to 14.3)", id="with the ends of its bin"),
        pytest.param(usage_profile_of(compute={0.005: 1.0}), "below 1.0 %", id="in the first bin"),
        pytest.param(
            replace(CHAT, signal=Signal.NONE, compute_bin_seconds=()), "unknown", id="unknown"
        ),
    ],
)
def test_compute_is_told_with_its_doubt(profile: UsageProfile, text: str) -> None:
    assert compute_text(document(profile)["usage"]) == text


@pytest.mark.parametrize(
    ("profile", "channel", "advice", "per_month", "per_year"),
    [
        pytest.param(CHAT, None, "A100 1/20", "1,600 CNY", "19,200 CNY", id="a slice"),
        pytest.param(FREE, None, "give back", "2,500 CNY", "30,000 CNY", id="give back"),
        pytest.param(TWIN, None, "MIG 2g.10gb", "frees 1,875 CNY", "", id="capacity only"),
        pytest.param(
            ON_H100,
            "owned",
            "MIG 1g.10gb",
            "frees 8,263.89 to 12,395.83 CNY (estimate)",
            "",
            id="capacity as a range",
        ),
        pytest.param(BUSY, None, "stay", "", "", id="stay"),
        pytest.param(SEVERAL, None, "no advice", "", "", id="no advice"),
    ],
)
def test_the_headline_and_its_saving_fit_in_a_table(
    profile: UsageProfile, channel: str | None, advice: str, per_month: str, per_year: str
) -> None:
    answer = document(profile, channel)

    assert advice_text(answer) == advice
    assert saving_text(answer, "per_month") == per_month
    assert saving_text(answer, "per_year") == per_year


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        pytest.param(
            CHAT,
            "underused: memory at most 3.4 GiB, compute p95 3.0 % (2.0 to 3.0); "
            "guest memory of A100D-4C not measured yet: 266 MiB to spare; "
            "beside it T4 whole saves 1,650 CNY (check: older architecture, no BF16); "
            "1 more with a check",
            id="a slice",
        ),
        pytest.param(
            BUSY,
            "ok: memory at most 35.0 GiB, compute p95 99.2 % (83.3 to 100.0); "
            "no cheaper tier without a check gives 38.5 GiB of memory and 100.0 % of the "
            "card's compute",
            id="stay",
        ),
        pytest.param(
            SEVERAL,
            "a workload on it holds 8 cards at once: never cut a card of such a job",
            id="no advice",
        ),
    ],
)
def test_the_why_is_the_refusal_or_what_was_measured(profile: UsageProfile, why: str) -> None:
    assert why_text(document(profile)) == why


def test_a_slice_with_enough_memory_that_is_refused_is_told_with_its_reason() -> None:
    assert near_miss_texts(document(TWIN)) == [
        "A100 1/20 refused: needs 14.4 % of the card's compute (p95 0.120 x 1.2), it gives 5.0 %"
    ]
    assert near_miss_texts(document(CHAT)) == []


@pytest.mark.parametrize(
    ("spare_bytes", "is_told"),
    [
        pytest.param(0, True, id="nothing to spare"),
        pytest.param(-1, False, id="a byte too small"),
        pytest.param(None, False, id="unknown"),
    ],
)
def test_a_slice_that_holds_the_memory_exactly_is_a_near_miss(
    spare_bytes: int | None, is_told: bool
) -> None:
    answer = document(TWIN)
    twentieth = next(one for one in answer["candidates"] if one["name"] == "A100 1/20")
    answer["candidates"] = [{**twentieth, "memory_spare_bytes": spare_bytes}]

    assert bool(near_miss_texts(answer)) is is_told


def test_needs_are_told_for_people() -> None:
    needs = document(TWIN)["needs"]

    assert need_text(needs) == "3.7 GiB of memory and 14.4 % of the card's compute"
    assert need_text({**needs, "memory_bytes": None, "compute_quantile_ratio": None}) == (
        "unknown of memory and unknown of the card's compute"
    )


def test_a_candidate_beside_the_headline_without_a_saving_still_names_its_check() -> None:
    beside = {**document(CHAT)["above_the_fold"][0], "savings": []}

    assert beside_text(beside) == "beside it T4 whole (check: older architecture, no BF16)"


def test_a_saving_is_found_by_its_term() -> None:
    headline = document(CHAT)["headline"]

    assert saving_at(headline, "year") == headline["savings"][2]
    assert saving_at(headline, "week") is None


@pytest.mark.parametrize(
    ("node", "uuid", "place"),
    [
        ("node-1", "GPU-12345678-aaaa-bbbb", "node-1 GPU-12345678"),
        ("", "GPU-12345678-aaaa-bbbb", "GPU-12345678"),
        ("node-1", "MIG-something", "node-1 MIG-something"),
    ],
)
def test_a_card_is_found_by_node_and_the_start_of_its_uuid(
    node: str, uuid: str, place: str
) -> None:
    assert place_text({"node": node, "uuid": uuid}) == place


def test_every_kind_of_cash_has_its_words() -> None:
    assert {candidate["cash"] for candidate in document(CHAT)["candidates"]} <= set(CASH_WORDS)
    assert document(ON_H100)["candidates"][0]["cash"] in CASH_WORDS


SUMMARY = asdict(SummaryDocument(8, 4, 3, 1, None, None, None, None, {}))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        pytest.param(
            {}, "8 cards, advice for 4, 3 of them could do with less.", id="nothing in money"
        ),
        pytest.param(
            {"saving_per_month": money("4100.00")},
            "8 cards, advice for 4, 3 of them could do with less: 4,100 CNY a month in cash.",
            id="cash",
        ),
        pytest.param(
            {"freed_per_month": money("8750.00", "13125.00")},
            "8 cards, advice for 4, 3 of them could do with less: "
            "8,750 to 13,125 CNY a month of freed capacity.",
            id="capacity",
        ),
        pytest.param(
            {
                "saving_per_month": money("4100.00"),
                "server_saving_per_month": money("10000.00", "15000.00"),
            },
            "8 cards, advice for 4, 3 of them could do with less: 4,100 CNY a month in cash, "
            "10,000 to 15,000 CNY a month in cash once whole servers end.",
            id="server",
        ),
        pytest.param(
            {"no_advice": {"gone": 1, "shared_card": 3}},
            "8 cards, advice for 4, 3 of them could do with less. No advice for 4: gone 1, "
            "shared_card 3.",
            id="reasons",
        ),
    ],
)
def test_the_fleet_is_told_in_a_sentence(changed: Document, text: str) -> None:
    assert summary_text({**SUMMARY, **changed}) == text


@pytest.mark.parametrize(
    ("workloads", "allocated_ratio", "text"),
    [
        pytest.param(["a/x"], 1.0, "a/x", id="named"),
        pytest.param(["a/x", "a/y", "a/z", "a/w"], 1.0, "a/x, a/y +2", id="many"),
        pytest.param([], 0.0, "nobody", id="free"),
        pytest.param([], 0.7, "somebody not named", id="held, without a name"),
        pytest.param([], None, "unknown", id="holders not seen"),
    ],
)
def test_nobody_holds_a_card_only_where_that_is_known(
    workloads: list[str], allocated_ratio: float | None, text: str
) -> None:
    answer = {"workloads": workloads, "usage": {"allocated_ratio": allocated_ratio}}

    assert holder_text(answer) == text
