"""RDMA's device files of a process: whether it has one open, and whether it sees any."""

import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

# The container's view of a name may differ from ours, and what was removed stays open.
VERBS_FILE = re.compile(r"/(?:.*/)?infiniband/uverbs[0-9]{1,5}(?: \(deleted\))?")
VERBS_NAME = "uverbs"
FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
# What is in a container's root was made by others: no link there is followed.
STEP = os.O_PATH | os.O_NOFOLLOW | FOLDER
LIST = os.O_RDONLY | os.O_NOFOLLOW | FOLDER
MOST_NAMES = 4096


@dataclass(slots=True)
class OpenFiles:
    """Looks into what processes have open, of which it reads `left_count` more."""

    procfs: Path
    left_count: int

    def has_verbs(self, process_id: int) -> bool | None:
        """Tell whether a process has a device open; None where that is forbidden, or too much.

        Without an open device there is no queue pair.
        """
        try:
            with os.scandir(f"{self.procfs}/{process_id}/fd") as entries:
                for entry in entries:
                    if self.left_count <= 0:
                        return None
                    self.left_count -= 1
                    if _is_verbs(entry.path):
                        return True
        except OSError:
            return None
        return False


def sees_verbs(procfs: Path, process_id: int) -> bool | None:
    """Tell whether there are RDMA's devices where a process looks for them; None if unknown."""
    opened: list[int] = []
    try:
        opened.append(os.open(f"{procfs}/{process_id}/root", os.O_PATH | FOLDER))
    except OSError:
        return None
    try:
        opened.append(os.open("dev", STEP, dir_fd=opened[-1]))
        opened.append(os.open("infiniband", LIST, dir_fd=opened[-1]))
        with os.scandir(opened[-1]) as entries:
            return any(entry.name.startswith(VERBS_NAME) for entry in islice(entries, MOST_NAMES))
    except FileNotFoundError:
        return False
    except OSError:
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _is_verbs(path: str) -> bool:
    """Read where a descriptor leads, which may be closed by now. Raises where it is forbidden."""
    try:
        target = os.readlink(path)
    except FileNotFoundError:
        return False
    return VERBS_FILE.fullmatch(target) is not None
