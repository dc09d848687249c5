"""Puts a file in place as a whole: written under another name, on the disk, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def put_in_place(target: Path) -> Iterator[Path]:
    """Give the name to write under; the target changes only when all went well.

    The name begins with a dot and stays the same, so that what a crash leaves is seen as no file by
    readers of the folder, and is overwritten by the next try.
    """
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        yield part
        _flush(part)
        part.replace(target)
        _flush(target.parent)
    finally:
        part.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until the disk has it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
