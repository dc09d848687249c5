"""Speaks gRPC over a Unix socket: unary calls with an empty request, one after the other."""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event
from h2.exceptions import H2Error, TooManyStreamsError
from h2.settings import SettingCodes, Settings

from rightslice.exporter.host.kubelet.grpc_answer import (
    PREFIX,
    AnswerError,
    StatusError,
    UnaryAnswer,
)

EMPTY_REQUEST = PREFIX.pack(0, 0)
CHUNK_BYTES = 64 * 1024
# How much a server may send before we say that we read it; of the protocol, 64 KiB.
WINDOW_BYTES = 1024 * 1024
LARGEST_FRAME_BYTES = 16 * 1024
LARGEST_HEADERS_BYTES = 64 * 1024
SETTINGS = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
    SettingCodes.MAX_FRAME_SIZE: LARGEST_FRAME_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: LARGEST_HEADERS_BYTES,
}
FRAME_HEADER_BYTES = 9
GOAWAY = 0x7
LARGEST_STREAM_ID = 2**31 - 1
# h2 remembers up to 65,536 finished streams of a connection, which would be 8 MiB after days.
LAST_STREAM_ID = 2001
# We give up first, and so know that it was the time: a server that does may say anything.
SERVER_MORE_SECONDS = 1.0
LONGEST_TIMEOUT_MILLISECONDS = 99_999_999  # of the protocol


class GrpcConnection:
    """A connection to the server on a Unix socket. Where there is none, OSError is raised.

    One thread may call; any may close, which ends a call that waits.
    """

    def __init__(
        self,
        socket_path: Path,
        largest_answer_bytes: int,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._largest_answer_bytes = largest_answer_bytes
        self._now_seconds = now_seconds
        self._in_use = threading.Lock()
        self._unread = bytearray()
        self._is_going = False
        self._h2 = _greeting()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            # Never waits on a Unix socket: where the server's queue is full, it fails (EAGAIN).
            self._socket.setblocking(False)
            self._socket.connect(str(socket_path))
        except BaseException:
            self._socket.close()
            raise

    def is_usable(self, end_seconds: float) -> bool:
        """Tell whether another call may be made; reads what the server told since the last one."""
        if self._h2.get_next_available_stream_id() > LAST_STREAM_ID:
            return False
        try:
            with self._in_use:
                while True:
                    self._send(end_seconds)
                    self._check_time(end_seconds)
                    self._socket.setblocking(False)
                    self._take_in(self._socket.recv(CHUNK_BYTES))
        except BlockingIOError:  # that was all
            return not self._is_going and self._h2.open_outbound_streams == 0
        except (OSError, AnswerError):
            return False

    def call(self, method: str, end_seconds: float) -> bytearray:
        """Give the bytes of the answer, by the clock's `end_seconds`.

        Raises OSError, such as TimeoutError and ConnectionError, and the errors of `grpc_answer`.
        The connection outlives no failure but StatusError, which is an answer as good as any.
        """
        try:
            with self._in_use:
                return self._exchange(method, end_seconds)
        except StatusError:
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the socket. Harmless when repeated."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a call that waits
        # While a call waits on the descriptor, its number must not become another file's.
        with self._in_use:
            self._socket.close()

    def _exchange(self, method: str, end_seconds: float) -> bytearray:
        stream_id = self._begin(method, self._check_time(end_seconds))
        answer = UnaryAnswer(stream_id, self._largest_answer_bytes)
        is_asked = False
        while not answer.is_complete:
            if not is_asked and self._h2.local_flow_control_window(stream_id) >= len(EMPTY_REQUEST):
                self._h2.send_data(stream_id, EMPTY_REQUEST, end_stream=True)
                is_asked = True
            self._send(end_seconds)
            for event in self._receive(end_seconds, stream_id):
                answer.take(event)
        self._send(end_seconds)
        return answer.message()

    def _begin(self, method: str, timeout_seconds: float) -> int:
        timeout_milliseconds = math.ceil((timeout_seconds + SERVER_MORE_SECONDS) * 1000)
        stream_id = self._h2.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),  # servers in Go reject a socket's path
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("grpc-timeout", f"{min(timeout_milliseconds, LONGEST_TIMEOUT_MILLISECONDS)}m"),
            ("user-agent", "rightslice-exporter"),
        ]
        try:
            self._h2.send_headers(stream_id, headers)
        except TooManyStreamsError as error:
            raise ConnectionRefusedError("it takes no calls at present") from error
        return stream_id

    def _send(self, end_seconds: float) -> None:
        """Send what h2 has to say: requests, and also its answers to settings and pings."""
        data = self._h2.data_to_send()
        if data:
            self._socket.settimeout(self._check_time(end_seconds))
            # A server that hung up may have answered before, or told why: that is read next.
            with suppress(ConnectionError):
                self._socket.sendall(data)

    def _receive(self, end_seconds: float, stream_id: int) -> list[Event]:
        self._socket.settimeout(self._check_time(end_seconds))
        return self._take_in(self._socket.recv(CHUNK_BYTES), stream_id)

    def _take_in(self, data: bytes, stream_id: int = 0) -> list[Event]:
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._unread += data
        return [event for frame in self._frames(stream_id) for event in self._events(frame)]

    def _frames(self, stream_id: int) -> Iterator[bytes]:
        """Take complete frames off what was read, one at a time, all but GOAWAY.

        h2 lets a connection end at once with GOAWAY, which says only that no new calls are taken,
        and loses what it read together with a frame that it does not expect after that.
        """
        while len(self._unread) >= FRAME_HEADER_BYTES:
            body_bytes = int.from_bytes(self._unread[:3], "big")
            if body_bytes > LARGEST_FRAME_BYTES:
                raise AnswerError("it is not in HTTP/2")
            if len(self._unread) < FRAME_HEADER_BYTES + body_bytes:
                return
            frame = bytes(self._unread[: FRAME_HEADER_BYTES + body_bytes])
            del self._unread[: len(frame)]
            if frame[3] == GOAWAY:
                self._go_away(frame[FRAME_HEADER_BYTES:], stream_id)
            else:
                yield frame

    def _go_away(self, body: bytes, stream_id: int) -> None:
        """Remember that the server goes; raise where it says that it will not answer the call."""
        self._is_going = True
        last_stream_id = int.from_bytes(body[:4], "big") & LARGEST_STREAM_ID
        if last_stream_id < stream_id:
            code = int.from_bytes(body[4:8], "big")
            raise ConnectionAbortedError(f"the server goes away with code {code}")

    def _events(self, frame: bytes) -> list[Event]:
        try:
            events = self._h2.receive_data(frame)
            for event in events:
                if isinstance(event, DataReceived):
                    size_bytes = event.flow_controlled_length or 0
                    self._h2.acknowledge_received_data(size_bytes, event.stream_id or 0)
        except H2Error as error:
            raise AnswerError(f"against the rules of HTTP/2: {error}") from error
        return events

    def _check_time(self, end_seconds: float) -> float:
        """Give the time that is left; raise TimeoutError where none is."""
        left_seconds = end_seconds - self._now_seconds()
        if left_seconds <= 0:
            raise TimeoutError("the time is over")
        return left_seconds


def _greeting() -> H2Connection:
    """Begin the protocol's side of a connection: what it says first is ready to be sent."""
    connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    connection.local_settings = Settings(client=True, initial_values=SETTINGS)
    connection.initiate_connection()
    connection.increment_flow_control_window(WINDOW_BYTES - connection.inbound_flow_control_window)
    return connection
