"""`rightslice serve` as a process: scrapes, answers, hands its ledger's questions on, ends."""

import json
import resource
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
from support.fleet import small_app
from support.service import running
from support.waiting import wait_for
from support.web import answering

from rightslice.api.serve import allow_many_connections, bind
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.lock import read_lock

pytestmark = pytest.mark.integration


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


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
        wait_for(lambda: [one["state"] for one in get(f"{url}/v1/targets")["targets"]] == ["up"])
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
    server = uvicorn.Server(uvicorn.Config(small_app(), log_level="error"))
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


def nodes_of(url: str) -> dict[str, str]:
    """Give the state of each target by its node."""
    body = get(f"{url}/v1/targets")
    return {target["labels"]["node"]: target["state"] for target in body["targets"]}


def target_groups(*addresses: str) -> str:
    lists = [
        f"      - {{targets: ['{address}'], labels: {{node: n{number}}}}}"
        for number, address in enumerate(addresses, start=1)
    ]
    return "\n".join(["scrape_configs:", "  - job_name: gpus", "    static_configs:", *lists, ""])


def test_a_file_of_targets_is_read_again_on_sighup_and_a_broken_one_changes_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "targets.yml"
    with answering(dcgm_page) as first, answering(dcgm_page) as second:
        addresses = [url.removeprefix("http://") for url in (first, second)]
        file.write_text(target_groups(addresses[0]), encoding="utf-8")
        with running("serve", "--targets.file", str(file), "--listen", "127.0.0.1:0") as (
            url,
            process,
        ):
            wait_for(lambda: nodes_of(url) == {"n1": "up"})
            file.write_text(target_groups(*addresses), encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            wait_for(lambda: nodes_of(url) == {"n1": "up", "n2": "up"})
            file.write_text("scrape_configs: 5\n", encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            problems = wait_for(lambda: get(f"{url}/v1/targets")["problems"])
            still = nodes_of(url)
            with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
                page = answer.read().decode()

    assert problems == [f"{file}, line 1: scrape_configs must be a list"]
    assert still == {"n1": "up", "n2": "up"}
    assert f'{{feeder="embedded",group="gpus",target="{second}/metrics"}} 1.0' in page


def test_a_broken_file_of_targets_ends_the_start_with_its_line(tmp_path: Path) -> None:
    file, ledger = tmp_path / "targets.yml", tmp_path / "ledger.duckdb"
    file.write_text("scrape_configs:\n  - job-name: a\n", encoding="utf-8")

    done = rightslice("serve", "--targets.file", str(file), "--ledger", str(ledger))

    assert done.returncode == 2
    assert f"{file}, line 2: scrape_configs[0].job_name is missing; add it" in done.stderr
    assert not ledger.exists()


def test_as_many_connections_are_allowed_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:
        allow_many_connections()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert raised == (hard, hard)
