"""Asks the kubelet's /pods over HTTPS: one request for each call, nothing stays open."""

import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from rightslice.exporter.host.kubelet import errors
from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.limits import DEADLINE_SECONDS, LARGEST_ANSWER_BYTES
from rightslice.exporter.host.kubelet.pods import PodFacts, parse_pods

KUBELET_PORT = 10250
PERMISSION_REMEDY = "allow the exporter's service account to get nodes/proxy (nodes/pods from 1.33)"
SHORTEST_WAIT_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class PodsClient:
    """The kubelet's /pods. Without `ca_file`, the system's authorities are trusted.

    `is_insecure` takes any certificate, and so gives the token to whoever answers. The token is
    read anew for each call: Kubernetes replaces it every hour.
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    is_insecure: bool = False
    now_seconds: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._parts()

    def fetch(self, timeout_seconds: float = DEADLINE_SECONDS) -> tuple[PodFacts, ...]:
        """Ask for all pods; raises KubeletError."""
        try:
            status, body = self._get(self.now_seconds() + timeout_seconds)
        except TimeoutError as error:
            text = f"{self.url} did not answer in time: the kubelet is overloaded"
            raise KubeletError(errors.TIMEOUT, text) from error
        except ssl.SSLCertVerificationError as error:
            text = f"{self.url} is not trusted ({error.verify_message}): give the kubelet's CA file"
            raise KubeletError(errors.UNAVAILABLE, text) from error
        except (OSError, HTTPException, UnicodeError) as error:
            text = f"{self.url} cannot be read ({error}): see whether the kubelet runs"
            raise KubeletError(errors.UNAVAILABLE, text) from error
        self._check(status, len(body))
        return parse_pods(self._parsed(body))

    def _parts(self) -> SplitResult:
        parts = urlsplit(self.url)
        if "@" in parts.netloc:
            raise ValueError(
                "the kubelet's URL must not hold a user or password: give a token file"
            )
        try:
            _ = parts.port
            is_whole = parts.scheme == "https" and bool(parts.hostname) and parts.path == "/pods"
        except ValueError:  # no port
            is_whole = False
        if not is_whole:
            raise ValueError(f"the kubelet's URL must be https://HOST[:PORT]/pods, got {self.url}")
        return parts

    def _get(self, end_seconds: float) -> tuple[int, bytes]:
        parts, headers, context = self._parts(), self._authorization(), self._context()
        host, port = parts.hostname or "", parts.port or KUBELET_PORT
        with socket.create_connection((host, port), self._left_seconds(end_seconds)) as plain:
            plain.settimeout(self._left_seconds(end_seconds))
            with context.wrap_socket(plain, server_hostname=host) as secured:
                assert isinstance(secured, _TimedSocket)
                secured.left_seconds = lambda: self._left_seconds(end_seconds)
                connection = HTTPConnection(host, port)
                connection.sock = secured
                connection.request("GET", parts.path or "/pods", headers=headers)
                with connection.getresponse() as response:
                    return response.status, response.read(LARGEST_ANSWER_BYTES + 1)

    def _left_seconds(self, end_seconds: float) -> float:
        return max(end_seconds - self.now_seconds(), SHORTEST_WAIT_SECONDS)

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            text = f"the token in {self.token_file} cannot be read ({error}): mount it"
            raise KubeletError(errors.PERMISSION, text) from error
        if len(token.split()) != 1:
            text = f"{self.token_file} holds no token: name the file of a service account's"
            raise KubeletError(errors.PERMISSION, text)
        return {"Accept": "application/json", "Authorization": f"Bearer {token}"}

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            text = f"the CA file {self.ca_file} cannot be read ({error}): mount it"
            raise KubeletError(errors.PERMISSION, text) from error
        context.sslsocket_class = _TimedSocket
        if self.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _check(self, status: int, size_bytes: int) -> None:
        if status in (401, 403):
            text = f"{self.url} answered {status}: {PERMISSION_REMEDY}"
            raise KubeletError(errors.PERMISSION, text)
        if status != 200:
            raise KubeletError(errors.UNAVAILABLE, f"{self.url} answered {status}, not 200")
        if size_bytes > LARGEST_ANSWER_BYTES:
            text = f"{self.url} answered more than {LARGEST_ANSWER_BYTES} bytes: report it to us"
            raise KubeletError(errors.TOO_LARGE, text)

    def _parsed(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            text = f"{self.url} answered what is no JSON ({error}): see whether it is a kubelet"
            raise KubeletError(errors.MALFORMED, text) from error


class _TimedSocket(ssl.SSLSocket):
    """A connection that ends in time: a socket's own timeout bounds each wait, not all of them."""

    left_seconds: Callable[[], float] | None = None

    def recv_into(self, *arguments: Any) -> int:
        if self.left_seconds is not None:
            self.settimeout(self.left_seconds())
        return super().recv_into(*arguments)
