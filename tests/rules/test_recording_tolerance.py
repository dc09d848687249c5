"""How far recorded hour sums are from the ledger, in a real Prometheus over the same pages."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from support.node_history import Page, openmetrics, pages
from support.prometheus import running_prometheus, write_blocks

from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
# An hour's start; scrapes are at a moment that is not the full minute.
START, PHASE_SECONDS, HOURS = 1_790_000_400 - 1_790_000_400 % 3600, 7, 4
# Recorded series and the ledger's column; whole hours, without the first one.
COLUMNS = {
    "card_signal:rightslice_gpu_observed_seconds:increase1h": "allocation_observed_seconds",
    "card:rightslice_gpu_allocated_seconds:increase1h": "allocated_seconds",
    "card:rightslice_gpu_busy_seconds:increase1h": "kernel_seconds",
}
Sums = dict[tuple[str, int], float]


@pytest.fixture(scope="module")
def regular() -> list[Page]:
    return list(pages("fleet", START + PHASE_SECONDS, HOURS + 0.1))


def expression(record: str) -> str:
    """Give a rule's own expression, without its look at what others have recorded."""
    [group] = yaml.safe_load((ROOT / "rules/rightslice-recording.rules.yaml").read_text("utf-8"))[
        "groups"
    ]
    [rule] = [
        rule
        for rule in group["rules"]
        if rule["record"] == record and rule["labels"]["source"] == "rightslice"
    ]
    expr: str = rule["expr"]
    return expr.partition("\nand on (uuid) card_signal:")[0]


def recorded(url: str, record: str) -> Sums:
    parameters = {
        "query": expression(record),
        "start": START + 2 * 3600,
        "end": START + HOURS * 3600,
        "step": 3600,
    }
    query = f"{url}/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(query, timeout=30) as answer:
        found = json.load(answer)["data"]["result"]
    return {
        (series["metric"]["uuid"], int(stamp) - 3600): float(value)
        for series in found
        if series["metric"].get("signal", "allocation") == "allocation"
        for stamp, value in series["values"]
    }


@contextmanager
def filled(found: list[Page]) -> Iterator[Ledger]:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for page in found:
        scraper.ingest("node-1", page.text, page.now_seconds)
    scraper.flush(found[-1].now_seconds)
    yield ledger
    ledger.close()


def facts(ledger: Ledger, column: str) -> Sums:
    rows = ledger.read(
        "read",
        f"SELECT uuid, epoch(hour)::BIGINT, {column}::DOUBLE FROM card_hour "
        "JOIN card USING (card_id) WHERE epoch(hour) BETWEEN ? AND ?",
        [START + 3600, START + (HOURS - 1) * 3600],
    )
    return {(uuid, hour): value for uuid, hour, value in rows}


def worst_deviations(found: list[Page], folder: Path) -> dict[str, float]:
    data = write_blocks(folder, openmetrics(found))
    with filled(found) as ledger, running_prometheus(data) as url:
        worst = {}
        for record, column in COLUMNS.items():
            sums, told = recorded(url, record), facts(ledger, column)
            assert told
            assert sums.keys() == told.keys()
            worst[column] = max(abs(sums[key] - told[key]) for key in told)
    return worst


def test_regular_scrapes_give_hours_to_a_few_seconds(regular: list[Page], tmp_path: Path) -> None:
    worst = worst_deviations(regular, tmp_path)

    assert worst["allocation_observed_seconds"] == pytest.approx(0, abs=0.1)
    assert worst["allocated_seconds"] == pytest.approx(0, abs=0.1)
    assert worst["kernel_seconds"] < 10


def test_a_restart_costs_no_more_than_the_time_around_it(tmp_path: Path) -> None:
    restarted = list(pages("fleet", START + PHASE_SECONDS, HOURS + 0.1, restart_after_hours=2.138))

    worst = worst_deviations(restarted, tmp_path)

    assert max(worst.values()) < 10


def test_scrapes_missed_around_an_hours_end_cost_what_lies_between(
    regular: list[Page], tmp_path: Path
) -> None:
    missed = [page for page in regular if 60 <= page.now_seconds % 3600 <= 3540]

    worst = worst_deviations(missed, tmp_path)

    assert 60 < worst["allocation_observed_seconds"] <= 130
    assert max(worst.values()) <= 130
