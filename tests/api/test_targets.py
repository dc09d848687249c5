"""How targets fare, as the API tells it."""

from datetime import UTC, datetime
from pathlib import Path

from fastapi.testclient import TestClient
from support.fleet import small_app
from support.scraping import health_when, looping

from rightslice.api.targets import TargetsDocument, targets_document
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.page_reader import in_process
from rightslice.feeders.targets.scraper import Scraper
from rightslice.feeders.targets.source import TargetSource
from rightslice.ledger.ledger import Ledger

CONFIG = """
scrape_configs:
  - job_name: nodes
    static_configs: [{targets: ['n1:1', 'n2:1'], labels: {cluster: east}}]
    file_sd_configs: [{files: [none.json]}]
"""


def page(target: str) -> str:
    if "n2" in target:
        raise SourceError("target n2 is gone")
    return "up 1\nup{...} 1\n"


def test_nothing_is_told_where_nothing_is_scraped() -> None:
    assert targets_document(None) == TargetsDocument([], [])


def test_each_target_is_told_with_its_labels_and_its_last_error(tmp_path: Path) -> None:
    file = tmp_path / "t.yml"
    file.write_text(CONFIG, encoding="utf-8")
    ledger = Ledger.open()
    loop = ScrapeLoop(Scraper(ledger, 60.0), TargetSource(file, [], 60.0), in_process(page))
    app = small_app(scrape=loop)

    with looping(loop), TestClient(app, base_url="http://127.0.0.1") as client:
        health_when(loop, "http://n1:1/metrics", lambda health: health.next_try_seconds)
        health_when(loop, "http://n2:1/metrics", lambda health: health.next_try_seconds)
        body = client.get("/v1/targets").json()
    ledger.close()

    up, down = body["targets"]
    assert (up["group"], up["url"], up["labels"]) == (
        "nodes",
        "http://n1:1/metrics",
        {"cluster": "east"},
    )
    assert (up["state"], up["error"], up["sample_count"], up["broken_line_count"]) == (
        "up",
        "",
        1,
        1,
    )
    assert datetime.fromisoformat(up["next_try"]) > datetime.fromisoformat(up["last_success"])
    assert abs(datetime.now(UTC) - datetime.fromisoformat(up["last_scrape"])).total_seconds() < 60
    assert (down["state"], down["error"]) == ("down", "target n2 is gone")
    assert down["consecutive_failure_count"] >= 1
    assert (down["last_success"], down["sample_count"]) == (None, None)
    assert body["problems"] == [f"{tmp_path / 'none.json'}: there is no such file yet"]
