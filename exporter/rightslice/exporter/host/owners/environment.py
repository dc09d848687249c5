"""What a process's environment tells: variables by name, and the card memory it was promised.

To read the environment, the kernel locks the process's memory: on a process that hangs the read may
not come back. So only the background reads it, never what reads a card.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from rightslice.exporter.host.owners.small_files import read_start

ENVIRON_BYTES = 256 * 1024

HAMI, MPS = "hami", "mps"
HAMI_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
HAMI_MOST_CARDS = 16
HAMI_NAMES = (HAMI_LIMIT, *(f"{HAMI_LIMIT}_{card}" for card in range(HAMI_MOST_CARDS)))
MPS_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PROMISE_NAMES = (*HAMI_NAMES, MPS_LIMIT)

# Both read "2048M" and "2g" in powers of 1024, as their own sources do.
SIZE = re.compile(r"(?P<number>[0-9]{1,18})(?P<unit>[kmg]?)b?", re.IGNORECASE)
UNIT_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
# No card is larger: what says more means "no limit".
MOST_CARD_BYTES = 1024**4


def read_variables(procfs: Path, process_id: int, names: Collection[str]) -> dict[str, str] | None:
    """Read some variables, as they were when the program began; None where that is forbidden."""
    text = read_start(f"{procfs}/{process_id}/environ", ENVIRON_BYTES)
    if text is None:
        return None
    if len(text) == ENVIRON_BYTES:  # the last one is cut
        text = text.rpartition(b"\0")[0]
    # Of two with one name, programs see the first.
    texts = reversed(text.split(b"\0"))
    pairs = (text.decode("utf-8", "replace").partition("=") for text in texts)
    return {name: value for name, _, value in pairs if name in names}


def promises(variables: Mapping[str, str]) -> dict[str, int]:
    """Give the promised bytes by source; where a process's cards differ, the largest of them."""
    by_source = {HAMI: hami_limits(variables), MPS: mps_limits(variables.get(MPS_LIMIT, ""))}
    return {source: max(limits.values()) for source, limits in by_source.items() if limits}


def hami_limits(variables: Mapping[str, str]) -> dict[str, int]:
    """Read HAMi's limits in bytes, by the card's number in the container; "" means every card."""
    limits = {
        name.removeprefix(HAMI_LIMIT).removeprefix("_"): size_bytes(variables.get(name, ""))
        for name in HAMI_NAMES
    }
    return {card: limit for card, limit in limits.items() if limit is not None}


def mps_limits(text: str) -> dict[str, int]:
    """Read "0=2G,GPU-...=512M" into bytes by the card's number or UUID."""
    pairs = (pair.partition("=") for pair in text.split(","))
    limits = {card.strip(): size_bytes(size) for card, _, size in pairs}
    return {card: limit for card, limit in limits.items() if card and limit is not None}


def size_bytes(text: str) -> int | None:
    """Read a size; None for what is none, and for 0 and sizes beyond any card: no limit."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = int(match["number"]) * UNIT_BYTES[match["unit"].lower()]
    return size if 0 < size <= MOST_CARD_BYTES else None
