"""Many log files, followed together: what may tell of something is decoded, the rest is passed."""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from errno import EACCES, ELOOP, EMFILE, ENFILE, EPERM
from itertools import chain
from pathlib import Path

from rightslice.exporter.host.oom.log_file import BUDGET_BYTES, Chunk, LogFile
from rightslice.exporter.host.oom.log_format import Decoder, DecoderFactory, LogMessage
from rightslice.exporter.host.oom.log_position import Position

SWEEP_BYTES = 64 * 1024 * 1024
# Whoever writes a flood of lines that have to be decoded shall not have more than this of a core.
SWEEP_SECONDS = 0.5
DRAIN_SECONDS = 5.0
OPEN_FILES_LIMIT = 256
CLOSE_IDLE_SECONDS = 60.0
# Of thousands of files most are of the past. One at which nobody wrote for a while is looked at the
# less often the more there are, so that to look at 10,000 costs what to look at 1,000 does.
FILES_LOOKED_AT_PER_SECOND = 1_000
# A message is begun and its rest does not come: its writer has died.
FLUSH_QUIET_SECONDS = 5.0
# A rotation leaves a path without a file for a moment.
MISSING_SECONDS = 10.0
# The clock of a file server may be so much behind.
FILE_CLOCK_SECONDS = 60.0
UNCLAIMED_SECONDS = 3600.0
LEFT_LIMIT = 10_000

READ_REMEDY = "let the exporter run as root, or as a user who may read them"
OTHER_REMEDY = "see that the path leads to a regular file on a healthy file system"
LIMIT_REMEDY = "raise the limit of open files (ulimit -n)"
REMEDIES = {
    EACCES: READ_REMEDY,
    EPERM: READ_REMEDY,
    ELOOP: "remove the link that leads to itself",
    EMFILE: LIMIT_REMEDY,
    ENFILE: LIMIT_REMEDY,
}

MayMatch = Callable[[bytes], bool]


@dataclass(slots=True)
class _Tailed:
    """A file with its decoder. `ends_at_seconds` is None while the file is wanted.

    `look_at_seconds` is when it is looked at next.

    `there_at_seconds` is when something was at the path, or else when it was first wanted.
    `is_late` tells that nothing was seen there in the first sweep.
    """

    file: LogFile
    decoder: Decoder
    grew_at_seconds: float
    there_at_seconds: float
    is_late: bool
    look_at_seconds: float = 0.0
    ends_at_seconds: float | None = None

    @property
    def is_wanted(self) -> bool:
        return self.ends_at_seconds is None

    def is_missing(self, now_seconds: float) -> bool:
        return self.file.is_gone and now_seconds - self.there_at_seconds > MISSING_SECONDS


class LogTail:
    """Follows files by a sweep a second. Not thread-safe.

    Where a file begins whose position is not known: at its beginning if its first record's own time
    is at or after `reference_wall_seconds`, the start of this process or the time at which the
    positions were saved. If it tells no times, it must have been written since then, and
    have come after the first sweep or in a run that began with saved positions: what is there when
    the very first run begins is old. Else at its end. A clock that is set back later moves the
    reference with it. Positions of files that are not followed yet are kept for an hour.

    `has_saved` tells that an earlier run saved its positions, though it may have had none.
    """

    def __init__(
        self,
        reference_wall_seconds: float,
        positions: Mapping[Path, Position] | None = None,
        *,
        has_saved: bool | None = None,
        now_seconds: Callable[[], float] = time.monotonic,
        wall_now_seconds: Callable[[], float] = time.time,
        sweep_bytes: int = SWEEP_BYTES,
        sweep_seconds: float = SWEEP_SECONDS,
        open_files_limit: int = OPEN_FILES_LIMIT,
    ) -> None:
        self._reference_wall_seconds = reference_wall_seconds
        self._has_saved = bool(positions) if has_saved is None else has_saved
        self._now_seconds = now_seconds
        self._wall_now_seconds = wall_now_seconds
        self._started_wall_seconds = wall_now_seconds()
        self._started_seconds = now_seconds()
        self._sweep_bytes = sweep_bytes
        self._sweep_seconds = sweep_seconds
        self._open_files_limit = open_files_limit
        self._open_count = 0
        self._files: dict[Path, _Tailed] = {}
        self._first: Path | None = None
        self._has_swept = False
        self._unclaimed = dict(positions or {})
        self._unclaimed_until_seconds = now_seconds() + UNCLAIMED_SECONDS
        # Files of this run that are no longer followed: none of them may be read again.
        self._left: OrderedDict[Path, Position] = OrderedDict()
        self._ended_read_bytes = self._ended_skipped_bytes = self._ended_failure_count = 0

    @property
    def readable(self) -> frozenset[Path]:
        """Name the wanted files that were opened, and can be read as far as is known."""
        now_seconds = self._now_seconds()
        return frozenset(
            path
            for path, each in tuple(self._files.items())
            if each.is_wanted
            and each.file.was_open
            and each.file.failure is None
            and not each.is_missing(now_seconds)
        )

    @property
    def grown(self) -> frozenset[Path]:
        """Name the files of which something was read."""
        files = tuple(self._files.items())
        return frozenset(path for path, each in files if each.file.read_bytes)

    @property
    def missing(self) -> frozenset[Path]:
        """Name the wanted paths at which nothing has been for a while, or a link to nothing."""
        now_seconds = self._now_seconds()
        return frozenset(
            path
            for path, each in tuple(self._files.items())
            if each.is_wanted and each.is_missing(now_seconds)
        )

    @property
    def file_count(self) -> int:
        return len(self.readable)

    @property
    def read_bytes(self) -> int:
        files = tuple(self._files.values())
        return self._ended_read_bytes + sum(each.file.read_bytes for each in files)

    @property
    def skipped_bytes(self) -> int:
        """Count what was never looked at: the ends of long lines, and floods too far behind."""
        files = tuple(self._files.values())
        return self._ended_skipped_bytes + sum(each.file.skipped_bytes for each in files)

    @property
    def failure_count(self) -> int:
        files = tuple(self._files.values())
        return self._ended_failure_count + sum(each.file.failure_count for each in files)

    @property
    def failed_file_counts(self) -> dict[str, int]:
        """Count the files that cannot be read now, by reason."""
        counts: dict[str, int] = {}
        for each in tuple(self._files.values()):
            if each.file.failure is not None:
                reason = each.file.failure.strerror or "unknown"
                counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def unavailable_reason(self) -> str | None:
        """Say in a sentence which files cannot be read, and what to do; None if all can."""
        failures = {
            error.strerror or "unknown": (path, REMEDIES.get(error.errno or 0, OTHER_REMEDY))
            for path, each in sorted(self._files.items(), reverse=True)
            if (error := each.file.failure) is not None
        }
        counts = self.failed_file_counts
        parts = [
            f"{_and_more(path, counts[reason] - 1)} cannot be read ({reason}): {remedy}"
            for reason, (path, remedy) in sorted(failures.items())
        ]
        parts += filter(None, [self._dangling_reason])
        return "; ".join(parts) or None

    @property
    def _dangling_reason(self) -> str | None:
        """Name one of the links whose files are in a folder that the exporter does not see."""
        path = next((path for path in sorted(self.missing) if path.is_symlink()), None)
        if path is None:
            return None
        target = os.path.realpath(path)
        return f"{path} leads to {target}, which is not there: mount that folder as well"

    def follow(self, wanted: Mapping[Path, DecoderFactory]) -> None:
        """Say which files are wanted now; the others end when they are drained."""
        now_seconds = self._now_seconds()
        for path, new_decoder in wanted.items():
            tailed = self._files.get(path)
            if tailed is None:
                self._files[path] = self._start(path, new_decoder, now_seconds)
            else:
                tailed.ends_at_seconds = None
        for path, tailed in self._files.items():
            if path not in wanted and tailed.ends_at_seconds is None:
                tailed.ends_at_seconds = now_seconds + DRAIN_SECONDS

    def positions(self) -> dict[Path, Position]:
        """Give what is to be saved."""
        if self._now_seconds() >= self._unclaimed_until_seconds:
            self._unclaimed.clear()
        known = dict(self._unclaimed)
        for path, tailed in self._files.items():
            if tailed.file.position is not None:
                known[path] = tailed.file.position
        return known

    def read(self, may_match: MayMatch) -> Iterator[tuple[Path, LogMessage]]:
        """Sweep once: give the messages of all chunks that may hold something.

        To be exhausted before the positions are taken.
        """
        ends_at_seconds = self._now_seconds() + self._sweep_seconds
        left_bytes = self._sweep_bytes
        self._open_count = sum(each.file.is_open for each in self._files.values())
        now_seconds = self._now_seconds()
        todo = [row for row in self._in_turn() if row[1].look_at_seconds <= now_seconds]
        while todo:
            again = []
            for path, tailed in todo:
                if left_bytes <= 0 or self._now_seconds() > ends_at_seconds:
                    self._first = path  # the others have had their turn
                    self._has_swept = True
                    return
                before_bytes = tailed.file.read_bytes
                for message in self._read_file(tailed, may_match, left_bytes, ends_at_seconds):
                    yield path, message
                left_bytes -= tailed.file.read_bytes - before_bytes
                if tailed.file.has_more:
                    again.append((path, tailed))
            todo = again
        self._first = None
        self._has_swept = True
        yield from self._end_unwanted()

    def finish(self) -> Iterator[tuple[Path, LogMessage]]:
        """Give the messages that are begun, and let go of the files: the program stops.

        A line without its end is left for the next run.
        """
        for path, tailed in self._files.items():
            for message in tailed.decoder.flush():
                yield path, message
            tailed.file.close()

    def _start(self, path: Path, new_decoder: DecoderFactory, now_seconds: float) -> _Tailed:
        position = self._left.pop(path, None) or self._unclaimed.pop(path, None)

        def is_new(head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool:
            wall_seconds = _first_wall_seconds(head, new_decoder())
            reference_seconds = self._reference_now_wall_seconds
            if wall_seconds is not None:
                return wall_seconds >= reference_seconds
            was_written = modified_wall_seconds >= reference_seconds - FILE_CLOCK_SECONDS
            may_be_new = self._has_saved or tailed.is_late
            return may_be_new and was_written and not is_rotated

        file = LogFile(path, position or is_new, now_seconds=self._now_seconds)
        tailed = _Tailed(file, new_decoder(), now_seconds, now_seconds, self._has_swept)
        return tailed

    @property
    def _reference_now_wall_seconds(self) -> float:
        """Give the reference as the clock tells it now, if that was set back since the start."""
        ran_seconds = self._now_seconds() - self._started_seconds
        stepped_seconds = self._wall_now_seconds() - self._started_wall_seconds - ran_seconds
        return self._reference_wall_seconds + min(stepped_seconds, 0.0)

    def _in_turn(self) -> list[tuple[Path, _Tailed]]:
        """List the files, from where the last sweep had to stop."""
        files = list(self._files.items())
        if self._first is None:
            return files
        index = next((i for i, (path, _) in enumerate(files) if path == self._first), 0)
        return files[index:] + files[:index]

    def _read_file(
        self, tailed: _Tailed, may_match: MayMatch, left_bytes: int, ends_at_seconds: float
    ) -> Iterator[LogMessage]:
        file, was_open, now_seconds = tailed.file, tailed.file.is_open, self._now_seconds()

        def is_over() -> bool:
            return self._now_seconds() > ends_at_seconds

        for chunk in file.read(min(BUDGET_BYTES, left_bytes)):
            tailed.grew_at_seconds = now_seconds
            lines = _TimedLines(chunk.data, is_over)
            yield from _messages(tailed, chunk, lines, may_match)
            if is_over():
                file.stop(lines.rest)
                break
        if file.is_gone:
            tailed.is_late = True
        else:
            tailed.there_at_seconds = now_seconds
        quiet_seconds = now_seconds - tailed.grew_at_seconds
        if quiet_seconds >= FLUSH_QUIET_SECONDS:
            yield from self._unended(tailed)
        self._open_count += file.is_open - was_open
        is_idle = file.is_all_read and quiet_seconds >= CLOSE_IDLE_SECONDS
        is_too_many = not file.is_gone and self._open_count > self._open_files_limit
        if is_idle:
            tailed.look_at_seconds = now_seconds + len(self._files) / FILES_LOOKED_AT_PER_SECOND
        if file.is_open and (is_idle or is_too_many):
            file.close()
            self._open_count -= 1

    def _unended(self, tailed: _Tailed) -> Iterator[LogMessage]:
        """Give a line without its end, and a message without its rest."""
        if not (tailed.file.is_all_read or tailed.file.has_more):
            for chunk in tailed.file.read_unended():
                yield from tailed.decoder.feed(_lines(chunk.data))
        if tailed.decoder.is_partial:
            yield from tailed.decoder.flush()

    def _end_unwanted(self) -> Iterator[tuple[Path, LogMessage]]:
        now_seconds = self._now_seconds()
        ended = [
            path
            for path, each in self._files.items()
            if each.ends_at_seconds is not None
            and now_seconds >= each.ends_at_seconds
            and not each.file.has_more
        ]
        for path in ended:
            for message in self._end(path):
                yield path, message

    def _end(self, path: Path) -> Iterator[LogMessage]:
        tailed = self._files.pop(path)
        self._open_count -= tailed.file.is_open
        if tailed.file.is_gone:
            for chunk in tailed.file.finish():
                yield from tailed.decoder.feed(_lines(chunk.data))
        tailed.file.close()
        self._ended_read_bytes += tailed.file.read_bytes
        self._ended_skipped_bytes += tailed.file.skipped_bytes
        self._ended_failure_count += tailed.file.failure_count
        if tailed.file.position is not None:
            self._left[path] = tailed.file.position
        if len(self._left) > LEFT_LIMIT:
            self._left.popitem(last=False)
        yield from tailed.decoder.flush()


def _and_more(path: Path, count: int) -> str:
    return f"{path} and {count} more" if count else str(path)


class _TimedLines:
    """The lines of a chunk, the first one and as many more as there is time for.

    Whoever writes can make a line costly, so that a chunk of them takes seconds. `rest` is what was
    not given of the chunk; nothing if none of it was asked for.
    """

    def __init__(self, data: bytes, is_over: Callable[[], bool]) -> None:
        self.rest = b""
        self._data = data
        self._is_over = is_over

    def __iter__(self) -> Iterator[bytes]:
        given_bytes = 0
        for line in _lines(self._data):
            if given_bytes and self._is_over():
                self.rest = self._data[given_bytes:]
                return
            given_bytes += len(line) + 1
            yield line


def _messages(
    tailed: _Tailed, chunk: Chunk, lines: _TimedLines, may_match: MayMatch
) -> Iterator[LogMessage]:
    decoder = tailed.decoder
    if chunk.is_after_gap:
        yield from decoder.flush()
    if chunk.data and (may_match(chunk.data) or not decoder.may_skip(chunk.data)):
        yield from decoder.feed(lines)
    if chunk.cut_bytes:
        decoder.cut(chunk.cut_bytes)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _first_wall_seconds(head: bytes, decoder: Decoder) -> float | None:
    messages = chain(decoder.feed(_lines(head)), decoder.flush())
    times = (message.wall_seconds for message in messages)
    return next((seconds for seconds in times if seconds is not None), None)
