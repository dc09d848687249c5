"""Serves /metrics, /healthz and /readyz. Touches no NVML: a scrape renders what the sampler has."""

import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rightslice.exporter.sampler import Sampler

log = logging.getLogger(__name__)

# A client that stops reading or writing is let go; one that scrapes every minute keeps its
# connection, and with it its thread.
CLIENT_TIMEOUT_SECONDS = 75
# One that connects and asks nothing takes a place that a scraper may need.
FIRST_REQUEST_SECONDS = 5
INDEX = b"""<!doctype html><title>rightslice-exporter</title>
<h1>rightslice-exporter</h1><p><a href="/metrics">metrics</a> <a href="/healthz">health</a>
<a href="/readyz">readiness</a></p>
"""

Answer = tuple[HTTPStatus, str, bytes]


def _routes(sampler: Sampler) -> dict[str, Callable[[str], Answer]]:
    def metrics(accept: str) -> Answer:
        page, content_type = sampler.page(accept)
        return HTTPStatus.OK, content_type, page

    def readiness(_: str) -> Answer:
        why_not = sampler.not_ready_text
        if not why_not:
            return HTTPStatus.OK, "text/plain", b"ready\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{why_not}\n".encode()

    return {
        "/": lambda _: (HTTPStatus.OK, "text/html; charset=utf-8", INDEX),
        "/metrics": metrics,
        "/healthz": lambda _: (HTTPStatus.OK, "text/plain", b"ok\n"),
        "/readyz": readiness,
    }


class Server(ThreadingHTTPServer):
    """An HTTP server that knows its sampler."""

    daemon_threads = True
    # A burst of scrapers and probes waits to be answered rather than for its packets to be resent.
    request_queue_size = 128
    # Each client has a thread as long as it stays; more than this are no scrapers.
    most_clients = 64

    def __init__(self, address: tuple[str, int], sampler: Sampler) -> None:
        self.routes, self.sampler = _routes(sampler), sampler
        every_interface = not address[0] and socket.has_dualstack_ipv6()
        if ":" in address[0] or every_interface:
            self.address_family = socket.AF_INET6
        self._is_dual = every_interface
        self._free = threading.BoundedSemaphore(self.most_clients)
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Bind without asking the resolver for this host's full name, which may hang."""
        if self._is_dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or not at all when too many are there."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Make room for another client when this one has gone."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a client that went away quietly, and any other failure loudly."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("%s went away: %s", client_address, error)
        else:
            log.exception("answering %s failed", client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server
    timeout = FIRST_REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    # Head and body leave together, at once.
    wbufsize = -1
    disable_nagle_algorithm = True
    server_version = "rightslice-exporter"
    sys_version = ""

    def do_GET(self) -> None:
        self.connection.settimeout(CLIENT_TIMEOUT_SECONDS)
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not found; see /metrics\n")
        else:
            self._answer(*route(self.headers.get("Accept", "")))
            if self.command == "GET" and route is self.server.routes["/metrics"]:
                self.wfile.flush()
                self.server.sampler.scraped()

    do_HEAD = do_GET  # noqa: N815  # the base's name

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
        """Say nothing: a line per scrape helps nobody."""
