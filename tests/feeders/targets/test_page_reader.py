"""Pages of real HTTP servers: TLS, credentials, compression, and ends to time and size."""

import gzip
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.certificates import self_signed
from support.scraping import read_page
from support.web import answering

from rightslice.feeders.http_config import HttpConfig, read_http_config
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets import page_reader
from rightslice.feeders.targets.target import ScrapeTarget

PAGE = b"up 1\n"


def target_at(url: str, http: HttpConfig | None = None) -> ScrapeTarget:
    return ScrapeTarget("nodes", f"{url}/metrics", 15.0, 5.0, {}, http or HttpConfig())


def http_config(folder: Path, text: str) -> HttpConfig:
    file = folder / "http.yml"
    file.write_text(text, encoding="utf-8")
    return read_http_config(file)


def always(*_: object) -> tuple[int, bytes]:
    return 200, PAGE


@contextmanager
def talking(*pieces: bytes, pause_seconds: float = 0.0) -> Iterator[str]:
    """Say these bytes, one by one, to whoever connects, and then nothing; gives the URL."""
    ended = threading.Event()

    def talk() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            for piece in pieces:
                try:
                    connection.sendall(piece)
                except OSError:
                    return
                ended.wait(pause_seconds)
            ended.wait(20.0)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=talk)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_one_connection_serves_scrape_after_scrape() -> None:
    connections: list[Any] = []

    with answering(always, connections=connections) as url:
        pages = read_page(target_at(url), times=3)

    assert pages == ["up 1\n"] * 3
    assert len(connections) == 1


def test_a_connection_that_the_server_closed_is_made_anew() -> None:
    with answering(always) as url:  # which speaks HTTP/1.0
        assert read_page(target_at(url), times=2) == ["up 1\n"] * 2


def test_compressed_open_metrics_are_asked_for_and_text_is_taken_too() -> None:
    asked: list[dict[str, str]] = []

    def answer(_: str, __: str, headers: dict[str, str]) -> tuple[int, bytes]:
        asked.append(headers)
        return 200, gzip.compress(PAGE)

    with answering(answer, headers={"Content-Encoding": "gzip"}) as url:
        assert read_page(target_at(url)) == ["up 1\n"]

    assert asked[0]["Accept-Encoding"] == "gzip"
    first, second, *_ = asked[0]["Accept"].split(",")
    assert first.startswith("application/openmetrics-text")
    assert second.startswith("text/plain")


def test_credentials_are_shown_and_a_refusal_says_what_to_give(tmp_path: Path) -> None:
    expected = f"Basic {b64encode(b'reader:word').decode()}"

    def answer(_: str, __: str, headers: dict[str, str]) -> tuple[int, bytes]:
        return (200, PAGE) if headers.get("Authorization") == expected else (401, b"")

    config = http_config(tmp_path, "basic_auth: {username: reader, password: word}")
    with answering(answer) as url:
        assert read_page(target_at(url, config)) == ["up 1\n"]
        with pytest.raises(SourceError) as told:
            read_page(target_at(url))

    assert str(told.value) == (
        f"target {url}/metrics answered 401 Unauthorized; "
        "give basic_auth or authorization in its group"
    )


def test_a_bearer_token_and_headers_are_sent(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []

    def answer(_: str, __: str, headers: dict[str, str]) -> tuple[int, bytes]:
        asked.append(headers)
        return 200, PAGE

    text = "authorization: {credentials: abc}\nhttp_headers: {X-Team: {values: [gpu]}}\n"
    with answering(answer) as url:
        read_page(target_at(url, http_config(tmp_path, text)))

    assert (asked[0]["Authorization"], asked[0]["X-Team"]) == ("Bearer abc", "gpu")


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "answered 404 Not Found; check its metrics_path"), (500, "answered 500 Internal")],
)
def test_an_answer_that_is_no_page_is_an_error(status: int, words: str) -> None:
    with answering(lambda *_: (status, PAGE)) as url, pytest.raises(SourceError, match=words):
        read_page(target_at(url))


def test_a_certificate_is_checked_against_the_groups_authority(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, address="127.0.0.1")
    trusting = http_config(tmp_path, f"tls_config: {{ca_file: {certificate.cert_file.name}}}")
    blind = http_config(tmp_path, "tls_config: {insecure_skip_verify: true}")

    with answering(always, certificate=certificate) as url:
        assert read_page(target_at(url, trusting)) == ["up 1\n"]
        assert read_page(target_at(url, blind)) == ["up 1\n"]
        with pytest.raises(SourceError, match=r"(?i)certificate"):
            read_page(target_at(url))


def test_a_certificate_may_bear_another_name_that_the_group_tells(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "exporter.test")
    ca = f"ca_file: {certificate.cert_file.name}"
    named = http_config(tmp_path, f"tls_config: {{{ca}, server_name: exporter.test}}")
    unnamed = http_config(tmp_path, f"tls_config: {{{ca}}}")

    with answering(always, certificate=certificate) as url:
        assert read_page(target_at(url, named)) == ["up 1\n"]
        with pytest.raises(SourceError, match=r"(?i)certificate"):
            read_page(target_at(url, unnamed))


def test_a_server_that_wants_a_certificate_gets_the_groups(tmp_path: Path) -> None:
    server = self_signed(tmp_path, address="127.0.0.1")
    client = self_signed(tmp_path, "scraper.test")
    text = (
        f"tls_config: {{ca_file: {server.cert_file.name}, "
        f"cert_file: {client.cert_file.name}, key_file: {client.key_file.name}}}"
    )
    without = http_config(tmp_path, f"tls_config: {{ca_file: {server.cert_file.name}}}")

    with answering(always, certificate=server, client_ca=client) as url:
        assert read_page(target_at(url, http_config(tmp_path, text))) == ["up 1\n"]
        with pytest.raises(SourceError, match="cannot be scraped"):
            read_page(target_at(url, without))


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((), id="says nothing"),
        pytest.param((b"H", b"T", b"T", b"P", b"/") * 20, id="says its head byte by byte"),
        pytest.param(
            (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", *[b"a"] * 100),
            id="says its page byte by byte",
        ),
    ],
)
def test_a_scrape_ends_at_its_deadline_whatever_the_server_does(pieces: tuple[bytes, ...]) -> None:
    with talking(*pieces, pause_seconds=0.1) as url:
        started_seconds = time.monotonic()
        with pytest.raises(SourceError, match=r"did not answer within 0\.4 s"):
            read_page(replace(target_at(url), timeout_seconds=0.4))

    assert time.monotonic() - started_seconds < 2.0


def test_a_page_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reader, "LARGEST_PAGE_BYTES", 1_000_000)
    bomb = gzip.compress(b"a" * 50_000_000)

    with (
        answering(lambda *_: (200, bomb), headers={"Content-Encoding": "gzip"}) as url,
        pytest.raises(SourceError, match="too large for an exporter's"),
    ):
        read_page(target_at(url))


def test_nobody_there_and_a_broken_answer_are_told_with_the_target(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SourceError, match=rf"127\.0\.0\.1:{port}/metrics cannot be scraped: \S"):
        read_page(target_at(f"http://127.0.0.1:{port}"))

    with (
        talking(b"220 smtp\r\n\r\n") as url,
        pytest.raises(SourceError, match=r"cannot be scraped: \S"),
    ):
        read_page(target_at(url))


def test_a_proxy_of_the_surroundings_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    with answering(always) as url:
        assert read_page(target_at(url)) == ["up 1\n"]
