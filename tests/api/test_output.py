"""Answers on a terminal, as JSON, as CSV."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from support.fleet import HAND_WARMER, PRE_ALLOCATED, small_fleet, small_ledger

from rightslice.api.output import print_answers
from rightslice.report.document import answer_document, summary_document


@pytest.fixture(scope="module")
def found() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    answers = small_fleet(small_ledger(namespace="[bold]x")).answers()
    return [asdict(answer_document(one)) for one in answers], asdict(summary_document(answers))


def printed(
    capsys: pytest.CaptureFixture[str],
    found: tuple[list[dict[str, Any]], dict[str, Any]],
    output_format: str,
) -> str:
    print_answers(*found, output_format)
    return capsys.readouterr().out


def test_the_table_gives_card_money_and_reason(
    capsys: pytest.CaptureFixture[str], found: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    text = " ".join(printed(capsys, found, "table").split())

    assert "2,500 CNY A100 1/20 1,600 CNY 19,200 CNY" in text
    assert "memory stands flat at 36.00 GiB" in text
    assert text.endswith(
        "3 cards, advice for 1, 1 of them could do with less: 1,600 CNY a month in cash. "
        "No advice for 2: pre_allocated 1, unknown_card 1."
    )


def test_names_from_outside_are_no_markup(
    capsys: pytest.CaptureFixture[str], found: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    assert "[bold]x/assistant-0" in printed(capsys, found, "table")


def test_json_holds_everything(
    capsys: pytest.CaptureFixture[str], found: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    body = json.loads(printed(capsys, found, "json"))

    assert body["summary"]["card_count"] == 3
    assert [row["uuid"] for row in body["recommendations"]][:2] == [HAND_WARMER, PRE_ALLOCATED]


def test_csv_begins_with_its_header(
    capsys: pytest.CaptureFixture[str], found: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    assert printed(capsys, found, "csv").startswith("node,uuid,card,workloads,")


def test_an_empty_fleet_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, ([], {}), "table") == "No GPU was seen in the window: no advice.\n"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_width_of_a_terminal_costs_a_word(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[list[dict[str, Any]], dict[str, Any]],
    width: int,
) -> None:
    monkeypatch.setattr("rightslice.api.output.PIPE_WIDTH", width)

    text = " ".join(printed(capsys, found, "table").split())

    assert "nvidia-A100 with 11.00 GiB is no card in the hardware facts" in text
    assert "guest memory of A100D-4C not measured yet" in text
    assert "1,600 CNY" in text
