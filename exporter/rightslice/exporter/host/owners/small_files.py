"""Small files that the kernel or a container runtime writes, read with a bound."""

import os
from pathlib import Path

# A FIFO in the place of a file must not be waited for.
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
CHUNK_BYTES = 64 * 1024


def read_start(path: str | Path, limit_bytes: int) -> bytes | None:
    """Read a file up to a bound; None for one that is absent, forbidden, or goes away meanwhile."""
    try:
        descriptor = os.open(path, FLAGS)
    except (OSError, ValueError):
        return None
    try:
        return _read(descriptor, limit_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int, limit_bytes: int) -> bytes:
    """Read to the end or the bound: procfs gives a page at a time."""
    parts, left_bytes = [], limit_bytes
    while left_bytes > 0:
        part = os.read(descriptor, min(left_bytes, CHUNK_BYTES))
        if not part:
            break
        parts.append(part)
        left_bytes -= len(part)
    return b"".join(parts)
