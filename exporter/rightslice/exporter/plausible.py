"""What a reading of memory can be, and what is a sentinel or an underflow."""

from rightslice.exporter.host.nvml.card import MemoryReading

MOST_MEMORY_BYTES = 1 << 50


def is_plausible(memory: MemoryReading) -> bool:
    """Refuse what cannot be: a card has memory, and no more of it in use than it has."""
    return (
        0 < memory.total_bytes < MOST_MEMORY_BYTES and 0 <= memory.used_bytes <= memory.total_bytes
    )
