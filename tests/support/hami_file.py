"""A file that HAMi keeps of a container."""

import struct

from rightslice.exporter.host.owners.hami import MAGIC


def hami_region(
    *cards: tuple[str, int], magic: int = MAGIC, major: int = 1, count: int | None = None
) -> bytes:
    """Write the head of the file as the C structure has it, and a part of what follows."""
    head = struct.pack("<iIIiQ32s", magic, major, 2, 1, 4711, b"\7" * 32)
    head += struct.pack("<Q", len(cards) if count is None else count)
    uuids = b"".join(uuid.encode().ljust(96, b"\0") for uuid, _ in cards).ljust(16 * 96, b"\0")
    limits = struct.pack(f"<{len(cards)}Q", *(limit for _, limit in cards)).ljust(16 * 8, b"\0")
    return head + uuids + limits + b"\x64" * 500
