"""Tells whether a file changed since it was read."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it stood; all zero where there was none."""

    file: Path
    modified_nanoseconds: int = 0
    size_bytes: int = 0
    inode: int = 0

    def is_stale(self) -> bool:
        """Tell whether the file is another one by now."""
        return stamp(self.file) != self


def stamp(file: Path) -> Stamp:
    """Give a file's stamp. Take it before reading: a change in between is then seen."""
    try:
        found = os.stat(file)
    except OSError:
        return Stamp(file)
    return Stamp(file, found.st_mtime_ns, found.st_size, found.st_ino)
