"""vGPU types: the share of a card that a virtual machine gets, and what its guest sees."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from rightslice.facts.data import BYTES_PER_MIB, bytes_from_mib, read_facts


@dataclass(frozen=True, slots=True)
class VgpuType:
    """One vGPU type. `guest_memory_bytes` is None where nobody has measured it."""

    name: str
    card_id: str
    memory_bytes: int
    guest_memory_bytes: int | None
    share: Fraction | None
    has_cuda: bool


@cache
def find_vgpu_type(name: str) -> VgpuType | None:
    """Find a type by its name without a vendor prefix, such as "A100D-4C"."""
    for card in read_facts("vgpu_profiles")["cards"]:
        for row in card["profiles"]:
            if row["name"] == name:
                return VgpuType(
                    name=name,
                    card_id=card["id"],
                    memory_bytes=row["fb_mib"] * BYTES_PER_MIB,
                    guest_memory_bytes=bytes_from_mib(row["guest_fb_mib"]),
                    share=Fraction(row["share"]) if row["share"] else None,
                    has_cuda=row["cuda"],
                )
    return None
