"""A loopback HTTP server that answers what a test tells it to."""

import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.certificates import Certificate

# (path, request body, headers) -> (status, body)
Answer = Callable[[str, str, dict[str, str]], tuple[int, bytes]]


class QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up, which tests make them do."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _context(certificate: Certificate, client_ca: Certificate | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert_file, certificate.key_file)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca.cert_file)
    return context


@contextmanager
def answering(
    answer: Answer,
    *,
    certificate: Certificate | None = None,
    client_ca: Certificate | None = None,
    headers: Mapping[str, str] | None = None,
    connections: list[Any] | None = None,
) -> Iterator[str]:
    """Serve for the length of a test; gives the base URL.

    With a certificate it speaks TLS, and asks clients for one that `client_ca` signed. `headers`
    go with each answer. Connections are kept open where `connections` is given, and noted there.
    """

    class Handler(BaseHTTPRequestHandler):
        if connections is not None:
            protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            if connections is not None:
                connections.append(self.client_address)

        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode()
            status, content = answer(self.path, body, dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _reply  # noqa: N815  # the base's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
            """Keep the test's output clean."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        server.socket = _context(certificate, client_ca).wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
