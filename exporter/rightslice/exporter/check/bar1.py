"""The window through which others reach a card's memory (BAR1): its size, and where it is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.sysfs import read_text
from rightslice.facts.cards import CardFacts, find_card

ID = "bar1"
# Each of the first six lines is a base address register: start, end, flags of linux/ioport.h.
REGISTER = re.compile(r"0x([0-9a-f]{16}) 0x([0-9a-f]{16}) 0x([0-9a-f]{16})")
REGISTER_COUNT = 6
MEMORY, PREFETCHABLE, IS_64_BIT, UNSET = 0x200, 0x2000, 0x100000, 0x20000000
WINDOW = MEMORY | PREFETCHABLE | IS_64_BIT
BYTES_PER_MIB, BYTES_PER_GIB = 1024**2, 1024**3
LOW_BYTES = 4 * BYTES_PER_GIB
# What cards have that could show more; of models that are known, any that is below their memory.
SMALL_BYTES = 256 * BYTES_PER_MIB
MODEL = re.compile(r"^Model:\s*(\S.*?)\s*$", re.MULTILINE)
REMEDY = "switch on Above 4G Decoding and Resizable BAR in the BIOS, where the card can do more"


@dataclass(frozen=True, slots=True)
class Window:
    """A register's range. One without a place was not given any by BIOS and kernel."""

    number: int
    start: int
    size_bytes: int
    has_place: bool


def check(node: Node) -> Iterator[Finding]:
    """Look at NVIDIA cards. A small window hurts only where network cards look through it."""
    for card in node.cards:
        yield _of_card(node, card)


def _of_card(node: Node, card: str) -> Finding:
    window = _window(node.pci(card))
    if window is None:
        text = "no 64-bit prefetchable range is told in sysfs"
        return Finding(ID, card, UNKNOWN, text)
    size = _in_words(window.size_bytes)
    if not window.has_place:
        text = f"BAR{window.number} of {size} got no place: the BIOS left no room for it"
        return Finding(ID, card, WARNING, text, "switch on Above 4G Decoding in the BIOS")
    model = _model(node, card)
    of_memory = "" if model is None else f" for {_in_words(model.memory_bytes)} of memory"
    is_low = window.start + window.size_bytes <= LOW_BYTES
    text = f"BAR1 has {size}{of_memory}{', below 4 GiB' if is_low else ''}"
    is_small = window.size_bytes <= SMALL_BYTES
    if model is not None:
        is_small = window.size_bytes < min(model.memory_bytes, *model.memory_alternatives_bytes)
    if not is_small:
        return Finding(ID, card, OK, text)
    if not node.rdma:
        return Finding(ID, card, OK, f"{text}: small, which GPUDirect RDMA alone would mind")
    most_bytes = _most_bytes(node.pci(card), window)
    can = f" (this card can do {_in_words(most_bytes)})" if most_bytes else ""
    text = f"{text}: GPUDirect RDMA reaches no more than that at a time"
    return Finding(ID, card, WARNING, text, f"{REMEDY}{can}")


def _window(function: Path) -> Window | None:
    """Find the largest range that a card shows its memory in; which register it is, varies."""
    lines = (read_text(function / "resource") or "").splitlines()[:REGISTER_COUNT]
    windows = []
    for number, line in enumerate(lines):
        match = REGISTER.fullmatch(line.strip())
        if match is None:
            continue
        start, end, flags = (int(field, 16) for field in match.groups())
        if flags & WINDOW == WINDOW and end > start:
            windows.append(Window(number, start, end - start + 1, not flags & UNSET and start > 0))
    return max(windows, key=lambda each: each.size_bytes, default=None)


def _most_bytes(function: Path, window: Window) -> int | None:
    """Give the largest size that the card offers for a window, if that is more than it has."""
    text = read_text(function / f"resource{window.number}_resize") or ""
    try:
        sizes = int(text, 16)  # bit n stands for 2^n MiB
    except ValueError:
        return None
    most_bytes = BYTES_PER_MIB << sizes.bit_length() - 1 if sizes > 0 else 0
    return most_bytes if most_bytes > window.size_bytes else None


def _model(node: Node, card: str) -> CardFacts | None:
    """Find a card's model by what the driver calls it; None for one not known."""
    text = read_text(node.procfs / "driver/nvidia/gpus" / card / "information") or ""
    name = MODEL.search(text)
    return find_card(name[1]) if name else None


def _in_words(size_bytes: int) -> str:
    if size_bytes < BYTES_PER_GIB:
        return f"{size_bytes / BYTES_PER_MIB:g} MiB"
    return f"{size_bytes / BYTES_PER_GIB:.4g} GiB"
