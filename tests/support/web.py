"""A loopback HTTP server that answers what a test tells it to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# (path, request body, headers) -> (status, body)
Answer = Callable[[str, str, dict[str, str]], tuple[int, bytes]]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve for the length of a test; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode()
            status, content = answer(self.path, body, dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _reply  # noqa: N815  # the base's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
