"""Rotated log files: their names, their order, and reading them, compressed ones too.

The kubelet renames 0.log to 0.log.20260102-030405 and compresses that at the next rotation, by
way of a .tmp file. Docker renames x-json.log to x-json.log.1, and .1 to .2; it compresses at once,
and while it does so the whole file is there beside the unfinished one. logrotate does either.
"""

import errno
import os
import re
import stat
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rightslice.exporter.host.oom.log_position import FINGERPRINT_BYTES, Source

# A FIFO in the place of a file must not be waited for.
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
ROTATED = re.compile(r"(?:\.(?P<number>\d{1,4})|[.-](?P<date>\d{8}[-T\d]*))(?P<packed>\.gz)?")
ROTATED_NAME = re.compile(rf"(?P<log>.+?){ROTATED.pattern}")
PACKED_SUFFIX = ".gz"
PACKED_READ_BYTES = 64 * 1024
UNPACK_STEP_BYTES = 256 * 1024
# No more is unpacked of one file: rotated logs have some ten MiB, and what grows without bound is
# no log.
UNPACKED_LIMIT_BYTES = 256 * 1024 * 1024
WINDOW_BITS = zlib.MAX_WBITS | 16  # with the header of gzip


@dataclass(frozen=True, slots=True)
class Rotated:
    """A rotated file beside a log."""

    path: str
    inode: int
    is_packed: bool


class _Order(NamedTuple):
    """What a rotated file's name and its time of last writing tell of its place."""

    number: int
    date: str
    modified_ns: int


def log_name(name: str) -> str | None:
    """Give the name of the log that a file was, if its own name says that it was rotated."""
    match = ROTATED_NAME.fullmatch(name)
    return None if match is None else match["log"]


def rotated_files(log: Path) -> list[Rotated]:
    """List the rotated files of a log, the oldest first. A link's are where it leads to.

    The lowest number is the newest, unless the times of last writing say that it is the oldest.
    """
    folder, name = os.path.split(os.path.realpath(log))
    found: dict[str, tuple[_Order, Rotated]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(name):
                    continue
                match = ROTATED.fullmatch(entry.name, len(name))
                if match is None:
                    continue
                modified_ns = entry.stat().st_mtime_ns
                order = _Order(int(match["number"] or 0), match["date"] or "", modified_ns)
                rotated = Rotated(entry.path, entry.inode(), bool(match["packed"]))
                twin = found.get(entry.name.removesuffix(PACKED_SUFFIX))
                if twin is None or twin[1].is_packed:  # else this one is being made of it
                    found[entry.name.removesuffix(PACKED_SUFFIX)] = (order, rotated)
    except OSError:
        return []
    sign = 1 if _counts_up([order for order, _ in found.values()]) else -1
    rows = sorted(found.values(), key=lambda row: (sign * row[0].number, row[0].date))
    return [rotated for _, rotated in rows]


def _counts_up(orders: list[_Order]) -> bool:
    """Tell whether most files with the higher number are the newer ones: loggers do either.

    Two files may lie about it, for a clock may have been set between them.
    """
    numbered = sorted((each for each in orders if each.number), key=lambda each: each.number)
    pairs = list(pairwise(each.modified_ns for each in numbered))
    newer_count = sum(following > before for before, following in pairs)
    return len(pairs) > 1 and newer_count * 2 > len(pairs)


def open_source(path: str | Path, *, is_packed: bool = False) -> Source:
    """Open a regular file. Nothing else is opened: that alone can wake or end who writes to it."""
    _must_be_regular(os.stat(path))
    descriptor = os.open(path, FLAGS)
    try:
        _must_be_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return PackedSource(descriptor) if is_packed else PlainSource(descriptor)


def _must_be_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


class PlainSource:
    """An open file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return os.pread(self._descriptor, size_bytes, offset_bytes)

    def close(self) -> None:
        os.close(self._descriptor)


class PackedSource:
    """A file compressed by gzip, unpacked from its start on as far as is asked for.

    It can go back only a little, to the place asked for before. A broken file ends where it breaks.
    """

    size_bytes = None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)
        self._unpacker = zlib.decompressobj(WINDOW_BITS)
        self._packed = b""
        self._is_at_end = False
        self._head = b""
        # What is unpacked and may be asked for, and where it starts.
        self._window = b""
        self._window_start_bytes = 0

    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        end_bytes = offset_bytes + size_bytes
        while not self._is_at_end and self._window_end_bytes < end_bytes:
            self._unpack()
            self._forget_before(min(offset_bytes, self._window_end_bytes) - FINGERPRINT_BYTES)
        if end_bytes <= len(self._head):
            return self._head[offset_bytes:end_bytes]
        start = max(offset_bytes - self._window_start_bytes, 0)
        return self._window[start : max(end_bytes - self._window_start_bytes, 0)]

    @property
    def _window_end_bytes(self) -> int:
        return self._window_start_bytes + len(self._window)

    def _unpack(self) -> None:
        """Unpack one step further, a bounded one however well the file is compressed."""
        if not self._packed and not self._unpacker.unconsumed_tail:
            self._packed = os.read(self._descriptor, PACKED_READ_BYTES)
        data = self._unpacker.unconsumed_tail or self._packed
        self._packed = b""
        try:
            unpacked = self._unpacker.decompress(data, UNPACK_STEP_BYTES)
        except zlib.error:
            unpacked, self._is_at_end = b"", True
        if self._unpacker.eof:  # another may come, as when compressed files were put together
            self._packed = self._unpacker.unused_data
            self._unpacker = zlib.decompressobj(WINDOW_BITS)
        elif not (data or unpacked):
            self._is_at_end = True
        self._head += unpacked[: FINGERPRINT_BYTES - len(self._head)]
        self._window += unpacked
        self._is_at_end |= self._window_end_bytes >= UNPACKED_LIMIT_BYTES

    def _forget_before(self, offset_bytes: int) -> None:
        count_bytes = offset_bytes - self._window_start_bytes
        if count_bytes > 0:
            self._window = self._window[count_bytes:]
            self._window_start_bytes += count_bytes
