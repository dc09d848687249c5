"""The client against a server on loopback that misbehaves."""

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs

import pytest
from support.prometheus import free_port
from support.web import answering

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.prometheus import client as client_module
from rightslice.feeders.prometheus.answer import AwayError, LimitError, SourceError
from rightslice.feeders.prometheus.client import ATTEMPTS_WHILE_AWAY, PrometheusClient

pytestmark = pytest.mark.integration


def matrix(*values: tuple[float, str]) -> bytes:
    result = [{"metric": {"__name__": "m"}, "values": [list(value) for value in values]}]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(body, separators=(",", ":")).encode()


def client_of(
    url: str,
    pause: Callable[[float], None] = lambda _: None,
    *,
    config: HttpConfig | None = None,
    share: float = 1.0,
) -> PrometheusClient:
    return PrometheusClient(url, config, pause, share, jitter=lambda: 0.0)


def test_only_samples_within_the_range_are_given() -> None:
    with answering(lambda *_: (200, matrix((0, "1"), (5, "2"), (10, "3"), (11, "4")))) as url:
        client = client_of(url)
        (series,) = client.raw("m", 0, 10)
        client.close()

    assert series.stamps.tolist() == [5.0, 10.0]
    assert series.values.tolist() == [2.0, 3.0]


def test_a_series_without_samples_in_the_range_is_none() -> None:
    with answering(lambda *_: (200, matrix((0, "1"), (11, "4")))) as url:
        client = client_of(url)
        found = client.raw("m", 0, 10)
        client.close()

    assert found == []


def test_a_busy_server_is_asked_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    answers = iter([(503, b""), (429, b""), (200, matrix((1, "1")))])
    with answering(lambda *_: next(answers)) as url:
        client = client_of(url, pauses.append)
        series = client.raw("m", 0, 10)
        client.close()

    assert len(series) == 1
    assert pauses == [1.0, 2.0]


def test_many_clients_do_not_come_back_at_once() -> None:
    pauses: list[float] = []
    with answering(lambda *_: (503, b"")) as url:
        for jitter in (0.0, 1.0):
            client = PrometheusClient(url, None, pauses.append, jitter=lambda j=jitter: j)  # type: ignore[misc]
            with pytest.raises(SourceError):
                client.raw("m", 0, 10)
            client.close()

    assert pauses == [1.0, 2.0, 4.0, 1.5, 3.0, 6.0]


@pytest.mark.parametrize(
    ("told", "least", "most"),
    [
        pytest.param("17", 17, 17, id="seconds"),
        pytest.param("86400", 120, 120, id="longer than we wait"),
        pytest.param("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0, id="a date that has passed"),
        pytest.param("soon", 1, 1, id="nonsense"),
    ],
)
def test_a_server_that_says_when_is_asked_then(told: str, least: float, most: float) -> None:
    pauses: list[float] = []
    answers = iter([(429, b"{}"), (200, matrix((1, "1")))])
    with answering(lambda *_: next(answers), headers={"Retry-After": told}) as url:
        client = client_of(url, pauses.append)
        client.raw("m", 0, 10)
        client.close()

    (pause,) = pauses
    assert least <= pause <= most


def test_a_server_that_names_a_date_is_asked_then() -> None:
    pauses: list[float] = []
    answers = iter([(429, b"{}"), (200, matrix((1, "1")))])
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    with answering(lambda *_: next(answers), headers={"Retry-After": date}) as url:
        client = client_of(url, pauses.append)
        client.raw("m", 0, 10)
        client.close()

    (pause,) = pauses
    assert 30 <= pause <= 60


def test_a_server_that_stays_busy_is_given_up() -> None:
    with answering(lambda *_: (503, b"busy")) as url:
        client = client_of(url)
        with pytest.raises(SourceError, match="try again later"):
            client.raw("m", 0, 10)
        client.close()


def test_credentials_and_headers_go_with_each_request() -> None:
    seen: dict[str, str] = {}

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        seen.update(headers)
        return 200, matrix((1, "1"))

    config = HttpConfig(headers={"X-Scope-OrgID": "team-a|team-b"}, basic_auth=("reader", "word"))
    with answering(answer) as url:
        client = client_of(url, config=config)
        client.raw("m", 0, 10)
        client.close()

    assert seen["x-scope-orgid"] == "team-a|team-b"
    assert seen["Authorization"].startswith("Basic ")
    assert client.tenant == "team-a|team-b"


@pytest.mark.parametrize(
    ("given", "told"), [({}, "identity"), ({"Accept-Encoding": "gzip"}, "gzip")]
)
def test_answers_are_compressed_only_where_that_is_asked_for(
    given: dict[str, str], told: str
) -> None:
    seen: list[str] = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        seen.extend(value for name, value in headers.items() if name.lower() == "accept-encoding")
        return 200, matrix((1, "1"))

    with answering(answer) as url:
        client = client_of(url, config=HttpConfig(headers=given))
        client.raw("m", 0, 10)
        client.close()

    assert seen == [told]


def test_a_path_before_the_api_is_kept() -> None:
    paths: list[str] = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        paths.append(path)
        return 200, matrix((1, "1"))

    with answering(answer) as url:
        client = client_of(f"{url}/select/0/prometheus/")
        client.raw("m", 0, 10)
        client.close()

    assert paths == ["/select/0/prometheus/api/v1/query"]


def test_each_server_is_told_to_answer_whole_or_not_at_all() -> None:
    asked: list[dict[str, list[str]]] = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        asked.append(parse_qs(body))
        return 200, matrix((1, "1"))

    with answering(answer) as url:
        client = client_of(url)
        client.steps("m", 0, 7200, 3600)
        client.close()

    assert asked[0] == {
        "query": ["m"],
        "start": ["0.000"],
        "end": ["7200.000"],
        "step": ["3600"],
        "partial_response": ["false"],
        "max_source_resolution": ["0s"],
        "deny_partial_response": ["1"],
        "nocache": ["1"],
    }


def test_what_is_in_the_url_to_log_in_is_used_and_not_told() -> None:
    seen: dict[str, str] = {}

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        seen.update(headers)
        return 401, b"no"

    with answering(answer) as url:
        client = client_of(url.replace("http://", "http://reader:word@"))
        with pytest.raises(SourceError) as caught:
            client.raw("m", 0, 10)
        client.close()

    assert seen["Authorization"].startswith("Basic ")
    assert client.url == url
    assert "word" not in str(caught.value)


def test_nobody_listening_is_said_at_once_with_the_url() -> None:
    pauses: list[float] = []
    client = client_of(f"http://127.0.0.1:{free_port()}", pauses.append)
    with pytest.raises(AwayError, match="cannot be reached"):
        client.raw("m", 0, 10)
    client.close()

    assert pauses == []


def test_a_server_that_was_there_is_waited_for_longer() -> None:
    pauses: list[float] = []
    with answering(lambda *_: (200, matrix((1, "1")))) as url:
        client = client_of(url, pauses.append)
        client.raw("m", 0, 10)
    with pytest.raises(AwayError):
        client.raw("m", 0, 10)
    client.close()

    assert len(pauses) == ATTEMPTS_WHILE_AWAY - 1
    assert sum(pauses) > 90


def test_with_half_of_the_time_it_rests_as_long_as_each_query_took() -> None:
    pauses: list[float] = []
    with answering(lambda *_: (200, matrix((1, "1")))) as url:
        client = client_of(url, pauses.append, share=0.5)
        client.raw("m", 0, 10)
        client.close()

    assert pauses == [client.traffic.busy_seconds]
    assert client.traffic.busy_seconds > 0


def test_requests_and_bytes_are_counted() -> None:
    body = matrix((1, "1"))
    with answering(lambda *_: (200, body)) as url:
        client = client_of(url)
        for _ in range(3):
            client.raw("m", 0, 10)
        client.close()

    assert client.traffic.request_count == 3
    assert client.traffic.answer_bytes == 3 * len(body)


def test_a_refused_size_is_not_asked_again() -> None:
    asked: list[str] = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        asked.append(body)
        return 422, b"limit"

    with answering(answer) as url:
        client = client_of(url)
        with pytest.raises(LimitError):
            client.raw("m", 0, 4000)
        client.close()

    assert len(asked) == 1


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "ftp://x", "http://", ""])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(SourceError, match="want http://HOST:PORT"):
        PrometheusClient(url)


def test_an_address_that_does_not_answer_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_SECONDS", 0.2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        # Its queue is full: who comes after these waits.
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(deaf.getsockname())
        client = client_of(f"http://127.0.0.1:{deaf.getsockname()[1]}")

        with pytest.raises(AwayError, match=r"cannot be reached within 0 s; check the URL"):
            client.raw("m", 0, 10)

        client.close()
        for one in waiting:
            one.close()
