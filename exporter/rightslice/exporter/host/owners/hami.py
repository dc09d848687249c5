"""Memory promises that HAMi keeps in a file for each container, for all that shows no environment.

The layout is HAMi-core's shared_region_t, of which only the head is read: it is the same in all
versions 1.x (multiprocess_memory_limit.h in HAMi-core, pkg/monitor/nvidia/v1/spec.go in HAMi).
"""

import os
import re
import struct
from pathlib import Path

from rightslice.exporter.host.owners.environment import MOST_CARD_BYTES
from rightslice.exporter.host.owners.small_files import read_start

MAGIC = 19920718
MAJOR_VERSION = 1
MOST_CARDS = 16
UUID_BYTES = 96
UUID = re.compile(rb"(?:GPU|MIG)-[0-9A-Za-z/-]{1,90}")

# Magic, major and minor version, a flag, the owner's process id, a semaphore, the count of cards.
HEAD = struct.Struct("<iII4x8x32xQ")
LIMITS = struct.Struct(f"<{MOST_CARDS}Q")
LIMITS_AT = HEAD.size + MOST_CARDS * UUID_BYTES
READ_BYTES = LIMITS_AT + LIMITS.size


def container_limits(folder: Path, pod_uid: str, container: str) -> dict[str, int]:
    """Give a container's limits in bytes by UUID; `folder` is HAMi's "containers" on the host."""
    own = folder / f"{pod_uid}_{container}"
    try:
        names = sorted(name for name in os.listdir(own) if name.endswith(".cache"))
    except OSError:
        return {}
    text = read_start(own / names[0], READ_BYTES) if names else None
    return {} if text is None else parse_limits(text)


def parse_limits(text: bytes) -> dict[str, int]:
    """Read the limits; empty for another version, and for bytes that make no sense."""
    if len(text) < READ_BYTES:
        return {}
    magic, major, _, count = HEAD.unpack_from(text)
    if magic != MAGIC or major != MAJOR_VERSION or not 0 < count <= MOST_CARDS:
        return {}
    starts = range(HEAD.size, HEAD.size + count * UUID_BYTES, UUID_BYTES)
    uuids = [text[start : start + UUID_BYTES].partition(b"\0")[0] for start in starts]
    if not all(UUID.fullmatch(uuid) for uuid in uuids):
        return {}
    limits = LIMITS.unpack_from(text, LIMITS_AT)
    return {
        uuid.decode("ascii"): limit
        for uuid, limit in zip(uuids, limits, strict=False)
        if 0 < limit <= MOST_CARD_BYTES
    }
