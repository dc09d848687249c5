"""The client against a server on loopback that misbehaves."""

import json
from urllib.parse import parse_qs

import pytest
from support.prometheus import free_port
from support.web import answering

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.prometheus_answer import LimitError, SourceError
from rightslice.feeders.prometheus_client import PrometheusClient

pytestmark = pytest.mark.integration


def matrix(*values: tuple[float, str]) -> bytes:
    result = [{"metric": {"__name__": "m"}, "values": [list(value) for value in values]}]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(body).encode()


def test_only_samples_within_the_range_are_given() -> None:
    with answering(lambda *_: (200, matrix((0, "1"), (5, "2"), (10, "3"), (11, "4")))) as url:
        client = PrometheusClient(url)
        (series,) = client.raw("m", 0, 10)
        client.close()

    assert series.samples == [(5.0, 2.0), (10.0, 3.0)]


def test_a_range_that_is_too_large_is_asked_for_in_halves() -> None:
    asked = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        query = parse_qs(body)["query"][0]
        asked.append(query)
        if query == "m[4000000ms]":
            return 422, b'{"status":"error","error":"query processing would load too many samples"}'
        return 200, matrix((float(parse_qs(body)["time"][0]), "1"))

    with answering(answer) as url:
        client = PrometheusClient(url)
        series = list(client.raw("m", 0, 4000))
        client.close()

    assert asked == ["m[4000000ms]", "m[2000000ms]", "m[2000000ms]"]
    assert [one.samples for one in series] == [[(2000.0, 1.0)], [(4000.0, 1.0)]]


def test_a_server_that_finds_everything_too_large_is_not_asked_for_ever() -> None:
    with answering(lambda *_: (422, b"limit")) as url:
        client = PrometheusClient(url)
        with pytest.raises(LimitError):
            list(client.raw("m", 0, 4000))
        client.close()


def test_a_busy_server_is_asked_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    answers = iter([(503, b""), (429, b""), (200, matrix((1, "1")))])
    with answering(lambda *_: next(answers)) as url:
        client = PrometheusClient(url, pause=pauses.append)
        series = list(client.raw("m", 0, 10))
        client.close()

    assert len(series) == 1
    assert pauses == [1.0, 2.0]


def test_a_server_that_stays_busy_is_given_up() -> None:
    with answering(lambda *_: (503, b"busy")) as url:
        client = PrometheusClient(url, pause=lambda _: None)
        with pytest.raises(SourceError, match="try again later"):
            list(client.raw("m", 0, 10))
        client.close()


def test_credentials_and_headers_go_with_each_request() -> None:
    seen: dict[str, str] = {}

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        seen.update(headers)
        return 200, matrix((1, "1"))

    config = HttpConfig(headers={"X-Scope-OrgID": "tenant-1"}, basic_auth=("reader", "word"))
    with answering(answer) as url:
        client = PrometheusClient(url, config)
        list(client.raw("m", 0, 10))
        client.close()

    assert seen["X-Scope-OrgID"] == "tenant-1"
    assert seen["Authorization"].startswith("Basic ")


def test_nobody_listening_is_said_with_the_url() -> None:
    client = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(SourceError, match="cannot be reached"):
        list(client.raw("m", 0, 10))
    client.close()


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "ftp://x", "http://", ""])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(SourceError, match="want http://HOST:PORT"):
        PrometheusClient(url)
