"""Small files of sysfs, each of which may be missing, empty or refuse to be read."""

import os
import re
from pathlib import Path

MOST_BYTES = 4096
WHOLE = re.compile(r"-?[0-9]{1,20}")


def read_text(path: Path | str) -> str | None:
    """Read a file's text without blanks around it; None where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_whole(path: Path | str) -> int | None:
    """Read a whole number; None for anything else."""
    text = read_text(path)
    return int(text) if text is not None and WHOLE.fullmatch(text) else None


def link_name(path: Path | str) -> str | None:
    """Give the last part of where a link leads; None where there is none."""
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None


def names_in(folder: Path | str) -> list[str]:
    """List a folder in order; nothing where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
