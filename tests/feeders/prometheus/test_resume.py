"""A pull that is disturbed in any way leaves, in the end, the ledger of one that was not."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from support.dcgm_history import Card, between, history, memory_fields
from support.ledger_content import assert_same, content
from support.our_history import card_count, node_lines, node_series
from support.prometheus import free_port, running_prometheus, write_blocks
from support.web import answering

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.prometheus.answer import AwayError, PartialError, SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import PullResult, pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
DAYS = 3
END = START + timedelta(days=DAYS)
HOUR = 3600
FIRST = int(START.timestamp()) - HOUR
# (path, form) -> (status, body) of an answer, or None to ask the real server.
Trouble = Callable[[str, dict[str, str]], tuple[int, bytes] | None]


def lines(days: float = DAYS) -> Iterator[str]:
    yield from node_lines(node_series("hand-warmer"), 0, FIRST, days + 2 / 24)
    fields = {**memory_fields(between(2.0, 3.4)), "DCGM_FI_DEV_GPU_UTIL": between(12, 15)}
    cards = [Card(f"GPU-dcgm-{number}", fields, pod="p", node=f"d-{number}") for number in range(3)]
    yield from history(cards, FIRST + 7, round(days * 1440) + 120)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_blocks(tmp_path_factory.mktemp("history"), lines())


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[str]:
    with running_prometheus(data) as url:
        yield url


@pytest.fixture(scope="module")
def undisturbed(server: str) -> dict[str, list[tuple[Any, ...]]]:
    ledger = Ledger.open()
    pull_all(server, ledger)
    found = content(ledger)
    assert len(found["cards"]) == (3 + card_count(node_series("hand-warmer"))) * 24 * DAYS
    return found


def pull_all(url: str, ledger: Ledger, end: datetime = END, **more: Any) -> PullResult:
    client = PrometheusClient(url, pause=lambda _: None)
    try:
        return pull(client, ledger, START, end, choose_sources(), **more)
    finally:
        client.close()


def behind(server: str, trouble: Trouble) -> Any:
    """Stand between us and the server, and make trouble."""

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        made = trouble(path, form)
        if made is not None:
            return made
        request = urllib.request.Request(server + path, data=body.encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as found:
                return 200, found.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    return answering(answer)


def asked_seconds(form: dict[str, str]) -> float:
    """Give the moment at which a query begins."""
    return float(form.get("start") or form["time"])


def test_a_server_that_is_busy_now_and_then_changes_nothing(
    server: str, undisturbed: dict[str, Any]
) -> None:
    asked: list[str] = []

    def trouble(path: str, form: dict[str, str]) -> tuple[int, bytes] | None:
        asked.append(path)
        return (503, b"busy") if len(asked) % 3 == 0 else None

    ledger = Ledger.open()
    with behind(server, trouble) as url:
        result = pull_all(url, ledger)

    assert content(ledger) == undisturbed
    assert result.missing_hour_count == 0


def test_a_server_that_takes_only_small_queries_gives_the_same(
    server: str, undisturbed: dict[str, Any]
) -> None:
    def trouble(path: str, form: dict[str, str]) -> tuple[int, bytes] | None:
        if not path.endswith("/query"):
            return None
        length_ms = int(form["query"].rpartition("[")[2].removesuffix("ms]"))
        if length_ms > 3e7 or form["query"].count("GPU-") > 1:
            return 422, b'{"status":"error","error":"query processing would load too many samples"}'
        return None

    ledger = Ledger.open()
    with behind(server, trouble) as url:
        pull_all(url, ledger)

    assert content(ledger) == undisturbed


@pytest.mark.parametrize(
    ("broken", "missing_count"),
    [
        pytest.param((500, b"block is corrupt"), 24, id="errors"),
        pytest.param(
            (
                200,
                b'{"status":"success","data":{"resultType":"matrix","result":[]},'
                b'"warnings":["store s1 unavailable"]}',
            ),
            23,  # the last hour is asked for from another day's edge on
            id="partial answers",
        ),
    ],
)
def test_a_day_that_cannot_be_read_is_read_another_time(
    server: str, undisturbed: dict[str, Any], broken: tuple[int, bytes], missing_count: int
) -> None:
    second_day = START.timestamp() + 86_400

    def trouble(path: str, form: dict[str, str]) -> tuple[int, bytes] | None:
        begin = asked_seconds(form)
        is_of_day = second_day - HOUR <= begin < second_day + 86_400 - HOUR
        return broken if path.endswith("/query_range") and is_of_day else None

    ledger = Ledger.open()
    with behind(server, trouble) as url:
        result = pull_all(url, ledger)
    first = content(ledger)
    again = pull_all(server, ledger)

    assert result.missing_hour_count == missing_count
    assert result.reason
    assert len(first["cards"]) == len(undisturbed["cards"]) * (24 * DAYS - missing_count) / 72
    assert again.missing_hour_count == 0
    assert_same(content(ledger), undisturbed)


def test_of_a_partial_day_only_its_hour_is_missing(
    server: str, undisturbed: dict[str, Any]
) -> None:
    hour = START.timestamp() + 30 * HOUR

    def trouble(path: str, form: dict[str, str]) -> tuple[int, bytes] | None:
        if path.endswith("/query_range") and "count_over_time(DCGM" not in form["query"]:
            begin, end = float(form["start"]), float(form["end"])
            if begin < hour + HOUR and end > hour + HOUR / 2 and end - begin <= 25 * HOUR:
                body = b'"data":{"resultType":"matrix","result":[]},"isPartial":true}'
                return 200, b'{"status":"success",' + body
        return None

    ledger = Ledger.open()
    with behind(server, trouble) as url:
        result = pull_all(url, ledger)
    again = pull_all(server, ledger)

    assert 1 <= result.missing_hour_count <= 2
    assert again.missing_hour_count == 0
    assert_same(content(ledger), undisturbed)


def test_a_server_of_which_everything_is_partial_is_an_error_at_once(server: str) -> None:
    asked: list[str] = []

    def trouble(path: str, form: dict[str, str]) -> tuple[int, bytes] | None:
        asked.append(path)
        return 200, b'{"status":"success","data":[],"warnings":["store s1 unavailable"]}'

    ledger = Ledger.open()
    with behind(server, trouble) as url, pytest.raises(PartialError, match="store s1"):
        pull_all(url, ledger)

    assert content(ledger)["cards"] == []
    assert len(asked) < 200


def test_a_server_restarted_in_the_middle_loses_nothing(
    data: Path, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    ledger, port = Ledger.open(), free_port()
    running = ExitStack()
    url = running.enter_context(running_prometheus(own, port=port))
    pauses: list[float] = []

    def end_after_a_day(done: int, total: int) -> None:
        if done == 1:
            running.close()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            running.enter_context(running_prometheus(own, port=port))

    client = PrometheusClient(url, pause=pause)
    with running:
        result = pull(client, ledger, START, END, choose_sources(), end_after_a_day)
        client.close()

    assert len(pauses) == 3
    assert result.missing_hour_count == 0
    assert content(ledger) == undisturbed


def test_a_server_that_stays_away_leaves_the_days_before(
    data: Path, tmp_path: Path, server: str, undisturbed: dict[str, Any]
) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    running, ledger = ExitStack(), Ledger.open()
    url = running.enter_context(running_prometheus(own))
    client = PrometheusClient(url, pause=lambda _: None)
    with running, pytest.raises(AwayError):
        pull(
            client,
            ledger,
            START,
            END,
            choose_sources(),
            lambda done, total: running.close() if done == 1 else None,
        )
    client.close()
    days = {row[1].date() for row in content(ledger)["cards"]}

    assert len(content(ledger)["cards"]) == len(undisturbed["cards"]) / 3
    assert len(days) == 2  # from 10 o'clock to 10 o'clock


def test_a_second_pull_asks_only_whether_anything_came_late(server: str) -> None:
    ledger = Ledger.open()
    pull_all(server, ledger)
    client = PrometheusClient(server)

    result = pull(client, ledger, START, END, choose_sources())
    client.close()

    assert result.day_count == 0
    assert client.traffic.request_count == 2  # one for each source


def test_hours_that_came_late_are_read_again(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    late = range(50 * HOUR + FIRST, 53 * HOUR + FIRST)
    (tmp_path / "early").mkdir()
    early = (
        line for line in lines() if line.startswith("#") or int(line.rpartition(" ")[2]) not in late
    )
    ledger = Ledger.open()
    with running_prometheus(write_blocks(tmp_path / "early", early)) as url:
        pull_all(url, ledger)
        before = content(ledger)
        port = int(url.rpartition(":")[2])
    with running_prometheus(write_blocks(tmp_path, lines()), port=port) as url:
        result = pull_all(url, ledger)

    assert before["cards"] != undisturbed["cards"]
    assert 0 < result.hour_count < len(undisturbed["cards"]) / 3
    assert_same(content(ledger), undisturbed)


def test_hours_that_are_final_are_not_read_again(tmp_path: Path) -> None:
    late = range(50 * HOUR + FIRST, 53 * HOUR + FIRST)
    (tmp_path / "early").mkdir()
    early = (
        line for line in lines() if line.startswith("#") or int(line.rpartition(" ")[2]) not in late
    )
    ledger = Ledger.open()
    with running_prometheus(write_blocks(tmp_path / "early", early)) as url:
        pull_all(url, ledger)
        before = content(ledger)
        port = int(url.rpartition(":")[2])
    with running_prometheus(write_blocks(tmp_path, lines()), port=port) as url:
        result = pull_all(url, ledger, late=timedelta(hours=12))

    assert result.day_count == 0
    assert content(ledger) == before


def test_what_is_kept_is_small_and_holds_no_secret(server: str) -> None:
    ledger = Ledger.open()
    url = server.replace("http://", "http://reader:s3cret@")
    pull_all(url, ledger)

    ((feeder, state),) = ledger.read("read", "SELECT feeder, state FROM feeder_state")

    assert feeder == f"prometheus auto {server}"
    assert "s3cret" not in state
    assert len(state) < 8_000  # four cards, and the counts of two days
    assert json.loads(state)["missing_hours"] == []


def test_each_tenant_has_hours_of_its_own(server: str) -> None:
    ledger = Ledger.open()
    for tenant in ("a", "b"):
        client = PrometheusClient(server, HttpConfig(headers={"X-Scope-OrgID": tenant}))
        result = pull(client, ledger, START, START + timedelta(hours=2), choose_sources())
        client.close()
        assert result.day_count == 1


def test_a_source_that_cannot_be_read_at_all_is_an_error() -> None:
    with (
        answering(lambda *_: (404, b"404 page not found")) as url,
        pytest.raises(SourceError, match="check the URL"),
    ):
        pull_all(url, Ledger.open())
