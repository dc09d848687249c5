"""`rightslice serve` as a process: scrapes, answers, hands its ledger's questions on, ends."""

import json
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from support.browser import browsing
from support.cli import answers, rightslice
from support.fleet import small_fleet
from support.service import running
from support.web import answering

from rightslice.api.app import create_app
from rightslice.api.serve import bind
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.lock import read_lock

pytestmark = pytest.mark.integration


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def wait_for(condition: Any, seconds: float = 20.0) -> Any:
    """Ask until there is an answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come about")


def dcgm_page(*_: object) -> tuple[int, bytes]:
    labels = 'UUID="GPU-1",Hostname="n",modelName="NVIDIA A30"'
    return 200, f"DCGM_FI_DEV_FB_USED{{{labels}}} 5\nDCGM_FI_DEV_FB_USED{{...}} 5\n".encode()


def test_a_scraped_card_is_in_the_ledger_when_the_service_ends(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    with (
        answering(dcgm_page) as target,
        running(
            "serve",
            *("--target", f"{target}/metrics", "--scrape-interval", "1s"),
            *("--ledger", str(file), "--listen", "127.0.0.1:0"),
        ) as (url, process),
    ):
        assert get(f"{url}/healthz") == {"status": "ok"}
        time.sleep(2.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0

    ledger = Ledger.open(file)
    span = ledger.span()
    ledger.close()
    assert span is not None


def test_while_it_serves_other_commands_are_answered_through_its_api(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    Ledger.open(file).close()
    with running("serve", "--ledger", str(file), "--listen", "127.0.0.1:0") as (url, process):
        holder = read_lock(file)
        assert holder is not None
        assert (holder.process_id, holder.api_url) == (process.pid, url)

        through_file = rightslice("recommend", "--ledger", str(file), "-o", "json")
        through_api = rightslice("recommend", "--api", url, "-o", "json")
        second = rightslice("serve", "--ledger", str(file), "--listen", "127.0.0.1:0")

    assert answers(through_file) == answers(through_api) == {}
    assert second.returncode == 4
    assert f"ask it through --api {url}" in second.stderr
    assert read_lock(file) is None


def test_the_page_shows_the_table_and_the_money_without_the_internet() -> None:
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(small_fleet()), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    try:
        with browsing() as visit:
            visit.page.goto(url)
            text = visit.page.inner_text("main")
            visit.page.locator("summary").first.click()
            candidates = visit.page.locator("details[open] table tr").count()
            wide = visit.page.evaluate("document.documentElement.scrollWidth > innerWidth")
            visit.page.goto(f"{url}docs")
            docs = visit.page.inner_text("main")
    finally:
        server.should_exit = True
        thread.join()
        listener.close()

    assert "1,600 CNY" in text
    assert "A100 1/20" in text
    assert "beside it T4 whole saves 1,650 CNY" in text
    assert "memory stands flat at 36.00 GiB" in text
    assert candidates > 5
    assert "GET /v1/tiers" in docs
    assert not wide
    assert visit.complaints == []
    assert all(request.startswith(url) for request in visit.requests)
