"""Asking the kubelet's /pods over HTTPS: a server of one's own, and what goes wrong on the way."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.limits import LARGEST_ANSWER_BYTES
from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.host.kubelet.pods_client import PodsClient

BODY = b'{"items": [{"metadata": {"namespace": "n", "name": "p"}}]}'
MAKE_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=kubelet -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)
Pieces = Callable[[], Iterator[bytes]]


class Server:
    """Sends to each client what it is told to, piece by piece, and keeps the last request."""

    def __init__(self, certificate: Path) -> None:
        self.pieces: Pieces = lambda: iter([response(BODY)])
        self.request = b""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_name("key.pem"))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._listening.getsockname()[1]}/pods"

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, suppress(OSError), self._context.wrap_socket(client, True) as secured:
                self.request = secured.recv(65536)
                for piece in self.pieces():
                    secured.sendall(piece)


def response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(MAKE_CERTIFICATE.split(), check=True, capture_output=True, cwd=folder)
    return folder / "cert.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[Server]:
    running = Server(certificate)
    yield running
    running.close()


def failure(client: PodsClient, timeout_seconds: float = 4.0) -> KubeletError:
    with pytest.raises(KubeletError) as caught:
        client.fetch(timeout_seconds)
    return caught.value


def test_pods_are_read_from_a_kubelet_that_is_trusted(server: Server, certificate: Path) -> None:
    client = PodsClient(server.url, ca_file=certificate)

    assert client.fetch() == (PodFacts("n", "p"),)
    assert server.request.startswith(b"GET /pods HTTP/1.1\r\n")
    assert b"Authorization" not in server.request


def test_a_kubelet_that_is_not_trusted_is_told_nothing(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")

    error = failure(PodsClient(server.url, token))

    assert error.reason == "unavailable"
    assert "give the kubelet's CA file" in str(error)
    assert server.request == b""


def test_any_kubelet_is_taken_where_that_is_asked_for(server: Server) -> None:
    assert PodsClient(server.url, is_insecure=True).fetch() == (PodFacts("n", "p"),)


def test_the_token_is_read_anew_for_each_call(
    server: Server, certificate: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    client = PodsClient(server.url, token, certificate)
    told = []
    for text in ("first\n", "second\n"):
        token.write_text(text)
        client.fetch()
        told.append(server.request)

    assert [b"Bearer first\r\n" in told[0], b"Bearer second\r\n" in told[1]] == [True, True]


@pytest.mark.parametrize("token", [None, b"", b"a\r\nX-Other: b", b"\xff"])
def test_what_is_no_token_is_not_sent(
    token: bytes | None, server: Server, certificate: Path, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if token is not None:
        file.write_bytes(token)

    assert failure(PodsClient(server.url, file, certificate)).reason == "permission"
    assert server.request == b""


def test_a_missing_ca_file_is_told(server: Server, tmp_path: Path) -> None:
    error = failure(PodsClient(server.url, ca_file=tmp_path / "missing.pem"))

    assert error.reason == "permission"
    assert "missing.pem" in str(error)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(response(b"", "401 Unauthorized"), "permission", id="no token"),
        pytest.param(response(b"no", "403 Forbidden"), "permission", id="forbidden"),
        pytest.param(response(b"", "500 Internal Server Error"), "unavailable", id="error"),
        pytest.param(response(b"{"), "malformed", id="cut off JSON"),
        pytest.param(response(b"[" * 100_000), "malformed", id="deep JSON"),
        pytest.param(response(b"\xff"), "malformed", id="no UTF-8"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "unavailable", id="another protocol"),
        pytest.param(b"", "unavailable", id="nothing"),
    ],
)
def test_a_bad_answer_has_a_reason(
    answer: bytes, reason: str, server: Server, certificate: Path
) -> None:
    server.pieces = lambda: iter([answer])

    assert failure(PodsClient(server.url, ca_file=certificate)).reason == reason


@pytest.mark.parametrize("length", [b"Content-Length: 99999999999\r\n", b""])
def test_an_answer_without_end_is_cut_off(length: bytes, server: Server, certificate: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"
        for _ in range(LARGEST_ANSWER_BYTES // (1 << 20) + 2):
            yield b" " * (1 << 20)

    server.pieces = endless
    client = PodsClient(server.url, ca_file=certificate)

    assert failure(client, timeout_seconds=30.0).reason == "too_large"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nA: ", id="head"),
        pytest.param(response(b"x" * 999)[:-998], id="body"),
    ],
)
def test_an_answer_that_trickles_is_left_within_the_deadline(
    start: bytes, server: Server, certificate: Path
) -> None:
    def trickle() -> Iterator[bytes]:
        yield start
        while True:
            time.sleep(0.02)
            yield b"X"

    server.pieces = trickle
    before_seconds = time.monotonic()

    error = failure(PodsClient(server.url, ca_file=certificate), timeout_seconds=0.2)

    assert error.reason == "timeout"
    assert time.monotonic() - before_seconds < 1.0


def test_a_silent_kubelet_is_left_within_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = PodsClient(f"https://127.0.0.1:{mute.getsockname()[1]}/pods")

        assert failure(client, timeout_seconds=0.1).reason == "timeout"


@pytest.mark.parametrize("host", ["127.0.0.1:1", "a" * 70], ids=["no listener", "no host name"])
def test_a_kubelet_that_is_not_there_is_unavailable(host: str) -> None:
    assert failure(PodsClient(f"https://{host}/pods")).reason == "unavailable"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:10255/pods",
        "https:///pods",
        "127.0.0.1",
        "https://host:port/pods",
        "https://host:99999/pods",
        "https://host/podz",
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"the kubelet.s URL must be https://HOST"):
        PodsClient(url)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="give a token file") as refusal:
        PodsClient("https://user:secret@host/pods")

    assert "secret" not in str(refusal.value)
