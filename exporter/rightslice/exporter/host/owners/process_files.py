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
STATE, USER_TICKS, SYSTEM_TICKS, START_TICKS = 0, 11, 12, 19
# In the kernel, where no signal reaches it: waiting for a disk, or in a driver that hangs.
UNINTERRUPTIBLE = "D"
# Real, effective, saved and file system user id; the real one is whose process it is.
USER_LINE = re.compile(rb"^Uid:\s+(\d{1,10})\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process. Its start, in clock ticks since boot, tells it from others with its id."""

    command: str
    state: str
    cpu_ticks: int
    start_ticks: int

    @property
    def cpu_seconds(self) -> float:
        return self.cpu_ticks / os.sysconf("SC_CLK_TCK")


def parse_stat(text: bytes) -> ProcessStat | None:
    """Read /proc/PID/stat; None for what is no such text.

    The command's name may hold blanks and parentheses: the last parenthesis ends it.
    """
    head, _, tail = text.rpartition(b") ")
    command = head.partition(b"(")[2]
    fields = tail.split()
    try:
        cpu_ticks = int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])
        start_ticks = int(fields[START_TICKS])
    except (IndexError, ValueError):
        return None
    state = fields[STATE].decode("ascii", "replace")
    return ProcessStat(command.decode("utf-8", "replace"), state, cpu_ticks, start_ticks)


def read_stat(procfs: Path, process_id: int) -> ProcessStat | None:
    """Read a process's numbers; None for one that procfs does not show."""
    text = read_start(f"{procfs}/{process_id}/stat", STAT_BYTES)
    return None if text is None else parse_stat(text)


def read_user_id(procfs: Path, process_id: int) -> int | None:
    """Give whose process it is, by the node's numbers; None where procfs does not tell."""
    text = read_start(f"{procfs}/{process_id}/status", STATUS_BYTES)
    match = USER_LINE.search(text or b"")
    return int(match[1]) if match else None


def read_cgroup_text(procfs: Path, process_id: int) -> str:
    """Give the cgroups of a process as procfs writes them; empty where it does not tell."""
    text = read_start(f"{procfs}/{process_id}/cgroup", CGROUP_BYTES)
    return (text or b"").decode("utf-8", "replace")
