"""The journal's export format, as `journalctl -o export` writes it.

See https://systemd.io/JOURNAL_EXPORT_FORMATS/. A field with control characters is written as its
name, a newline, its length, and then its bytes: those may hold empty lines and lines that look
like fields. Whoever may write to the journal could forge entries if lengths were not followed, so
no part of such a file may be left out.
"""

from collections.abc import Iterable, Iterator

from rightslice.exporter.host.oom.log_format import (
    EARLIEST_WALL_SECONDS,
    MESSAGE_LIMIT_BYTES,
    LogMessage,
)

FIELDS = (
    "_PID",
    "_UID",
    "_SYSTEMD_CGROUP",
    "_COMM",
    "CONTAINER_ID_FULL",
    "CONTAINER_NAME",
    "SYSLOG_IDENTIFIER",
    "_TRANSPORT",
)
MESSAGE = b"MESSAGE"
# When the message was made, and when the journal got it.
SOURCE_TIME, RECEIPT_TIME = b"_SOURCE_REALTIME_TIMESTAMP", b"__REALTIME_TIMESTAMP"
KEPT = frozenset((MESSAGE, SOURCE_TIME, RECEIPT_TIME, *(name.encode("ascii") for name in FIELDS)))
FIELD_LIMIT_BYTES = 4096
LENGTH_BYTES = 8
# The journal itself takes no larger field (DATA_SIZE_MAX).
LONGEST_FIELD_BYTES = 768 * 1024 * 1024
MICROSECONDS_PER_SECOND = 1_000_000


class JournalExport:
    """Makes a message of each entry that has one."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._is_begun = False
        self._is_broken = False
        self._binary: _BinaryField | None = None

    @property
    def is_partial(self) -> bool:
        return self._is_begun

    def may_skip(self, chunk: bytes) -> bool:
        return False

    def feed(self, lines: Iterable[bytes]) -> Iterator[LogMessage]:
        for line in lines:
            if self._binary is not None:
                self._feed_binary(self._binary, line)
            elif not line:
                yield from self.flush()
            else:
                self._is_begun = True
                name, is_text, value = line.partition(b"=")
                if not is_text:
                    self._binary = _BinaryField(name)
                elif name in KEPT:
                    self._keep(name, value)

    def cut(self, dropped_bytes: int) -> None:
        if self._binary is not None:
            self._binary.count_down(dropped_bytes)
            self._end_binary(self._binary)

    def flush(self) -> Iterator[LogMessage]:
        values, is_broken = self._values, self._is_broken or self._binary is not None
        self._values, self._is_begun, self._is_broken, self._binary = {}, False, False, None
        if MESSAGE in values and not is_broken:
            yield _message(values)

    def _keep(self, name: bytes, value: bytes) -> None:
        """Keep the first value: a field may be there more than once."""
        limit_bytes = MESSAGE_LIMIT_BYTES if name == MESSAGE else FIELD_LIMIT_BYTES
        self._values.setdefault(name, value[:limit_bytes])

    def _feed_binary(self, binary: "_BinaryField", line: bytes) -> None:
        binary.add(line + b"\n")
        self._end_binary(binary)

    def _end_binary(self, binary: "_BinaryField") -> None:
        if binary.is_open:
            return
        self._binary = None
        # A wrong length: what follows, up to an empty line, belongs to nothing.
        self._is_broken |= binary.is_broken
        if binary.name in KEPT:
            self._keep(binary.name, binary.value())


class _BinaryField:
    """A field told by its length; the newline after it counts as part of it."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self._length_bytes: int | None = None
        self._left_bytes = 0
        self._data = bytearray()

    @property
    def is_open(self) -> bool:
        return self._length_bytes is None or self._left_bytes > 0

    @property
    def is_broken(self) -> bool:
        return self._left_bytes < 0

    def add(self, data: bytes) -> None:
        # Until the length is known, its bytes are kept: one of them may be a newline.
        room_bytes = LENGTH_BYTES + MESSAGE_LIMIT_BYTES - len(self._data)
        self._data += data[:room_bytes]
        if self._length_bytes is not None:
            self._left_bytes -= len(data)
        elif len(self._data) >= LENGTH_BYTES:
            self._length_bytes = int.from_bytes(self._data[:LENGTH_BYTES], "little")
            self._left_bytes = self._length_bytes + 1 - (len(self._data) - LENGTH_BYTES)
            self._left_bytes -= max(len(data) - room_bytes, 0)
            if self._length_bytes > LONGEST_FIELD_BYTES:
                self._left_bytes = -1

    def count_down(self, dropped_bytes: int) -> None:
        self._left_bytes -= dropped_bytes

    def value(self) -> bytes:
        return bytes(self._data[LENGTH_BYTES : LENGTH_BYTES + (self._length_bytes or 0)])


def _message(values: dict[bytes, bytes]) -> LogMessage:
    return LogMessage(
        values[MESSAGE].decode("utf-8", "replace"),
        _wall_seconds(values.get(SOURCE_TIME) or values.get(RECEIPT_TIME)),
        {
            name: value.decode("utf-8", "replace")
            for name in FIELDS
            if (value := values.get(name.encode("ascii"))) is not None
        },
    )


def _wall_seconds(stamp_us: bytes | None) -> float | None:
    if stamp_us is None or not stamp_us.isdigit() or len(stamp_us) > LENGTH_BYTES * 2:
        return None
    wall_seconds = int(stamp_us) / MICROSECONDS_PER_SECOND
    return wall_seconds if wall_seconds >= EARLIEST_WALL_SECONDS else None
