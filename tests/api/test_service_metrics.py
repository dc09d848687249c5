"""The service's own page of metrics: clean, complete, and silent about what is not known."""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from support.fleet import small_app, small_fleet
from support.scraping import health_when, looping

from rightslice.api import service_metrics
from rightslice.contract.spec import MetricSpec
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets.health import State
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.page_reader import in_process
from rightslice.feeders.targets.scraper import Scraper
from rightslice.feeders.targets.source import FixedTargets
from rightslice.feeders.targets.target import ScrapeTarget
from rightslice.ledger.ledger import Batch, FeederState, Ledger

COMPLETE = datetime(2026, 3, 2, 12, tzinfo=UTC)
GOOD, BAD, NEW = "http://good:1/metrics", "http://bad:1/metrics", "http://new:1/metrics"


def page(target: str) -> str:
    if target == BAD:
        raise SourceError("target bad is gone")
    return "up 1\n"


def samples_of(client: TestClient) -> dict[tuple[str, str], float]:
    """Give values by metric and target, or feeder where there is none."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, sample.labels.get("target") or sample.labels.get("feeder", "")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def client_of(ledger: Ledger, loop: ScrapeLoop | None = None) -> TestClient:
    return TestClient(small_app(small_fleet(ledger), scrape=loop), base_url="http://127.0.0.1")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    ledger = Ledger.open()
    yield ledger
    ledger.close()


def test_each_target_and_feeder_has_its_series_and_promtool_is_content(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([]), "prometheus", FeederState(COMPLETE, {}))
    targets = [ScrapeTarget("nodes", url, 60.0) for url in (GOOD, BAD)]
    loop = ScrapeLoop(Scraper(ledger, 60.0), FixedTargets(targets), in_process(page))

    with looping(loop), client_of(ledger, loop) as client:
        good = health_when(loop, GOOD, lambda health: health.state is State.UP)
        health_when(loop, BAD, lambda health: health.state is State.DOWN)
        found = samples_of(client)
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=client.get("/metrics").content,
            capture_output=True,
            check=False,
        )

    assert found["rightslice_feeder_target_up", GOOD] == 1
    assert found["rightslice_feeder_target_up", BAD] == 0
    success = "rightslice_feeder_target_last_success_timestamp_seconds"
    assert found[success, GOOD] == pytest.approx(good.last_success_seconds)
    assert (success, BAD) not in found
    assert found["rightslice_feeder_target_scrape_duration_seconds", GOOD] < 5
    assert found["rightslice_feeder_target_problems", "embedded"] == 0
    hour = "rightslice_feeder_last_complete_hour_timestamp_seconds"
    assert found[hour, "prometheus"] == COMPLETE.timestamp()
    written = found["rightslice_ledger_last_write_timestamp_seconds", ""]
    assert written == pytest.approx(datetime.now(UTC).timestamp(), abs=60)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_what_is_not_known_has_no_series(ledger: Ledger) -> None:
    with client_of(ledger) as client:
        assert samples_of(client) == {}


def test_a_target_that_was_not_scraped_yet_is_neither_up_nor_down(ledger: Ledger) -> None:
    loop = ScrapeLoop(
        Scraper(ledger, 60.0),
        FixedTargets([ScrapeTarget("nodes", f"{NEW}/{n}", 60.0) for n in range(600)]),
        in_process(page),
    )

    with looping(loop), client_of(ledger, loop) as client:
        health_when(loop, f"{NEW}/0", lambda health: health.state is State.UP)
        last = health_when(loop, f"{NEW}/599", lambda health: True)
        found = samples_of(client)

    assert last.state is State.UNKNOWN
    assert ("rightslice_feeder_target_up", f"{NEW}/599") not in found


def test_each_metric_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/targets.md").read_text(encoding="utf-8")

    specs = [spec for spec in vars(service_metrics).values() if isinstance(spec, MetricSpec)]

    assert [spec.name for spec in specs if f"`{spec.name}" not in page] == []
    assert len(specs) == 6


def test_openmetrics_are_given_to_who_asks_for_them(ledger: Ledger) -> None:
    with client_of(ledger) as client:
        answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
