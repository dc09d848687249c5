"""The loop over real servers and on a faster clock: schedules, outages, reloads, health."""

import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from support.scraping import fast_clock, health_when, looping
from support.waiting import wait_for
from support.web import answering

from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets.health import State
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.page_reader import in_process
from rightslice.feeders.targets.schedule import offset_seconds
from rightslice.feeders.targets.scraper import Intake
from rightslice.feeders.targets.source import FixedTargets, Found, TargetSource
from rightslice.feeders.targets.target import ScrapeTarget
from rightslice.ledger.ledger import LedgerError

START_SECONDS = 1_772_445_600.0


@dataclass
class Recorder:
    """Takes pages as the scraper does, and keeps when they came."""

    times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    flushes: list[float] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    on_flush: Callable[[], None] = lambda: None

    def ingest(
        self,
        target: str,
        page: str,
        now_seconds: float,
        interval_seconds: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Intake:
        if page == "poison":
            raise ValueError("cannot be")
        self.threads.add(threading.current_thread().name)
        self.times[target].append(now_seconds)
        self.labels[target] = labels or {}
        lines = page.splitlines()
        broken = [line for line in lines if "{..." in line or line.startswith("<")]
        return Intake(len(lines) - len(broken), len(broken))

    def forget(self, target: str) -> None:
        self.forgotten.append(target)

    def flush(self, now_seconds: float) -> None:
        self.flushes.append(now_seconds)
        self.on_flush()


def targets(
    urls: Iterable[str], interval_seconds: float = 1.0, timeout_seconds: float = 0.5
) -> FixedTargets:
    return FixedTargets(
        [ScrapeTarget("nodes", url, interval_seconds, timeout_seconds) for url in urls]
    )


def always(*_: object) -> tuple[int, bytes]:
    return 200, b"up 1\n"


def test_hung_and_refusing_targets_delay_no_other() -> None:
    recorder = Recorder()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as closed,
        answering(always) as good,
    ):
        hung = [f"http://127.0.0.1:{silent.getsockname()[1]}/{n}" for n in range(60)]
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        closed.close()
        loop = ScrapeLoop(recorder, targets([*hung, refusing, f"{good}/metrics"]))
        with looping(loop):
            wait_for(lambda: len(recorder.times[f"{good}/metrics"]) >= 3)
            health_when(loop, f"{good}/metrics", lambda health: health.state is State.UP)
            health_when(loop, refusing, lambda health: health.state is State.DOWN)
            told = health_when(loop, hung[0], lambda health: health.state is State.DOWN)

    # Were they waited for one after the other, it would be half a minute.
    assert max(b - a for a, b in pairwise(recorder.times[f"{good}/metrics"])) < 5.0
    assert told.error == f"target {hung[0]} did not answer within 0.5 s"
    assert told.last_success_seconds is None
    assert told.duration_seconds == pytest.approx(0.5, abs=0.4)
    assert told.next_try_seconds is not None
    assert told.next_try_seconds > (told.last_scrape_seconds or 0)


def test_500_targets_are_each_scraped_on_time_and_spread_over_the_interval() -> None:
    recorder = Recorder()
    names = [f"http://n{number}:19400/metrics" for number in range(500)]
    loop = ScrapeLoop(
        recorder,
        targets(names, 60.0),
        in_process(lambda _: "up 1\n"),
        fast_clock(40.0, START_SECONDS),
    )

    with looping(loop):
        wait_for(lambda: min(len(recorder.times[name]) for name in names) >= 4, 60.0)

    # After the first, each is in its slot, of which there is one a minute.
    slots = {name: recorder.times[name][1:4] for name in names}
    late_seconds = [
        (time_seconds - offset_seconds(name, 60.0)) % 60.0
        for name, times in slots.items()
        for time_seconds in times
    ]
    assert max(late_seconds) < 20.0
    assert all(110 < c - a < 130 + 20 for a, _, c in slots.values())
    assert len(recorder.threads) == 1
    assert recorder.flushes


def test_500_targets_of_a_real_server_are_up_within_seconds() -> None:
    recorder = Recorder()
    with answering(always, connections=[]) as url:
        names = [f"{url}/{number}" for number in range(500)]
        loop = ScrapeLoop(recorder, targets(names, 60.0, 30.0))
        with looping(loop):
            wait_for(lambda: all(recorder.times[name] for name in names), 30.0)
            wait_for(lambda: {health.state for health in loop.health()} == {State.UP})


def test_a_failing_target_is_tried_again_soon_then_rarely_and_comes_back_by_itself() -> None:
    recorder = Recorder()
    tries: list[float] = []
    clock = fast_clock(200.0, START_SECONDS)
    is_down = True

    def page(_: str) -> str:
        tries.append(clock.wall_seconds())
        if is_down:
            raise SourceError("target t cannot be scraped: refused")
        return "up 1\n"

    loop = ScrapeLoop(recorder, targets(["t"], 15.0), in_process(page), clock)
    with looping(loop):
        wait_for(lambda: len(tries) >= 7)
        down = health_when(loop, "t", lambda health: health.failure_count >= 6)
        is_down = False
        wait_for(lambda: recorder.times["t"])
        up = health_when(loop, "t", lambda health: health.state is State.UP)

    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps[0] < 15
    assert all(gap < 300 for gap in gaps)
    assert gaps[5] > 100
    assert (down.state, down.error) == (State.DOWN, "target t cannot be scraped: refused")
    assert (up.error, up.failure_count, up.sample_count) == ("", 0, 1)


def test_one_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[str] = []

    def page(target: str) -> str:
        tries.append(target)
        raise SourceError("target t is broken")

    clock = fast_clock(500.0, START_SECONDS)
    with looping(ScrapeLoop(Recorder(), targets(["t"]), in_process(page), clock)):
        wait_for(lambda: len(tries) >= 4)

    assert caplog.messages == ["target t is broken"]


def test_what_cannot_be_taken_in_and_what_holds_no_metric_stays_with_its_target() -> None:
    recorder = Recorder()
    pages = {"poison": "poison", "web": "<html>\n", "broken": "up 1\nx{...} 1\n", "good": "up 1\n"}
    loop = ScrapeLoop(recorder, targets(pages), in_process(pages.__getitem__))

    with looping(loop):
        wait_for(lambda: len(recorder.times["good"]) >= 2)
        found = {health.url: health for health in loop.health()}

    assert found["poison"].error == "target poison cannot be taken in: cannot be"
    assert found["web"].error == "target web: its page holds no metric; check the path"
    assert (found["broken"].sample_count, found["broken"].broken_line_count) == (1, 1)
    assert [found[name].state for name in pages] == ["down", "down", "up", "up"]


def test_a_proxy_that_cannot_be_used_is_the_targets_own_trouble(tmp_path: Path) -> None:
    file = tmp_path / "t.yml"
    file.write_text(
        "scrape_configs:\n  - job_name: a\n    proxy_url: 'gopher://x'\n"
        "    static_configs: [{targets: ['n1:1']}]\n",
        encoding="utf-8",
    )
    loop = ScrapeLoop(Recorder(), TargetSource(file, [], 15.0))

    with looping(loop):
        health = health_when(loop, "http://n1:1/metrics", lambda health: health.failure_count)

    assert "gopher" in health.error


def test_added_targets_are_scraped_at_once_removed_ones_stop_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    recorder, listed = Recorder(), tmp_path / "nodes.json"
    file = tmp_path / "t.yml"
    file.write_text(
        "scrape_configs:\n  - job_name: nodes\n    scrape_interval: 5m\n"
        "    file_sd_configs: [{files: [nodes.json]}]\n",
        encoding="utf-8",
    )
    first, second = "http://n1:1/metrics", "http://n2:1/metrics"
    rows = [{"targets": ["n1:1"], "labels": {"cluster": "east"}}]
    listed.write_text(json.dumps(rows), encoding="utf-8")
    loop = ScrapeLoop(recorder, TargetSource(file, [], 15.0), in_process(lambda _: "up 1\n"))

    with looping(loop):
        wait_for(lambda: recorder.times[first])
        rows.append({"targets": ["n2:1"], "labels": {}})
        listed.write_text(json.dumps(rows), encoding="utf-8")
        wait_for(lambda: recorder.times[second], 5.0)
        count_of_first = len(recorder.times[first])
        del rows[0]
        listed.write_text(json.dumps(rows), encoding="utf-8")
        wait_for(lambda: recorder.forgotten)
        left = [health.url for health in loop.health()]

    assert count_of_first == 1
    assert recorder.labels[first] == {"cluster": "east"}
    assert (recorder.forgotten, left) == ([first], [second])


def test_a_changed_target_is_scraped_at_once_as_it_is_now(tmp_path: Path) -> None:
    recorder, file = Recorder(), tmp_path / "t.yml"
    text = (
        "scrape_configs:\n  - job_name: nodes\n    scrape_interval: 5m\n"
        "    static_configs: [{targets: ['n1:1'], labels: {cluster: east}}]\n"
    )
    file.write_text(text, encoding="utf-8")
    loop = ScrapeLoop(recorder, TargetSource(file, [], 15.0), in_process(lambda _: "up 1\n"))

    with looping(loop):
        wait_for(lambda: recorder.labels)
        file.write_text(text.replace("east", "west"), encoding="utf-8")
        wait_for(lambda: recorder.labels["http://n1:1/metrics"] == {"cluster": "west"})
        (health,) = loop.health()

    assert health.labels == {"cluster": "west"}
    assert recorder.forgotten == []


def test_a_reload_looks_at_once() -> None:
    looks: list[bool] = []

    class Counted(FixedTargets):
        def look(self, now_seconds: float, *, is_forced: bool = False) -> Found:
            looks.append(is_forced)
            return super().look(now_seconds, is_forced=is_forced)

    loop = ScrapeLoop(Recorder(), Counted([]))
    with looping(loop):
        wait_for(lambda: looks)
        loop.reload()
        wait_for(lambda: True in looks, 1.0)


def test_targets_that_cannot_be_looked_for_leave_the_scrapes_alone() -> None:
    recorder, count = Recorder(), []

    class Failing(FixedTargets):
        def look(self, now_seconds: float, *, is_forced: bool = False) -> Found:
            count.append(1)
            if len(count) > 1:
                raise OSError("disk gone")
            return super().look(now_seconds, is_forced=is_forced)

    failing = Failing(targets(["t"]).targets)
    with looping(ScrapeLoop(recorder, failing, in_process(lambda _: "up 1\n"))):
        wait_for(lambda: len(count) >= 2 and len(recorder.times["t"]) >= 3)


@pytest.mark.parametrize("error", [LedgerError("disk full"), ValueError("odd")])
def test_a_ledger_that_cannot_be_written_stops_no_scrape(error: Exception) -> None:
    recorder = Recorder()

    def fail() -> None:
        raise error

    recorder.on_flush = fail
    clock = fast_clock(600.0, START_SECONDS)
    loop = ScrapeLoop(recorder, targets(["t"], 60.0), in_process(lambda _: "up 1\n"), clock)
    with looping(loop):
        wait_for(lambda: len(recorder.flushes) >= 3)
        count = len(recorder.times["t"])
        wait_for(lambda: len(recorder.times["t"]) > count)


def test_what_came_in_is_written_at_the_end_and_the_end_waits_for_no_target() -> None:
    recorder = Recorder()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        source = FixedTargets([ScrapeTarget("nodes", url, 300.0, 300.0)])
        with looping(ScrapeLoop(recorder, source)):
            time.sleep(0.5)
            asked_to_end_seconds = time.monotonic()

    assert time.monotonic() - asked_to_end_seconds < 10.0
    assert len(recorder.flushes) == 1
