"""`rightslice recommend` against a real Prometheus with four weeks of eight cards."""

import csv
import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.cli import answers, rightslice
from support.dcgm_history import history
from support.eight_cards import (
    BUSY,
    FREE,
    GAPS,
    HAND_WARMER,
    MINUTES,
    PARKED,
    PRE_ALLOCATED,
    TWIN,
    UTIL_ONLY,
    eight_cards,
)
from support.prometheus import running_prometheus, write_blocks

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    end = int(time.time()) // 60 * 60
    lines = history(eight_cards(), end - MINUTES * 60, MINUTES)
    data = write_blocks(tmp_path_factory.mktemp("eight"), lines)
    with running_prometheus(data) as url:
        yield url


@pytest.fixture(scope="module")
def ledger(prometheus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger file filled from that Prometheus by the command itself."""
    file = tmp_path_factory.mktemp("ledger") / "fleet.duckdb"
    done = rightslice("recommend", "--prometheus", prometheus, "--ledger", str(file), "-o", "csv")
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def cards(ledger: Path) -> dict[str, Any]:
    return answers(rightslice("recommend", "--ledger", str(ledger), "-o", "json"))


def advice(rows: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    return {
        uuid: (row["headline"]["name"], row["headline"]["savings"])
        for uuid, row in rows.items()
        if row["headline"] is not None
    }


def saving(candidate: dict[str, Any], term: str, per: str) -> str:
    (found,) = [row for row in candidate["savings"] if row["term"] == term]
    assert found[per]["low"] == found[per]["high"]
    amount: str = found[per]["low"]
    return amount


def test_the_hand_warmer_fits_a_twentieth_and_saves_the_stated_money(cards: dict[str, Any]) -> None:
    headline = cards[HAND_WARMER]["headline"]

    assert headline["name"] == "A100 1/20"
    assert headline["price_per_month"]["low"] == "900.00"
    assert saving(headline, "month", "per_month") == "1600.00"
    assert saving(headline, "month", "per_year") == "19200.00"
    assert saving(headline, "year", "per_year") == "15360.00"
    assert headline["cash"] == "now"


def test_the_hand_warmers_slice_is_decided_by_rank_and_measured_memory(
    cards: dict[str, Any],
) -> None:
    answer = cards[HAND_WARMER]
    compute = answer["headline"]["compute"]

    assert compute["edge_ratio"] == 1 / 24
    assert compute["share_of_time_ratio"] >= 0.95
    assert answer["needs"]["memory_bytes"] == pytest.approx(3.74 * 1024**3, rel=0.001)
    assert answer["headline"]["memory_spare_bytes"] == pytest.approx(266 * 1024**2, rel=0.01)
    assert answer["headline"]["notes"][0]["code"] == "guest_memory_unmeasured"
    assert answer["usage"]["compute_p95_ratio"] == pytest.approx(0.041, abs=0.001)
    assert re.fullmatch(r"measured over 2[78]\.\d days, compute by SM activity", answer["label"])


def test_a_cheaper_older_card_stands_beside_the_headline_with_its_check(
    cards: dict[str, Any],
) -> None:
    first = cards[HAND_WARMER]["above_the_fold"][0]

    assert first["name"] == "T4 whole"
    assert first["price_per_month"]["low"] == "850.00"
    assert saving(first, "month", "per_month") == "1650.00"
    assert [check["text"] for check in first["checks"]] == ["check: older architecture, no BF16"]


def test_the_twin_with_the_same_gauge_is_refused_the_slice_with_the_number(
    cards: dict[str, Any],
) -> None:
    twin, hand_warmer = cards[TWIN], cards[HAND_WARMER]

    (refused,) = [row for row in twin["candidates"] if row["name"] == "A100 1/20"]

    assert twin["usage"]["busy_ratio"] == pytest.approx(hand_warmer["usage"]["busy_ratio"])
    assert not refused["fits"]
    assert [remark["code"] for remark in refused["refusals"]] == ["compute"]
    assert "it gives 5.0 %" in refused["refusals"][0]["text"]
    low, high = (twin["usage"][f"compute_p95_{end}_ratio"] for end in ("low", "high"))
    assert low <= 0.12 <= high


def test_with_the_busy_gauge_alone_the_slice_is_refused(cards: dict[str, Any]) -> None:
    answer = cards[UTIL_ONLY]

    (refused,) = [row for row in answer["candidates"] if row["name"] == "A100 1/20"]

    assert answer["usage"]["signal"] == "busy"
    assert refused["refusals"][0]["code"] == "compute"
    assert answer["label"].endswith("an upper bound of SM activity")


@pytest.mark.parametrize(
    ("uuid", "code", "words"),
    [
        pytest.param(PRE_ALLOCATED, "pre_allocated", "36.00 GiB", id="engine pool"),
        pytest.param(GAPS, "low_coverage", "% of its time observed", id="half unseen"),
    ],
)
def test_no_advice_has_a_reason_and_the_card_its_price(
    cards: dict[str, Any], uuid: str, code: str, words: str
) -> None:
    answer = cards[uuid]

    assert answer["headline"] is None
    assert answer["reason"]["code"] == code
    assert words in answer["reason"]["text"]
    assert answer["present_price_per_month"]["low"] == "2500.00"


def test_idle_classes_are_told_apart(cards: dict[str, Any]) -> None:
    classes = {uuid: answer["usage"]["idle_class"] for uuid, answer in cards.items()}

    assert classes[FREE] == "unallocated"
    assert classes[PARKED] == "parked"
    assert classes[HAND_WARMER] == "underused"
    assert classes[BUSY] == "ok"


def test_a_free_card_is_given_back_and_a_busy_one_stays(cards: dict[str, Any]) -> None:
    assert cards[FREE]["headline"]["kind"] == "give_back"
    assert saving(cards[FREE]["headline"], "month", "per_month") == "2500.00"
    assert cards[BUSY]["headline"]["kind"] == "stay"


def test_a_parked_model_is_given_back_only_after_asking(cards: dict[str, Any]) -> None:
    give_back = cards[PARKED]["above_the_fold"][0]

    assert give_back["kind"] == "give_back"
    assert [check["code"] for check in give_back["checks"]] == ["parked"]
    assert cards[PARKED]["headline"]["kind"] != "give_back"


def test_the_summary_counts_each_card_once(ledger: Path) -> None:
    done = rightslice("recommend", "--ledger", str(ledger), "-o", "json")

    summary = json.loads(done.stdout)["summary"]

    assert summary["card_count"] == 8
    assert summary["advised_count"] + sum(summary["no_advice"].values()) == 8
    assert summary["price_per_month"]["low"] == "20000.00"
    assert summary["saving_per_month"]["low"] == "4100.00"


def test_the_table_says_what_why_and_how_much(ledger: Path) -> None:
    text = " ".join(rightslice("recommend", "--ledger", str(ledger)).stdout.split())

    assert "A100 1/20 1,600 CNY 19,200 CNY" in text
    assert "beside it T4 whole" in text
    assert "8 cards, advice for 6" in text


def test_csv_has_a_line_per_card(ledger: Path) -> None:
    done = rightslice("recommend", "--ledger", str(ledger), "-o", "csv")

    rows = {row["uuid"]: row for row in csv.DictReader(io.StringIO(done.stdout))}

    assert len(rows) == 8
    assert rows[HAND_WARMER]["saving_per_year_low"] == "19200.00"
    assert rows[GAPS]["reason_code"] == "low_coverage"
    assert rows[GAPS]["saving_per_month_low"] == ""


def test_an_old_ledger_is_answered_as_of_its_end(ledger: Path, tmp_path: Path) -> None:
    copy = tmp_path / "backup.duckdb"
    shutil.copy(ledger, copy)
    with duckdb.connect(str(copy)) as changed:
        for table in ("card_hour", "workload_hour"):
            changed.execute(f"UPDATE {table} SET hour = hour - INTERVAL 10 DAY")
        changed.execute("UPDATE card_hour SET seen_until = seen_until - INTERVAL 10 DAY")
        changed.execute("UPDATE card_attribute SET since = since - INTERVAL 10 DAY")
    copy.chmod(0o444)

    done = rightslice("recommend", "--ledger", str(copy), "-o", "json")

    assert "the answer is as of then" in done.stderr
    assert answers(done)[HAND_WARMER]["headline"]["name"] == "A100 1/20"


def test_a_second_run_reads_only_what_is_new(prometheus: str, ledger: Path) -> None:
    before = answers(rightslice("recommend", "--ledger", str(ledger), "-o", "json"))

    again = answers(
        rightslice("recommend", "--prometheus", prometheus, "--ledger", str(ledger), "-o", "json")
    )

    assert advice(again) == advice(before)


def test_a_stricter_isolation_refuses_the_vgpu_slice(ledger: Path) -> None:
    hard = answers(
        rightslice("recommend", "--ledger", str(ledger), "--isolation", "hard", "-o", "json")
    )

    (refused,) = [row for row in hard[HAND_WARMER]["candidates"] if row["name"] == "A100 1/20"]

    assert [remark["code"] for remark in refused["refusals"]] == ["isolation"]


def test_another_channel_of_the_price_book_changes_the_saving(ledger: Path) -> None:
    custom = answers(
        rightslice("recommend", "--ledger", str(ledger), "--channel", "custom", "-o", "json")
    )

    assert saving(custom[HAND_WARMER]["headline"], "month", "per_month") == "1900.00"


def test_a_card_that_the_price_book_does_not_know_gets_no_advice(
    ledger: Path, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yml"
    prices.write_text(
        "version: 1\ncurrency: USD\ncards:\n"
        "  - {name: L4, nvml_name_regex: NVIDIA L4, price_per_month: 500}\n",
        encoding="utf-8",
    )

    rows = answers(
        rightslice("recommend", "--ledger", str(ledger), "--prices", str(prices), "-o", "json")
    )

    assert rows[HAND_WARMER]["reason"]["code"] == "no_price"
    assert rows[HAND_WARMER]["present_price_per_month"] is None
