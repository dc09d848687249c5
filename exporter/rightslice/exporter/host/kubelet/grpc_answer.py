"""What came of one unary gRPC call, put together from the events of its HTTP/2 stream.

Knows no socket and no clock. The protocol:
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from urllib.parse import unquote_to_bytes

from h2.events import (
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

# Before a message stands whether it is compressed, and how long it is.
PREFIX = struct.Struct(">BI")
CONTENT_TYPE = b"application/grpc"
# What stands between us and a server answers so while the server is away.
AWAY_HTTP_STATUSES = frozenset({b"429", b"502", b"503", b"504"})
LONGEST_TEXT_BYTES = 300
LONGEST_CODE_DIGITS = 3


class Code(IntEnum):
    """What a call's end is called by gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class AnswerError(Exception):
    """What came is no answer of gRPC."""


class AnswerTooLargeError(Exception):
    """The server announced more than we take."""


class StatusError(Exception):
    """The server answered with an error; `code` may be a number that gRPC has no name for."""

    def __init__(self, code: int, details: str) -> None:
        name = Code(code).name if code in set(Code) else f"status {code}"
        super().__init__(f"{name}: {details}" if details else name)
        self.code = code
        self.details = details


class UnaryAnswer:
    """The answer on one stream, as far as it came.

    Whatever shows that it cannot become one is raised at once, so that nobody makes it grow: the
    errors above, or ConnectionError where the server gave the call up.
    """

    def __init__(self, stream_id: int, largest_bytes: int) -> None:
        self.is_complete = False
        self._stream_id = stream_id
        self._largest_bytes = largest_bytes
        self._fields: dict[bytes, bytes] = {}
        self._body = bytearray()

    def take(self, event: Event) -> None:
        """Take what happened on the connection next; what is of other streams changes nothing."""
        if self.is_complete or getattr(event, "stream_id", None) != self._stream_id:
            return
        match event:
            case ResponseReceived():
                self._begin(event.headers or ())
            case DataReceived():
                self._add(event.data or b"")
            case TrailersReceived():
                self._fields = dict(event.headers or ())
            case StreamEnded():
                self.is_complete = True
            case StreamReset():
                raise ConnectionAbortedError(f"the call was reset with code {event.error_code:d}")

    def message(self) -> bytearray:
        """Give the complete answer's one message; raise StatusError where it is an error."""
        code = self._fields.get(b"grpc-status", b"")
        if not code.isdigit() or len(code) > LONGEST_CODE_DIGITS:
            raise AnswerError("it ends without a status")
        if int(code) != Code.OK:
            details = unquote_to_bytes(self._fields.get(b"grpc-message", b""))
            raise StatusError(int(code), _text(details))
        if len(self._body) < PREFIX.size or len(self._body) < self._announced_bytes():
            raise AnswerError("it ends before its message does")
        del self._body[: PREFIX.size]
        return self._body

    def _begin(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        # Where no trailers follow, the status is among these.
        self._fields = dict(headers)
        status = self._fields.get(b":status", b"")
        if status in AWAY_HTTP_STATUSES:
            raise ConnectionRefusedError(f"HTTP status {_text(status)}")
        if status != b"200":
            raise AnswerError(f"HTTP status {_text(status)}")
        content_type = self._fields.get(b"content-type", b"")
        if not content_type.startswith(CONTENT_TYPE):
            raise AnswerError(f"content type {_text(content_type) or 'missing'}")

    def _add(self, data: bytes) -> None:
        self._body += data
        if len(self._body) >= PREFIX.size and len(self._body) > self._announced_bytes():
            raise AnswerError("more than one message")

    def _announced_bytes(self) -> int:
        """Read how long prefix and message are together."""
        is_compressed, size_bytes = PREFIX.unpack_from(self._body)
        if is_compressed:
            raise AnswerError("a compressed message, which we did not ask for")
        if size_bytes > self._largest_bytes:
            raise AnswerTooLargeError(f"{size_bytes} bytes of at most {self._largest_bytes}")
        return int(PREFIX.size + size_bytes)


def _text(raw: bytes) -> str:
    return raw[:LONGEST_TEXT_BYTES].decode("utf-8", "replace")
