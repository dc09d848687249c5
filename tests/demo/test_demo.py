"""The demo: the whole way on a simulated node, once and live."""

import json
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.cli import answers, rightslice
from support.service import running

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.api.fleet import Fleet
from rightslice.catalogue.price_book import load_price_book
from rightslice.demo.history import SCRAPE_SECONDS, play
from rightslice.exporter.simulate.scenario import load_scenario
from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger
from rightslice.report.document import AnswerDocument, answer_document

END = datetime(2026, 3, 9, 12, tzinfo=UTC)


def played(scenario: str, span: timedelta) -> list[AnswerDocument]:
    """Play a scenario into a ledger in memory and answer for its cards."""
    ledger = Ledger.open()
    start = END - span
    play(
        load_scenario(scenario), Scraper(ledger, SCRAPE_SECONDS), start.timestamp(), END.timestamp()
    )
    fleet = Fleet(ledger, load_price_book(), DEFAULT_POLICY, timedelta(days=28), lambda: END)
    return [answer_document(answer) for answer in fleet.answers()]


def test_a_week_of_the_hand_warmer_leads_to_the_twentieth() -> None:
    (answer,) = played("hand-warmer", timedelta(days=7, hours=2))

    assert answer.headline is not None
    assert answer.headline.name == "A100 1/20"
    assert answer.usage.coverage_ratio > 0.999
    assert answer.usage.signal == "sm_active"
    assert answer.workloads == ["chat/assistant-0"]
    assert "sm_active_from_dcgm" in answer.usage.quality


@pytest.mark.parametrize(
    ("scenario", "idle_class", "headline", "reason"),
    [
        pytest.param("pre-allocated", "underused", None, "pre_allocated", id="pre-allocated"),
        pytest.param("parked", "parked", "A100 40GB whole", None, id="parked"),
        pytest.param("busy", "ok", "A100 40GB whole", None, id="busy"),
        pytest.param("free", "unallocated", "give back", None, id="free"),
        pytest.param("twin", "underused", "MIG 2g.10gb", None, id="twin"),
    ],
)
def test_each_scenario_shows_what_it_says(
    scenario: str, idle_class: str, headline: str | None, reason: str | None
) -> None:
    (answer,) = played(scenario, timedelta(hours=26))

    assert answer.usage.idle_class == idle_class
    assert (answer.headline.name if answer.headline else None) == headline
    assert (answer.reason.code if answer.reason else None) == reason


def test_less_than_half_a_day_is_too_little() -> None:
    (answer,) = played("hand-warmer", timedelta(hours=8))

    assert answer.reason is not None
    assert answer.reason.code == "too_little_history"


@pytest.mark.integration
def test_once_prints_the_answer_and_keeps_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "demo.duckdb"

    once = answers(
        rightslice(
            "demo", "--once", "--scenario", "hand-warmer", "--ledger", str(file), "-o", "json"
        )
    )
    later = answers(rightslice("recommend", "--ledger", str(file), "-o", "json"))

    (uuid,) = once
    assert once[uuid]["headline"]["name"] == "A100 1/20"
    assert later[uuid]["headline"]["name"] == "A100 1/20"


@pytest.mark.integration
def test_the_demo_stays_up_and_goes_on_in_real_time(tmp_path: Path) -> None:
    file = tmp_path / "demo.duckdb"
    arguments = ("demo", "--scenario", "hand-warmer", "--ledger", str(file))
    with running(*arguments, "--listen", "127.0.0.1:0") as (url, _):
        with urllib.request.urlopen(f"{url}/v1/recommendations", timeout=10) as answer:
            body = json.loads(answer.read())
        with urllib.request.urlopen(f"{url}/", timeout=10) as page:
            text = page.read().decode()
        time.sleep(1.0)

    assert body["recommendations"][0]["headline"]["name"] == "A100 1/20"
    assert "1,600 CNY" in text
    ledger = Ledger.open(file)
    span = ledger.span()
    ledger.close()
    assert span is not None
    assert datetime.now(UTC) - span[1] < timedelta(minutes=5)
