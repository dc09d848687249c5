"""Owners, teams and engines out of a Prometheus come into the ledger as out of pages."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.engine_pages import vllm
from support.kube_page import page, served
from support.prometheus import running_prometheus, write_blocks
from support.usage import card_hour, workload_hour
from support.web import answering

from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.ours.attributes import Remembered
from rightslice.feeders.owners.teams import load_team_rules
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.companions import complete
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.batch import Batch
from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

START = datetime(2026, 3, 2, 10, tzinfo=UTC).timestamp()
HOURS = 2
PLACE = {"namespace": "chat", "pod": "chat-7f9-x1", "container": "vllm"}
CARD = {"UUID": "GPU-1", "modelName": "NVIDIA L40S", "Hostname": "node-1", **PLACE}
LOOK = (
    "SELECT hour(hour), team, owner, replicas_max, waiting_peak, round(request_count) "
    "FROM engine_hour JOIN workload_attribute USING (workload_id) "
    "JOIN owner USING (owner) JOIN owner_hour USING (owner_id, hour) ORDER BY ALL"
)


def cards(seconds: float) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in CARD.items())
    return (
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 20000\nDCGM_FI_DEV_FB_FREE{{{labels}}} 20000\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 50\n"
    )


def pages(minute: int) -> dict[str, tuple[str, dict[str, str]]]:
    """Give what three targets tell in a minute, and what is told of each target."""
    return {
        "dcgm": (cards(minute), {}),
        "kube": (page(served(2)), {}),
        "vllm": (vllm(waiting=minute % 7, done=10 * minute), PLACE),
    }


def stored(minutes: range) -> list[str]:
    """Write all pages as a Prometheus would have stored them, grouped by series."""
    series: dict[str, list[str]] = {}
    parser = PageParser()
    for minute in minutes:
        for job, (text, target) in pages(minute).items():
            for reading in parser.parse(text):
                told = {"job": job, "instance": f"{job}:1", **target, **reading.labels}
                labels = ",".join(f'{name}="{value}"' for name, value in sorted(told.items()))
                stamp = START + 60 * minute
                series.setdefault(f"{reading.name}{{{labels}}}", []).append(
                    f"{reading.value} {stamp}"
                )
    return [f"{head} {value}" for head, values in sorted(series.items()) for value in values]


def test_a_prometheus_tells_the_same_as_the_pages(tmp_path: Path) -> None:
    rules = tmp_path / "teams.yaml"
    rules.write_text("rules:\n  - {team: search, match: {namespace: chat}}\n", encoding="utf-8")
    settings = WorkloadSettings(load_team_rules(rules))
    minutes = range(-20, HOURS * 60 + 20)
    pulled, scraped = Ledger.open(), Ledger.open()
    scraper = Scraper(scraped, 60, companions=settings.companions())
    for minute in minutes:
        for job, (text, labels) in pages(minute).items():
            scraper.ingest(f"http://{job}", text, START + 60 * minute, 60, labels)
        if minute % 10 == 0:
            scraper.flush(START + 60 * minute)

    with running_prometheus(write_blocks(tmp_path, stored(minutes))) as url:
        client = PrometheusClient(url)
        start = datetime.fromtimestamp(START, UTC)
        end = datetime.fromtimestamp(START + HOURS * 3600, UTC)
        pull(client, pulled, start, end, choose_sources(), workloads=settings)
        client.close()

    expected: list[tuple[Any, ...]] = [
        (10 + hour, "search", "chat", 2, 6.0, 600) for hour in range(HOURS)
    ]
    assert pulled.read("look", LOOK) == expected
    within = [row for row in scraped.read("look", LOOK) if 10 <= row[0] < 10 + HOURS]
    assert within == expected


def test_a_server_that_cannot_tell_of_owners_costs_no_hour_of_a_card(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = Batch([card_hour()], [workload_hour()])

    def refuse(*_: object) -> tuple[int, bytes]:
        return 422, b"too many unique timeseries"

    with answering(refuse) as url:
        client = PrometheusClient(url)
        told = complete(client, batch, range(1_000, 1_024), Remembered(), WorkloadSettings())
        client.close()

    assert told == batch
    assert "owners and engines of 24 hours" in caplog.text
