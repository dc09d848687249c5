"""Processes as the kernel shows them: this one, and those that NVML lists."""

import os
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.part import NodePart


@dataclass
class OwnProcess(NodePart):
    """What this exporter costs. `procfs` is this process's own, not the node's."""

    id = "self"
    procfs: Path = Path("/proc")
    _told_cpu_seconds: float = 0.0

    def new_cpu_seconds(self) -> float:
        """Give the processor time since the last call; at the first, since the process began."""
        times = os.times()
        total_seconds = times.user + times.system
        new_seconds = total_seconds - self._told_cpu_seconds
        self._told_cpu_seconds = total_seconds
        return new_seconds

    def resident_bytes(self) -> int | None:
        try:
            pages = (self.procfs / "self/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def open_file_count(self) -> int | None:
        try:
            # One is this very listing's.
            return len(os.listdir(self.procfs / "self/fd")) - 1
        except OSError:
            return None


def count_visible(procfs: Path, process_ids: set[int]) -> int:
    """Count the processes that procfs shows; NVML gives ids of the host's namespace."""
    return sum((procfs / str(process_id)).exists() for process_id in process_ids)
