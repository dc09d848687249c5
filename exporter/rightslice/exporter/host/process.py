"""This process as the kernel sees it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class OwnProcess:
    """What this exporter costs. `procfs` is this process's own, not the node's."""

    procfs: Path = Path("/proc")
    id: str = "self"
    lane: str = "node"
    is_up: bool = True
    _told_cpu_seconds: float = 0.0

    def begin_round(self) -> None:
        """Nothing is kept between rounds."""

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
