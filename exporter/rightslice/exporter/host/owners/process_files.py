"""What procfs tells of a process at once: reads that never wait for the process's memory.

`cmdline` and `environ` do: on a process that hangs with its memory locked they never come back.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.owners.small_files import read_start

STAT_BYTES = 4096
STATUS_BYTES = 4096
# A path has at most 4096 bytes, and cgroup v1 has about a dozen lines.
CGROUP_BYTES = 64 * 1024

# Fields of /proc/PID/stat behind the command's name, from the state on (proc_pid_stat(5)).
STATE, PARENT, USER_TICKS, SYSTEM_TICKS, START_TICKS = 0, 1, 11, 12, 19
# In the kernel, where no signal reaches it: waiting for a disk, or in a driver that hangs.
UNINTERRUPTIBLE = "D"
# Real, effective, saved and file system user id; the real one is whose process it is.
USER_LINE = re.compile(rb"^Uid:\s+(\d{1,10})\s", re.MULTILINE)
# A process's ids from our PID namespace to its own.
IDS_LINE = re.compile(rb"^NSpid:((?:\s+\d{1,10})+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process. Its start, in clock ticks since boot, tells it from others with its id."""

    command: str
    state: str
    parent_id: int
    cpu_ticks: int
    start_ticks: int

    @property
    def cpu_seconds(self) -> float:
        return self.cpu_ticks / os.sysconf("SC_CLK_TCK")

    @property
    def may_hang(self) -> bool:
        """Tell whether it may hold its memory locked while it waits in the kernel."""
        return self.state == UNINTERRUPTIBLE


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """Whose a process is, None where procfs does not tell, and the ids it goes by."""

    user_id: int | None = None
    process_ids: tuple[int, ...] = ()


def parse_stat(text: bytes) -> ProcessStat | None:
    """Read /proc/PID/stat; None for what is no such text.

    The command's name may hold blanks and parentheses: the last parenthesis ends it.
    """
    head, _, tail = text.rpartition(b") ")
    command = head.partition(b"(")[2]
    fields = tail.split()
    try:
        parent_id = int(fields[PARENT])
        cpu_ticks = int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])
        start_ticks = int(fields[START_TICKS])
    except (IndexError, ValueError):
        return None
    state = fields[STATE].decode("ascii", "replace")
    name = command.decode("utf-8", "replace")
    return ProcessStat(name, state, parent_id, cpu_ticks, start_ticks)


def read_stat(procfs: Path, process_id: int) -> ProcessStat | None:
    """Read a process's numbers; None for one that procfs does not show."""
    text = read_start(f"{procfs}/{process_id}/stat", STAT_BYTES)
    return None if text is None else parse_stat(text)


def read_status(procfs: Path, process_id: int) -> ProcessStatus:
    """Read whose a process is, by the node's numbers, and its ids in PID namespaces."""
    text = read_start(f"{procfs}/{process_id}/status", STATUS_BYTES) or b""
    user, ids = USER_LINE.search(text), IDS_LINE.search(text)
    return ProcessStatus(
        int(user[1]) if user else None, tuple(map(int, ids[1].split())) if ids else ()
    )


def read_user_id(procfs: Path, process_id: int) -> int | None:
    """Give whose process it is, by the node's numbers; None where procfs does not tell."""
    return read_status(procfs, process_id).user_id


def read_cgroup_text(procfs: Path, process_id: int) -> str:
    """Give the cgroups of a process as procfs writes them; empty where it does not tell."""
    text = read_start(f"{procfs}/{process_id}/cgroup", CGROUP_BYTES)
    return (text or b"").decode("utf-8", "replace")
