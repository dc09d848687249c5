"""The positions in log files, kept over restarts: the state file.

Nothing is counted twice if the positions are saved before what was read is counted; what was read
but not counted when the program is killed in between is then lost. A state that could not be
replaced would be read again and counted again, so it is removed. What is not a state of this
program is never touched, and two programs never keep one state.
"""

import fcntl
import json
import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightslice.exporter.host.oom.log_position import (
    DIGEST_BYTES,
    FINGERPRINT_BYTES,
    Fingerprint,
    Position,
)

FORMAT = "rightslice log positions"
VERSION = 1
SIZE_LIMIT_BYTES = 16 * 1024 * 1024
POSITIONS_LIMIT = 20_000
IDLE_SAVE_SECONDS = 10.0
# A clock is corrected by so much while the program restarts.
AHEAD_LIMIT_SECONDS = 5.0
# Some file systems use all bits of an inode's number; an offset has a sign.
INODE_LIMIT, OFFSET_LIMIT = 2**64, 2**63
PRIVATE_MODE = 0o600  # the names of files tell of tenants
# How every state of any version begins, however it was damaged after that.
STARTS_WITH = f'{{"format":"{FORMAT}"'.encode()
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # nobody waits for a FIFO's writer
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class SavedPositions:
    """What an earlier run knew, and when it saved it: now, if what it told makes no sense."""

    wall_seconds: float
    positions: Mapping[Path, Position]


class _NotOursError(Exception):
    """Something lies at the path that this program did not write. Says what."""


class PositionFile:
    """The state file, or none where it has no place. Not thread-safe.

    Of a link, it is the file that it leads to.

    `warning` says what is wrong with what was found, None where all is well.
    `unavailable_reason` says in a sentence why nothing can be saved, and what to do; None while
    saving works, and before the first save.
    """

    def __init__(
        self,
        path: Path,
        now_seconds: Callable[[], float] = time.monotonic,
        wall_now_seconds: Callable[[], float] = time.time,
    ) -> None:
        self.warning: str | None = None
        self.unavailable_reason: str | None = None
        self._path = Path(os.path.realpath(path))
        self._lock_descriptor: int | None = None
        self._now_seconds = now_seconds
        self._wall_now_seconds = wall_now_seconds
        self._idle_save_at_seconds = float("-inf")

    def load(self) -> SavedPositions | None:
        """Read what was saved; None where there is nothing, or nothing of ours."""
        try:
            data = self._data()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot be read ({error.strerror})")
            return None
        except _NotOursError as error:
            self._warn(str(error))
            return None
        if not data:
            return None
        try:
            if len(data) > SIZE_LIMIT_BYTES:
                raise ValueError("too large")
            saved = _saved(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError, OverflowError):
            self._warn("is damaged, or of a later version, and is kept under another name")
            self._set_aside()
            return None
        return self._sensible(saved)

    def _data(self) -> bytes:
        """Read the file: nothing if it is empty. Raises _NotOursError before it touches others'."""
        if not stat.S_ISREG(self._path.stat().st_mode):
            raise _NotOursError("is not a regular file")
        descriptor = os.open(self._path, READ_FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
        if not data.strip(b"\0"):  # as a disk that was full leaves it
            return b""
        if not data.startswith(STARTS_WITH):
            raise _NotOursError("is not a state of this program")
        return data

    def _sensible(self, saved: SavedPositions) -> SavedPositions:
        """Take now for a time that is none, or is still to come: all new files would be old."""
        now_seconds = self._wall_now_seconds()
        ahead_seconds = saved.wall_seconds - now_seconds
        if math.isfinite(ahead_seconds) and ahead_seconds <= AHEAD_LIMIT_SECONDS:
            return saved
        self.warning = (
            f"{self._path} tells a time that is still to come, or is none: logs that it does not "
            "know and that were begun before now are read from their present end on"
        )
        return SavedPositions(now_seconds, saved.positions)

    def save(self, positions: Mapping[Path, Position], *, is_idle: bool = False) -> bool:
        """Replace the state; tell whether the file has these positions, or older ones will do.

        Idle means that nothing is counted of what was read since the last save: then a save is only
        due every ten seconds.
        """
        now_seconds = self._now_seconds()
        if is_idle and now_seconds < self._idle_save_at_seconds:
            return self.unavailable_reason is None
        self._idle_save_at_seconds = now_seconds + IDLE_SAVE_SECONDS
        try:
            self._own()
        except (_NotOursError, BlockingIOError) as error:
            self._refuse(
                str(error) if isinstance(error, _NotOursError) else "is another exporter's"
            )
            return False
        except OSError as error:
            self._give_up(error)
            return False
        try:
            self._replace(_text(positions, self._wall_now_seconds()))
        except OSError as error:
            self._give_up(error)
            return False
        self.unavailable_reason = None
        return True

    def close(self) -> None:
        """Let another program have the state."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def _own(self) -> None:
        """See that the file may be replaced, and that nobody else does: BlockingIOError if so."""
        if self._lock_descriptor is not None:
            return
        with suppress(FileNotFoundError):
            self._data()
        path = self._path.with_name(f".{self._path.name}.lock")
        descriptor = os.open(path, LOCK_FLAGS, PRIVATE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._lock_descriptor = descriptor

    def _replace(self, text: str) -> None:
        """Write a new file beside the old one, and put it in its place when it is on the disk."""
        new_path = self._path.with_name(f".{self._path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(new_path, flags, PRIVATE_MODE)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        new_path.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _refuse(self, what: str) -> None:
        self.unavailable_reason = (
            f"{self._path} {what}, and is left as it is, so that after a restart log lines of the "
            "time between are not seen: name another file, or remove it"
        )

    def _give_up(self, error: OSError) -> None:
        left_over = ""
        if self._lock_descriptor is not None:  # it is ours
            with suppress(OSError):
                self._path.unlink()
        if os.path.lexists(self._path):
            left_over = ", and remove the old state, or what it does not know is counted again"
        self.unavailable_reason = (
            f"{self._path} cannot be written ({error.strerror}), so that after a restart log lines "
            f"of the time between are not seen: let its directory exist and be writable{left_over}"
        )

    def _set_aside(self) -> None:
        """Keep what is not ours under another name."""
        with suppress(OSError):
            self._path.replace(self._path.with_name(f"{self._path.name}.broken"))

    def _warn(self, what: str) -> None:
        self.warning = f"{self._path} {what}: logs are read from their present end on"


def _text(positions: Mapping[Path, Position], wall_seconds: float) -> str:
    rows = {
        str(path): [
            position.device,
            position.inode,
            position.offset_bytes,
            position.head.size_bytes,
            position.head.digest,
            position.tail.size_bytes,
            position.tail.digest,
        ]
        for path, position in list(positions.items())[:POSITIONS_LIMIT]
    }
    document = {
        "format": FORMAT,
        "version": VERSION,
        "saved_wall_seconds": wall_seconds,
        "positions": rows,
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def _saved(document: Any) -> SavedPositions:
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError("another format")
    positions = {Path(path): _position(*row) for path, row in document["positions"].items()}
    wall_seconds = document["saved_wall_seconds"]
    if not isinstance(wall_seconds, int | float) or -math.inf < wall_seconds < 0:
        raise ValueError("not a time")
    return SavedPositions(float(wall_seconds), positions)


def _position(
    device: int,
    inode: int,
    offset_bytes: int,
    head_bytes: int,
    head_digest: str,
    tail_bytes: int,
    tail_digest: str,
) -> Position:
    is_place = _is_count(device, INODE_LIMIT) and _is_count(inode, INODE_LIMIT)
    if not is_place or not _is_count(offset_bytes, OFFSET_LIMIT):
        raise ValueError("not a count")
    head, tail = _fingerprint(head_bytes, head_digest), _fingerprint(tail_bytes, tail_digest)
    if tail.size_bytes > offset_bytes:
        raise ValueError("more than there is before the place")
    return Position(device, inode, offset_bytes, head, tail)


def _fingerprint(size_bytes: int, digest: str) -> Fingerprint:
    """Make a fingerprint; what it tells is read at each look, so its size is bounded."""
    is_digest = isinstance(digest, str) and len(digest) == 2 * DIGEST_BYTES
    if not is_digest or not _is_count(size_bytes, FINGERPRINT_BYTES + 1):
        raise ValueError("not a fingerprint")
    return Fingerprint(size_bytes, digest)


def _is_count(number: object, limit: int) -> bool:
    return type(number) is int and 0 <= number < limit
