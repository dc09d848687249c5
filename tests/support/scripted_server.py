"""A server on a Unix socket that does what a test's script says, and HTTP/2 frames to say."""

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hpack import Decoder, Encoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame

F = TypeVar("F", bound=Frame)
Field = tuple[str, str]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: tuple[Field, ...] = ((":status", "200"), ("content-type", "application/grpc"))
GOOD_END: tuple[Field, ...] = (("grpc-status", "0"),)


class Peer:
    """The server's end of a connection, on which the client has said its first words."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._decoder = Decoder()
        self._file.read(len(PREFACE))

    def send(self, *pieces: Frame | bytes) -> None:
        """Send all of it at once."""
        self._connection.sendall(as_bytes(pieces))

    def wait_for(self, kind: type[F], *, is_ack: bool = False) -> F:
        """Read on to the next frame of this kind; fails when the client goes before."""
        while True:
            header = self._file.read(9)
            if len(header) < 9:
                raise ConnectionError("the client went")
            frame, size_bytes = Frame.parse_frame_header(memoryview(header))
            frame.parse_body(memoryview(self._file.read(size_bytes)))
            if isinstance(frame, kind) and ("ACK" in frame.flags) is is_ack:
                return frame

    def wait_for_request(self) -> dict[str, str]:
        """Read a request's headers."""
        return {str(name): str(value) for name, value in self._decode(self.wait_for(HeadersFrame))}

    def hang_up(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)

    def wait_until_gone(self) -> None:
        while self._file.read(65536):
            pass

    def close(self) -> None:
        self._file.close()

    def _decode(self, frame: HeadersFrame) -> Iterable[tuple[str | bytes, str | bytes]]:
        return self._decoder.decode(frame.data)


Script = Callable[[Peer], None]


class ScriptedServer:
    """Plays its script on each connection, and then waits until the client goes.

    Ends once all clients went; where the test failed, at once.
    """

    def __init__(self, socket_path: Path, script: Script) -> None:
        self.script = script
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(socket_path))
        self._listening.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []

    def __enter__(self) -> "ScriptedServer":
        self._threads[0].start()
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for connection in self._connections if failure else ():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._play, args=(connection,)))
            self._threads[-1].start()

    def _play(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            peer = Peer(connection)
            try:
                self.script(peer)
                peer.wait_until_gone()
            finally:
                peer.close()


def headers(fields: Iterable[Field], stream_id: int = 1, *, is_end: bool = False) -> HeadersFrame:
    flags = ["END_HEADERS", *(["END_STREAM"] if is_end else [])]
    return HeadersFrame(stream_id, Encoder().encode(list(fields)), flags=flags)


def data(body: bytes, stream_id: int = 1, *, is_end: bool = False) -> DataFrame:
    return DataFrame(stream_id, body, flags=["END_STREAM"] if is_end else [])


def message(body: bytes, flag: int = 0) -> bytes:
    """Put a message's prefix before it."""
    return bytes([flag]) + len(body).to_bytes(4, "big") + body


def good_answer(body: bytes = b"", stream_id: int = 1) -> tuple[Frame, ...]:
    """Give all frames of an answer that is as it should be."""
    return (
        headers(HEAD, stream_id),
        data(message(body), stream_id),
        headers(GOOD_END, stream_id, is_end=True),
    )


def settings(values: dict[int, int] | None = None) -> SettingsFrame:
    return SettingsFrame(0, settings=values or {})


def as_bytes(pieces: Iterable[Frame | bytes]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.serialize() for piece in pieces)


def answering(*pieces: Frame | bytes) -> Script:
    """Answer the first request so."""

    def script(peer: Peer) -> None:
        peer.wait_for_request()
        peer.send(settings(), *pieces)

    return script


def answering_all(body: bytes = b"") -> Script:
    """Answer each request well."""

    def script(peer: Peer) -> None:
        peer.send(settings())
        while True:
            peer.send(*good_answer(body, peer.wait_for(HeadersFrame).stream_id))

    return script
