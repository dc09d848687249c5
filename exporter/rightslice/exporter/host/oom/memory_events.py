"""How many processes the kernel killed in a cgroup for want of memory, by the folder's files."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rightslice.exporter.host.oom.kernel_line import limit_bytes

READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class KillCount:
    """Kills since the last reading, of processes and of whole groups (memory.oom.group).

    A group that dies counts once in `group_kill_count`, where Linux is 5.17 or later, and each of
    its processes in `kill_count`. `limit_bytes` is the folder's own, None without one.
    `peak_bytes` may lie a page above it; None where the kernel keeps none. Both are as of when
    the folder was first read or last counted a kill.
    """

    kill_count: int = 0
    group_kill_count: int = 0
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    # How often the folder's own limit, or one below it, was hit; None where that is not counted.
    limit_hit_count: int | None = None


@dataclass(frozen=True, slots=True)
class _Mount:
    """Where a hierarchy of memory is, and the names of its files."""

    folder: str
    events: str
    limit: str
    peak: str


V2_FILES = ("memory.max", "memory.peak")
V1 = _Mount("memory", "memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A folder as it was last read. `memory` is its limit and peak; it counts nothing."""

    mount: _Mount
    inode: int  # tells one that is made anew
    kill_count: int
    group_kill_count: int
    limit_hit_count: int | None
    memory: KillCount

    @property
    def state(self) -> tuple[int, int, int, int | None]:
        return self.inode, self.kill_count, self.group_kill_count, self.limit_hit_count


class MemoryEvents:
    """Reads cgroup v2, v1 and both beside each other. For one thread.

    Under v2 a folder counts what happens below it too: a pod's keeps what its containers' take with
    them when they go. With `is_local` it counts its own processes alone (Linux 5.2). Under v1 it
    always does, and before Linux 4.13 none counts.
    """

    def __init__(self, sysfs: Path, *, is_local: bool = False) -> None:
        self._root = str(sysfs / "fs/cgroup")
        events = "memory.events.local" if is_local else "memory.events"
        self._mounts = (_Mount("", events, *V2_FILES), V1, _Mount("unified", events, *V2_FILES))
        self._seen: dict[str, _Seen] = {}

    def read(self, wanted: Iterable[str]) -> dict[str, KillCount]:
        """Count the kills since the last call in folders, told by their paths from the mount on.

        A folder's first reading tells none, for they may be old. One that is made anew while it was
        watched counts from 0, and one that is gone tells no more than was seen. What was never
        readable is left out. Folders that are no longer wanted are forgotten.
        """
        before, self._seen = self._seen, {}
        found: dict[str, KillCount] = {}
        for path in dict.fromkeys(wanted):
            last = before.get(path)
            seen = self._read(path, last)
            if seen is not None:
                self._seen[path] = seen
                found[path] = _since(last, seen)
        return found

    def _read(self, path: str, last: _Seen | None) -> _Seen | None:
        """Read a folder; what was last seen of it where it is gone."""
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            return None
        for mount in (last.mount,) if last else self._mounts:
            top = f"{self._root}/{mount.folder}" if mount.folder else self._root
            seen = _read_folder(top + path, mount, last)
            if seen is not None:
                return seen
        return last


def _read_folder(path: str, mount: _Mount, last: _Seen | None) -> _Seen | None:
    """Read all files from one folder, whichever may be made in its place meanwhile."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        counts = _counts(_text(folder, mount.events))
        kills = counts.get("oom_kill")
        if kills is None:
            return None
        inode = os.fstat(folder).st_ino
        state = (inode, kills, counts.get("oom_group_kill", 0), counts.get("oom"))
        is_same = last is not None and last.state == state
        return last if is_same else _Seen(mount, *state, _memory(folder, mount))
    finally:
        os.close(folder)


def _since(last: _Seen | None, seen: _Seen) -> KillCount:
    if last is None:
        return seen.memory
    is_anew = seen.inode != last.inode or seen.kill_count < last.kill_count
    kills, groups = (0, 0) if is_anew else (last.kill_count, last.group_kill_count)
    hits = seen.limit_hit_count
    if hits is not None and not is_anew:
        hits -= min(last.limit_hit_count or 0, hits)
    return replace(
        seen.memory,
        kill_count=seen.kill_count - kills,
        group_kill_count=max(seen.group_kill_count - groups, 0),
        limit_hit_count=hits,
    )


def _memory(folder: int, mount: _Mount) -> KillCount:
    limit = _number(_text(folder, mount.limit))
    return KillCount(
        limit_bytes=None if limit is None else limit_bytes(limit),
        peak_bytes=_number(_text(folder, mount.peak)),
    )


def _counts(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and _is_number(row[1])}


def _number(text: str) -> int | None:
    """Read a file of one number; None for "max" and for a file that is not there."""
    return int(text) if _is_number(text.strip()) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _text(folder: int, name: str) -> str:
    """Read a small file; empty where there is none, or its folder goes at this moment."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return ""
    try:
        return os.read(file, READ_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)
