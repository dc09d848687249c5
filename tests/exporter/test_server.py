"""What a scraper and a probe get over HTTP, also while a driver call hangs."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pynvml
import pytest
from support.simulated import (
    IDENTITY,
    START_SECONDS,
    Simulate,
    SimulatedNode,
    simulated_card,
    wait_until,
)

from rightslice.exporter.exposition import OPENMETRICS_CONTENT_TYPE, TEXT_CONTENT_TYPE
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.server import Handler, Server

pytestmark = pytest.mark.integration

LOOPBACK = ("127.0.0.1", 0)


def has_ipv6_loopback() -> bool:
    """Tell whether this machine, perhaps a container, has an IPv6 loopback address."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class SmallServer(Server):
    """A server that is full with two clients."""

    most_clients = 2


@contextmanager
def serving(
    sampler: Sampler, address: tuple[str, int] = LOOPBACK, kind: type[Server] = Server
) -> Iterator[HTTPConnection]:
    """Serve a sampler for the length of the block, and give a connection to it."""
    with kind(address, sampler) as server:
        # A short poll, so that stopping takes no time.
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        host, port = server.server_address[:2]
        connection = HTTPConnection(str(host), port, timeout=10)
        try:
            yield connection
        finally:
            connection.close()
            server.shutdown()
            thread.join(10)


def get(connection: HTTPConnection, path: str, accept: str = "") -> tuple[int, str, str]:
    """Make a request: status, content type, body."""
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    return response.status, response.headers["Content-Type"], response.read().decode()


def is_served(host: str, port: int) -> bool:
    """Tell whether a new client is answered, not refused."""
    with closing(HTTPConnection(host, port, timeout=10)) as connection:
        try:
            return get(connection, "/healthz")[0] == 200
        except ConnectionError:
            return False


def head(connection: HTTPConnection, path: str) -> tuple[HTTPResponse, bytes]:
    connection.request("HEAD", path)
    response = connection.getresponse()
    return response, response.read()


@pytest.fixture
def node(simulate: Simulate) -> SimulatedNode:
    return simulate(simulated_card())


@pytest.fixture
def sampler(node: SimulatedNode) -> Sampler:
    """A sampler that has read its card twice."""
    sampler = node.sampler()
    node.sample_rounds(sampler, 2)
    return sampler


def test_a_scrape_gets_the_page_in_the_text_format(sampler: Sampler) -> None:
    with serving(sampler) as connection:
        answer = get(connection, "/metrics")

    assert answer == (200, TEXT_CONTENT_TYPE, sampler.page()[0].decode())


def test_a_scrape_that_asks_for_openmetrics_gets_it(sampler: Sampler) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"

    with serving(sampler) as connection:
        answer = get(connection, "/metrics", accept)

    assert answer == (200, OPENMETRICS_CONTENT_TYPE, sampler.page(accept)[0].decode())


def test_a_query_string_changes_nothing(sampler: Sampler) -> None:
    with serving(sampler) as connection:
        status, _, body = get(connection, "/metrics?collect[]=gpu_memory")

    assert (status, body) == (200, sampler.page()[0].decode())


def test_a_scrape_reads_no_card(node: SimulatedNode, sampler: Sampler) -> None:
    asked_count = node.library.call_count

    with serving(sampler) as connection:
        get(connection, "/metrics")
        get(connection, "/readyz")

    assert node.library.call_count == asked_count


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/"])
def test_a_head_request_gets_the_length_and_no_body(path: str, sampler: Sampler) -> None:
    with serving(sampler) as connection:
        _, _, body = get(connection, path)
        response, nothing = head(connection, path)

    assert response.status == 200
    assert response.headers["Content-Length"] == str(len(body.encode()))
    assert nothing == b""


def test_the_index_links_to_the_pages(sampler: Sampler) -> None:
    with serving(sampler) as connection:
        status, content_type, body = get(connection, "/")

    assert (status, content_type) == (200, "text/html; charset=utf-8")
    assert [path for path in ("/metrics", "/healthz", "/readyz") if f'"{path}"' in body] == [
        "/metrics",
        "/healthz",
        "/readyz",
    ]


@pytest.mark.parametrize("path", ["/metric", "/metrics/", "/healthz/x", "/../metrics"])
def test_any_other_path_is_not_found(path: str, sampler: Sampler) -> None:
    with serving(sampler) as connection:
        status, _, body = get(connection, path)

    assert (status, body) == (404, "not found; see /metrics\n")


def test_nothing_can_be_written(sampler: Sampler) -> None:
    with serving(sampler) as connection:
        connection.request("POST", "/metrics", body=b"x")
        status = connection.getresponse().status

    assert status == 501


def test_the_software_below_is_not_told(sampler: Sampler) -> None:
    with serving(sampler) as connection:
        response, _ = head(connection, "/healthz")

    assert response.headers["Server"].strip() == "rightslice-exporter"


def test_it_is_alive_but_not_ready_before_a_card_was_read(node: SimulatedNode) -> None:
    with serving(node.sampler()) as connection:
        health, readiness = get(connection, "/healthz"), get(connection, "/readyz")

    assert health == (200, "text/plain", "ok\n")
    assert readiness[:2] == (503, "text/plain")
    assert readiness[2].startswith("0 cards are being read, --readiness.min-gpus asks for 1")


def test_readiness_says_why_nvml_is_not_open(node: SimulatedNode) -> None:
    node.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    sampler = node.sampler()
    sampler.sample()

    with serving(sampler) as connection:
        status, _, body = get(connection, "/readyz")

    assert status == 503
    assert body == (
        "0 cards are being read, --readiness.min-gpus asks for 1: "
        "nvmlInit: Driver Not Loaded (NVML code 9)\n"
    )


def test_it_is_ready_while_a_card_is_read_and_not_when_readings_stop(
    node: SimulatedNode, sampler: Sampler
) -> None:
    with serving(sampler) as connection:
        ready = get(connection, "/readyz")
        node.clock.advance(11)
        lapsed = get(connection, "/readyz")

    assert ready == (200, "text/plain", "ready\n")
    assert lapsed[0] == 503


def test_a_driver_call_that_hangs_delays_no_answer(node: SimulatedNode, sampler: Sampler) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang(*_: Any) -> int:
        entered.set()
        release.wait(10)
        return int(pynvml.NVML_ERROR_UNKNOWN)

    node.answer("nvmlDeviceGetMemoryInfo_v2", hang)
    hung = threading.Thread(target=sampler.sample)
    hung.start()
    entered.wait(10)
    with serving(sampler) as connection:
        statuses = [get(connection, path)[0] for path in ("/metrics", "/healthz", "/readyz")]
    release.set()
    hung.join(10)

    assert statuses == [200, 200, 200]


def test_health_and_readiness_wait_for_no_page() -> None:
    entered, release = threading.Event(), threading.Event()
    reads_clock = iter((False, False, True))

    def wall_seconds() -> float:
        # Two calls are at the start of the process, the third holds up a page.
        if next(reads_clock):
            entered.set()
            release.wait(10)
        return START_SECONDS

    clock = Clock(wall_seconds, lambda: START_SECONDS, lambda stop, _: stop.is_set())
    sampler = Sampler(Host("node-a", NOWHERE, clock), {}, clock, IDENTITY)
    slow_page = threading.Thread(target=sampler.page)
    slow_page.start()
    entered.wait(10)
    with serving(sampler) as connection:
        statuses = [get(connection, path)[0] for path in ("/healthz", "/readyz")]
    release.set()
    slow_page.join(10)

    assert statuses == [200, 503]


def test_a_client_that_says_nothing_holds_up_no_other(sampler: Sampler) -> None:
    with (
        serving(sampler) as connection,
        socket.create_connection((connection.host, connection.port), timeout=10),
    ):
        status, _, _ = get(connection, "/metrics")

    assert status == 200


def test_a_client_that_asks_for_nothing_is_let_go_sooner_than_one_that_asked(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "timeout", 0.1)
    with (
        serving(sampler) as connection,
        socket.create_connection((connection.host, connection.port), timeout=10) as silent,
    ):
        get(connection, "/healthz")
        before = connection.sock
        said = silent.recv(1)
        status, _, _ = get(connection, "/healthz")

        assert said == b""
        assert (status, connection.sock) == (200, before)


def test_many_scrapes_at_once_each_get_a_whole_page(sampler: Sampler) -> None:
    pages: list[str] = []

    def scrape(host: str, port: int) -> None:
        connection = HTTPConnection(host, port, timeout=10)
        pages.append(get(connection, "/metrics")[2])
        connection.close()

    with serving(sampler) as connection:
        arguments = (connection.host, connection.port)
        threads = [threading.Thread(target=scrape, args=arguments) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert pages == [sampler.page()[0].decode()] * 8


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_served(sampler: Sampler) -> None:
    with serving(sampler, ("::1", 0)) as connection:
        status, _, _ = get(connection, "/healthz")

    assert status == 200


def test_a_port_that_is_taken_is_an_error(sampler: Sampler) -> None:
    with serving(sampler) as connection, pytest.raises(OSError, match="in use"):
        Server((connection.host, connection.port), sampler)


@pytest.mark.skipif(not has_ipv6_loopback(), reason="no IPv6 on this machine")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_every_interface_is_that_of_both_protocols(host: str, node: SimulatedNode) -> None:
    with serving(node.sampler(), ("", 0)) as connection:
        there = HTTPConnection(host, connection.port, timeout=10)
        status, _, _ = get(there, "/healthz")
        there.close()

    assert status == 200


def test_a_scraper_keeps_its_connection(node: SimulatedNode) -> None:
    with serving(node.sampler()) as connection:
        get(connection, "/metrics")
        before = connection.sock
        get(connection, "/metrics")
        after = connection.sock

    assert before is not None
    assert after is before


def test_a_client_too_many_is_refused_and_harms_none_of_the_others(sampler: Sampler) -> None:
    with (
        serving(sampler, kind=SmallServer) as first,
        closing(HTTPConnection(first.host, first.port, timeout=10)) as second,
    ):
        sockets = [get(each, "/healthz") and each.sock for each in (first, second)]
        refused = [not is_served(first.host, first.port) for _ in range(5)]
        statuses = [get(each, "/metrics")[0] for each in (first, second)]

        assert refused == [True] * 5
        assert statuses == [200, 200]
        assert [first.sock, second.sock] == sockets


def test_a_client_that_leaves_makes_room_for_another(sampler: Sampler) -> None:
    with serving(sampler, kind=SmallServer) as first:
        get(first, "/healthz")
        with closing(HTTPConnection(first.host, first.port, timeout=10)) as second:
            get(second, "/healthz")
            refused = not is_served(first.host, first.port)

        wait_until(lambda: is_served(first.host, first.port))

    assert refused


def test_only_a_page_that_was_got_whole_counts_as_a_scrape(simulate: Simulate) -> None:
    sampler = simulate(simulated_card()).sampler()
    scrapes: list[float] = []
    sampler.scraped = lambda: scrapes.append(1)  # type: ignore[method-assign]

    with serving(sampler) as connection:
        get(connection, "/metrics")
        wait_until(lambda: len(scrapes) == 1)
        for path in ("/healthz", "/readyz", "/"):
            get(connection, path)
        connection.request("HEAD", "/metrics")
        connection.getresponse().read()
        get(connection, "/metrics?name=other")
        wait_until(lambda: len(scrapes) == 2)

    assert len(scrapes) == 2
