"""One log file, followed through all that happens to it, by plain looks and reads.

Where it is renamed, deleted or truncated, what was not read yet is read from where it is now: from
the descriptor that is still open, or from the rotated files beside it. The writer may go on in the
old file for a moment (a runtime opens its new one only after the kubelet renamed the old), so the
new one is begun when it holds something, and the old one has been quiet for a moment.
"""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from os import stat, stat_result
from pathlib import Path
from typing import Protocol

from rightslice.exporter.host.oom.log_chain import file_after, open_rotated, rotated_holder
from rightslice.exporter.host.oom.log_position import Position, Source
from rightslice.exporter.host.oom.log_rotation import open_source, rotated_files

CHUNK_BYTES = 256 * 1024
LINE_LIMIT_BYTES = 64 * 1024
BUDGET_BYTES = 1024 * 1024
# What a file has beyond this is not read: the flood of minutes ago would come before the line that
# counts now.
BEHIND_LIMIT_BYTES = 64 * 1024 * 1024
SETTLE_SECONDS = 0.25
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Complete lines, as they are in the file.

    `cut_bytes` were dropped: of the last line here, or, in a chunk without data, of the one before.
    `is_after_gap`: what came before is not what was given last.
    """

    data: bytes
    cut_bytes: int = 0
    is_after_gap: bool = False


class IsNew(Protocol):
    """Tells by its first bytes whether a file is read from its beginning, else from its end.

    Asked once, when the path is first seen; then for the files it was rotated to before, the
    newest first, up to one that is not read. `modified_wall_seconds` is when it was last written.
    """

    def __call__(self, head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool: ...


def from_begin(head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool:
    """Read the file from its beginning, but none that was rotated before."""
    return not is_rotated


def from_end(head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool:
    """Read what is written from now on."""
    return False


class LogFile:
    """The lines of one path, in order, each once. Not thread-safe.

    `position` is after what was given last; None until there was a file. `has_more` tells that the
    last read was ended before all was read. `was_open` tells that it could be read at least once.
    `failure` is why the file cannot be read; None where it can, or is not there at all.
    """

    def __init__(
        self,
        path: Path,
        start: IsNew | Position = from_begin,
        *,
        now_seconds: Callable[[], float] = time.monotonic,
        wall_now_seconds: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.position = start if isinstance(start, Position) else None
        self.has_more = False
        self.is_gone = False
        self.was_open = False
        self.failure: OSError | None = None
        self.failure_count = 0
        self.read_bytes = 0
        self.skipped_bytes = 0
        self._is_new = from_begin if isinstance(start, Position) else start
        self._now_seconds = now_seconds
        self._wall_now_seconds = wall_now_seconds
        self._source: Source | None = None
        self._is_within_line = False
        self._is_after_gap = False
        self._put_back_bytes = 0
        self._retry_at_seconds = float("-inf")
        # What the path was when all of it was read, and when it was too early to go on to it.
        self._seen: tuple[int, int, int, int] | None = None
        self._waited_for: tuple[int, int, int, int] | None = None

    @property
    def is_open(self) -> bool:
        return self._source is not None

    @property
    def is_all_read(self) -> bool:
        """Tell whether all that the path leads to was read, and no line is without its end."""
        return self._seen is not None

    def close(self) -> None:
        """Let go of the file; the next read finds it again, also under another name."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def read(self, budget_bytes: int = BUDGET_BYTES) -> Iterator[Chunk]:
        """Give what is new, about as much as the budget allows."""
        self.has_more = False
        if self.failure is not None and self._now_seconds() < self._retry_at_seconds:
            return
        try:
            self.failure = None
            status = self._look()
            if status is not None and _key(status) == self._seen:
                return
            self._seen = None
            yield from self._read(status, budget_bytes)
        except OSError as error:
            self._fail(error)
            self.close()

    def read_unended(self) -> Iterator[Chunk]:
        """Give what is after the last newline: nobody has written for a while."""
        try:
            if self._source is not None:
                yield from self._last_line()
        except OSError as error:
            self._fail(error)
            self.close()

    def stop(self, rest: bytes = b"") -> None:
        """Say that the read under way is given up after a chunk, and what of it was not taken."""
        self.has_more = True
        if rest and self._source is not None and self.position is not None:
            offset_bytes = self.position.offset_bytes - len(rest)
            self.position = Position.after(self._source, offset_bytes, self.position.head)
            self._put_back_bytes = len(rest)

    def finish(self) -> Iterator[Chunk]:
        """Give the last line though it has no end, and let go of the file."""
        try:
            if self._source is not None or self._reopen(None):
                yield from self._last_line()
        except OSError as error:
            self._fail(error)
        self.close()

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self.failure_count += 1
        self._retry_at_seconds = self._now_seconds() + RETRY_SECONDS

    def _look(self) -> stat_result | None:
        """Look at the path; None where nothing is there."""
        try:
            status = stat(self.path)
        except FileNotFoundError:
            status = None
        except OSError as error:  # what is open can be read all the same
            self._fail(error)
            status = None
        self.is_gone = status is None and self.failure is None
        return status

    def _read(self, status: stat_result | None, budget_bytes: int) -> Iterator[Chunk]:
        if not self._open(status):
            return
        end_bytes = self.read_bytes + budget_bytes
        while self.read_bytes < end_bytes:
            chunk = self._chunk()
            if chunk is not None:
                yield chunk
            elif self._is_at(status):
                self._note_all_read(status)
                return
            elif status is None or not (yield from self._move_on(status)):
                return
        self.has_more = True

    def _is_at(self, status: stat_result | None) -> bool:
        return (
            status is not None
            and self.position is not None
            and self.position.identity == (status.st_dev, status.st_ino)
        )

    def _note_all_read(self, status: stat_result | None) -> None:
        """Note what the path was, so that the next look can stop there; not for half a line."""
        if status is not None and self.position is not None:
            is_all = status.st_size == self.position.offset_bytes
            self._seen = _key(status) if is_all else None

    # Finding the place to read at.

    def _open(self, status: stat_result | None) -> bool:
        """Have the file open, at the right place; False where there is nothing to read."""
        if self._source is None:
            if self.position is None:
                return status is not None and self._begin()
            return self._reopen(status)
        assert self.position is not None
        if self.position.is_in(self._source):
            return True
        self.close()  # truncated: what was not read may be in a copy
        return self._reopen(status)

    def _begin(self) -> bool:
        """Open the path for the first time."""
        source = open_source(self.path)
        if not self._is_new_source(source, is_rotated=False):
            offset_bytes, self._is_within_line = _last_line_start(source)
            self._use(source, offset_bytes)
            return True
        for rotated in reversed(rotated_files(self.path)):  # it may be of before it was seen
            earlier = open_rotated(rotated)
            if earlier is None:
                break
            if not self._is_new_source(earlier, is_rotated=True):
                earlier.close()
                break
            source.close()
            source = earlier
        self._use(source, 0)
        return True

    def _is_new_source(self, source: Source, *, is_rotated: bool) -> bool:
        return self._is_new(
            source.read(LINE_LIMIT_BYTES, 0),
            is_rotated=is_rotated,
            modified_wall_seconds=source.status().st_mtime,
        )

    def _reopen(self, status: stat_result | None) -> bool:
        """Find the place again: in the path's file, in a rotated one, or else at the new start."""
        assert self.position is not None
        source = self._found(status)
        if source is not None:
            offset_bytes = self.position.offset_bytes
            self._source = source
            self.was_open = True
            self.position = Position.after(source, offset_bytes, self.position.head)
            before = source.read(1, offset_bytes - 1) if offset_bytes else b"\n"
            self._is_within_line = before != b"\n"
            return True
        if status is None:
            return False
        self._use(open_source(self.path), 0)
        self._is_after_gap = True
        return True

    def _found(self, status: stat_result | None) -> Source | None:
        position = self.position
        assert position is not None
        # A device may have another number after a reboot: then the content alone must tell.
        if self._is_at(status) or (status is not None and position.head.size_bytes):
            source = open_source(self.path)
            if position.is_in(source):
                return source
            source.close()
        return rotated_holder(self.path, position)

    def _use(self, source: Source, offset_bytes: int) -> None:
        self.close()
        self._source = source
        self.was_open = True
        self._put_back_bytes = 0
        self.position = Position.at(source, offset_bytes)
        if offset_bytes == 0:
            self._is_within_line = False

    # Going on to the file that came after.

    def _move_on(self, status: stat_result) -> Generator[Chunk, None, bool]:
        """Go on to the next file, and give the last line of this one; the result tells whether."""
        assert self._source is not None
        assert self.position is not None
        if _key(status) == self._waited_for or not self._is_settled():
            return False
        following = file_after(self.path, self._source, self.position)
        if following is None:
            self._waited_for = _key(status) if status.st_size == 0 else None
            return False
        last = list(self._last_line())
        self._use(following, 0)  # first: the read may be given up at the yield
        yield from last
        return True

    def _is_settled(self) -> bool:
        """Tell whether nobody wrote to the file or renamed it just now, by the kernel's clock.

        One that was deleted is not waited for: the next may be deleted meanwhile.
        """
        assert self._source is not None
        status = self._source.status()
        if not status.st_nlink:
            return True
        age_seconds = self._wall_now_seconds() - max(status.st_mtime, status.st_ctime)
        return not 0 <= age_seconds < SETTLE_SECONDS  # a clock that was put back must not block

    # Reading.

    def _chunk(self) -> Chunk | None:
        """Read complete lines; None at the end, or where a line has no end yet."""
        assert self._source is not None
        assert self.position is not None
        self._leave_behind(self._source, self.position)
        data = self._source.read(CHUNK_BYTES, self.position.offset_bytes)
        if self._is_within_line:
            return self._rest_of_line(data)
        end = data.rfind(b"\n") + 1
        if end:
            data = data[:end] if end < len(data) else data
            self._advance(data)
            return self._marked(Chunk(data))
        if len(data) < LINE_LIMIT_BYTES:
            return None
        self._is_within_line = True
        self._advance(data)
        cut_bytes = len(data) - LINE_LIMIT_BYTES
        self.skipped_bytes += cut_bytes
        return self._marked(Chunk(data[:LINE_LIMIT_BYTES], cut_bytes))

    def _rest_of_line(self, data: bytes) -> Chunk | None:
        """Drop the rest of a line that is too long."""
        if not data:
            return None
        end = data.find(b"\n")
        cut_bytes = end if end >= 0 else len(data)
        self._is_within_line = end < 0
        self._advance(data[: end + 1] if end >= 0 else data)
        self.skipped_bytes += cut_bytes
        return self._marked(Chunk(b"", cut_bytes))

    def _last_line(self) -> Iterator[Chunk]:
        """Give what is after the last newline, as if the line ended there."""
        assert self._source is not None
        assert self.position is not None
        data = self._source.read(LINE_LIMIT_BYTES, self.position.offset_bytes)
        if data and not self._is_within_line:
            self._advance(data)
            yield self._marked(Chunk(data))

    def _marked(self, chunk: Chunk) -> Chunk:
        if not self._is_after_gap:
            return chunk
        self._is_after_gap = False
        return Chunk(chunk.data, chunk.cut_bytes, is_after_gap=True)

    def _advance(self, data: bytes) -> None:
        """Go on to after what was read."""
        assert self._source is not None
        assert self.position is not None
        # What was put back is counted already, and a counter may not go back.
        self.read_bytes += max(len(data) - self._put_back_bytes, 0)
        self._put_back_bytes = max(self._put_back_bytes - len(data), 0)
        offset_bytes = self.position.offset_bytes + len(data)
        self.position = Position.after(self._source, offset_bytes, self.position.head, data)

    def _leave_behind(self, source: Source, position: Position) -> None:
        size_bytes = source.size_bytes
        if size_bytes is None or size_bytes - position.offset_bytes <= BEHIND_LIMIT_BYTES:
            return
        offset_bytes = size_bytes - BEHIND_LIMIT_BYTES
        self.skipped_bytes += offset_bytes - position.offset_bytes
        self.position = Position.after(source, offset_bytes, position.head)
        self._is_within_line = self._is_after_gap = True
        self._put_back_bytes = 0


def _key(status: stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _last_line_start(source: Source) -> tuple[int, bool]:
    """Find where the last line starts that has no end yet, and tell whether it is too long."""
    size_bytes = source.size_bytes or 0
    start_bytes = max(size_bytes - LINE_LIMIT_BYTES, 0)
    end = source.read(size_bytes - start_bytes, start_bytes).rfind(b"\n") + 1
    return (start_bytes + end, False) if end or not start_bytes else (size_bytes, True)
