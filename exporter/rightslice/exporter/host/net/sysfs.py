"""Small files of sysfs, each of which may be missing, empty or refuse to be read."""

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

from rightslice.exporter.host.reading_error import ReadingError

MOST_BYTES = 4096
WHOLE = re.compile(r"-?[0-9]{1,20}")
# What tells of this process or of the node, and nothing of the file.
NO_DESCRIPTOR_LEFT = (errno.EMFILE, errno.ENFILE)
TOO_MANY_OPEN_FILES = "too_many_open_files"


class Entry(NamedTuple):
    """A member of a class of devices, such as an interface. One that was made anew is another.

    `target` is where the link leads that it is; empty for what is no link.
    """

    name: str
    inode: int
    target: str


def raise_if_none_left(error: OSError) -> None:
    """Raise ReadingError where nothing could be opened, whatever it is: it may well be there."""
    if error.errno in NO_DESCRIPTOR_LEFT:
        raise ReadingError(
            TOO_MANY_OPEN_FILES,
            f"{error.filename or 'a file'} cannot be opened ({error.strerror}): let the exporter "
            "open more files (LimitNOFILE= of its unit, ulimit -n), or the node (fs.file-max)",
        ) from error


def read_text(path: Path | str) -> str | None:
    """Read a file's text without blanks around it; None where it cannot be read.

    Raises ReadingError where no file can be opened any more.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise_if_none_left(error)
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
    """List a folder in order; nothing where it cannot be listed.

    Raises ReadingError where no file can be opened any more.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise_if_none_left(error)
        return []


def entries_in(folder: Path | str) -> list[Entry]:
    """List a class of devices in order, as `names_in` does."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Entry(entry.name, entry.inode(), _target(entry)) for entry in entries)
    except OSError as error:
        raise_if_none_left(error)
        return []


def _target(entry: os.DirEntry[str]) -> str:
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:  # it has gone just now
        return ""
