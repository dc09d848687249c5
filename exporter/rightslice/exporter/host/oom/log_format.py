"""Lines of log files, as messages: what CRI runtimes, Docker and plain programs write."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

# What a longer message has beyond this is dropped.
MESSAGE_LIMIT_BYTES = 64 * 1024
# Nodes without a clock of their own start in 1970, and Go's zero time is in the year 1.
EARLIEST_WALL_SECONDS = 946_684_800.0  # 2000-01-01

# "2026-01-02T03:04:05.123456789Z stdout F text"; more tags may follow the first, after colons.
CRI_LINE = re.compile(
    rb"(?P<time>\d{4}-\d\d-\d\dT\S{1,30}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)?"
    rb"(?: (?P<text>.*))?",
    re.DOTALL,
)
CRI_PARTIAL_MARKS = (b" stdout P", b" stderr P")
DOCKER_LINE_START = b'{"'
# A message of Docker's that is complete ends with a newline, and the stream comes next.
DOCKER_COMPLETE_MARK = b'\\n","stream":"'


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message, without its final newline.

    `wall_seconds` is the record's own time since the Unix epoch; None where none is told, or one
    that makes no sense. `fields` are those of the journal, and empty for all other formats.
    """

    text: str
    wall_seconds: float | None
    fields: Mapping[str, str] = field(default_factory=dict)


class Decoder(Protocol):
    """Makes messages of one file's lines; it keeps what is begun, so each file has its own."""

    @property
    def is_partial(self) -> bool:
        """Tell whether a message is begun: then what follows must not be left out."""

    def may_skip(self, chunk: bytes) -> bool:
        """Tell whether lines without anything of interest may be left out."""

    def feed(self, lines: Iterable[bytes]) -> Iterator[LogMessage]:
        """Take complete lines, without their newlines, and give what they complete."""

    def cut(self, dropped_bytes: int) -> None:
        """Hear that the last line fed was longer than what was fed, by so much."""

    def flush(self) -> Iterator[LogMessage]:
        """Give what is begun, as nothing more of it will come."""


DecoderFactory = Callable[[], Decoder]


def sensible_wall_seconds(stamp: str) -> float | None:
    """Read an RFC 3339 time; None for one that makes no sense, or tells no time zone."""
    try:
        time = datetime.fromisoformat(stamp)
        wall_seconds = time.timestamp() if time.tzinfo else 0.0
    except (ValueError, OverflowError):
        return None
    return wall_seconds if wall_seconds >= EARLIEST_WALL_SECONDS else None


@dataclass(slots=True)
class PartialMessage:
    """What has come of a message, and the time of its first part."""

    wall_seconds: float | None
    _parts: list[bytes] = field(default_factory=list)
    _size_bytes: int = 0

    def add(self, part: bytes) -> None:
        part = part[: MESSAGE_LIMIT_BYTES - self._size_bytes]
        if part:
            self._parts.append(part)
            self._size_bytes += len(part)

    def message(self) -> LogMessage:
        return LogMessage(b"".join(self._parts).decode("utf-8", "replace"), self.wall_seconds)


class Plain:
    """Each line is a message, and its time is not known."""

    is_partial = False

    def may_skip(self, chunk: bytes) -> bool:
        return True

    def feed(self, lines: Iterable[bytes]) -> Iterator[LogMessage]:
        for line in lines:
            yield _plain(line)

    def cut(self, dropped_bytes: int) -> None:
        """The start of a line is a message too."""

    def flush(self) -> Iterator[LogMessage]:
        return iter(())


def _plain(line: bytes) -> LogMessage:
    return LogMessage(line[:MESSAGE_LIMIT_BYTES].decode("utf-8", "replace"), None)


class CriOrDocker:
    """The lines of container runtimes: CRI, or Docker's json-file, told apart line by line.

    A line that is neither, such as the rest of one that was cut, is a message without a time.
    """

    def __init__(self) -> None:
        self._partial_by_stream: dict[bytes, PartialMessage] = {}

    @property
    def is_partial(self) -> bool:
        return bool(self._partial_by_stream)

    def may_skip(self, chunk: bytes) -> bool:
        if self._partial_by_stream:
            return False
        if chunk.startswith(DOCKER_LINE_START):
            return chunk.count(DOCKER_COMPLETE_MARK) >= chunk.count(b"\n")
        return not any(mark in chunk for mark in CRI_PARTIAL_MARKS)

    def feed(self, lines: Iterable[bytes]) -> Iterator[LogMessage]:
        for line in lines:
            match = CRI_LINE.fullmatch(line)
            if match is not None:
                stamp, stream, tag, text = match.groups(b"")
                is_complete = tag == b"F"
            else:
                row = _docker_row(line)
                if row is None:
                    yield _plain(line)
                    continue
                stamp, stream, text, is_complete = row
            yield from self._joined(stamp, stream, text, is_complete=is_complete)

    def cut(self, dropped_bytes: int) -> None:
        """The start of a line is decoded as far as it goes."""

    def flush(self) -> Iterator[LogMessage]:
        begun, self._partial_by_stream = self._partial_by_stream, {}
        for partial in begun.values():
            yield partial.message()

    def _joined(
        self, stamp: bytes, stream: bytes, text: bytes, *, is_complete: bool
    ) -> Iterator[LogMessage]:
        partial = self._partial_by_stream.pop(stream, None)
        if partial is None:
            partial = PartialMessage(sensible_wall_seconds(stamp.decode("ascii", "replace")))
        partial.add(text)
        if is_complete:
            yield partial.message()
        else:
            self._partial_by_stream[stream] = partial


def _docker_row(line: bytes) -> tuple[bytes, bytes, bytes, bool] | None:
    """Give time, stream, text, and whether the text is complete; None for another line."""
    if not line.startswith(DOCKER_LINE_START):
        return None
    try:
        row = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    text, stream, stamp = row.get("log"), row.get("stream"), row.get("time")
    if not isinstance(text, str) or stream not in ("stdout", "stderr"):
        return None
    stamp_bytes = stamp.encode("ascii", "replace") if isinstance(stamp, str) else b""
    is_complete = text.endswith("\n")
    # JSON can tell half a surrogate pair, which no text may hold.
    text_bytes = text.removesuffix("\n").encode("utf-8", "replace")
    return stamp_bytes, stream.encode("ascii"), text_bytes, is_complete
