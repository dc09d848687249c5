"""The files that a log was over time: which one holds a place, and which one came after it."""

from os import stat
from pathlib import Path

from rightslice.exporter.host.oom.log_position import Position, Source
from rightslice.exporter.host.oom.log_rotation import Rotated, open_source, rotated_files

SEARCH_COUNT = 3


def open_rotated(rotated: Rotated) -> Source | None:
    """Open a rotated file; None if it is gone, or another has its name by now."""
    try:
        source = open_source(rotated.path, is_packed=rotated.is_packed)
    except OSError:
        return None
    if source.identity[1] == rotated.inode:
        return source
    source.close()
    return None


def rotated_holder(log: Path, position: Position) -> Source | None:
    """Open the rotated file that has a place; looks again if files were renamed meanwhile."""
    files = rotated_files(log)
    for _ in range(SEARCH_COUNT):
        source = _holder_among(files, position)
        before, files = files, rotated_files(log)
        if source is not None or files == before:
            return source
    return None


def file_after(log: Path, source: Source, position: Position) -> Source | None:
    """Open the file that was written after this one; None as long as there is none.

    `position` is the end of what was read of `source`. Raises OSError if the log cannot be opened.
    """
    try:
        latest = open_source(log)
    except FileNotFoundError:
        return None
    if latest.identity == position.identity:
        latest.close()  # renamed back
        return None
    later = _later_rotated(log, source, position)
    if not later:
        if latest.size_bytes:
            return latest
        latest.close()  # an empty one: the writer may still be at the old one
        return None
    following = open_rotated(later[0])
    if following is not None and following.identity == latest.identity:  # rotated just now
        following.close()
        return latest
    latest.close()
    return following


def _later_rotated(log: Path, source: Source, position: Position) -> list[Rotated]:
    """List the rotated files that came after the one that is open, the oldest first."""
    files = rotated_files(log)
    for index, rotated in enumerate(files):
        if rotated.inode == position.inode:
            return files[index + 1 :]
    for index, rotated in enumerate(files):
        packed = open_rotated(rotated) if rotated.is_packed else None
        if packed is not None:
            is_this = bool(position.head.size_bytes) and position.is_in(packed)
            packed.close()
            if is_this:
                return files[index + 1 :]
    # Deleted meanwhile. What was written to later than this one came after it; a compressed file
    # does not tell when its lines were written.
    last_write_ns = source.status().st_mtime_ns
    return [
        rotated
        for rotated in files
        if not rotated.is_packed and _modified_ns(rotated.path) >= last_write_ns
    ]


def _holder_among(files: list[Rotated], position: Position) -> Source | None:
    """Find the file that has the place, the newest first; by content, for copies' sake."""
    for rotated in reversed(files):
        if position.head.size_bytes or rotated.inode == position.inode:
            source = open_rotated(rotated)
            if source is None:
                continue
            if position.is_in(source):
                return source
            source.close()
    return None


def _modified_ns(path: str) -> int:
    try:
        return stat(path).st_mtime_ns
    except OSError:
        return -1
