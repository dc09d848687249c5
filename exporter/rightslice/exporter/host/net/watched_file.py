"""A file that others rewrite, read again when it is another one."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

CHECK_SECONDS = 30.0
# A FIFO in the place of a file must not be waited for.
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
BYTES_PER_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, and when it was last written."""

    data: bytes
    modified_wall_seconds: float


class WatchedFile:
    """Looks at most twice a minute. Not thread-safe."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._seen: tuple[int, ...] | None = None
        self._due_seconds = float("-inf")

    def read_if_changed(self, now_seconds: float) -> Content | None:
        """Read it; None while it is the one that was read, or too early to look. Raises OSError."""
        if now_seconds < self._due_seconds:
            return None
        self._due_seconds = now_seconds + CHECK_SECONDS
        seen, self._seen = self._seen, None
        with open(os.open(self.path, FLAGS), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            if identity != seen:
                content = Content(read_regular(file.fileno(), self._limit_bytes), status.st_mtime)
            else:
                content = None
        self._seen = identity
        return content


def read_file(path: Path, limit_bytes: int) -> bytes:
    """Read a regular file with a bound. Raises OSError."""
    with open(os.open(path, FLAGS), "rb", buffering=0) as file:
        return read_regular(file.fileno(), limit_bytes)


def read_regular(descriptor: int, limit_bytes: int) -> bytes:
    """Read an open file to its end. Raises OSError for one that is too large, or no file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    parts, size_bytes = [], 0
    while part := os.read(descriptor, BYTES_PER_MIB):
        parts.append(part)
        size_bytes += len(part)
        if size_bytes > limit_bytes:
            raise OSError(errno.EFBIG, f"larger than {limit_bytes // BYTES_PER_MIB} MiB")
    return b"".join(parts)
