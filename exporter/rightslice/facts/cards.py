"""Whole cards: what a name printed by NVML means in memory, multiprocessors and bandwidth."""

import re
from dataclasses import dataclass
from functools import cache

from rightslice.facts.data import BYTES_PER_MIB, read_facts

# Old to new. A workload moved to the left may lose data types and kernels.
ARCHITECTURES = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")
FIRST_WITH_BF16 = "ampere"
MIG_SUFFIX = re.compile(r" MIG .*$")
# GDDR cards lose 1/16 of their memory with ECC on, older drivers subtract their reserve.
MEMORY_TOLERANCE_RATIO = 0.07


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card model. `sm_count` and `bandwidth_bytes_per_second` are None where unknown."""

    name: str
    name_regex: str
    architecture: str
    memory_bytes: int
    memory_alternatives_bytes: tuple[int, ...]
    sm_count: int | None
    bandwidth_bytes_per_second: float | None
    has_fp8: bool
    mig_id: str | None
    vgpu_id: str | None

    @property
    def has_bf16(self) -> bool:
        return ARCHITECTURES.index(self.architecture) >= ARCHITECTURES.index(FIRST_WITH_BF16)

    @property
    def is_consumer(self) -> bool:
        """GeForce and TITAN cards: no ECC on the memory, no MIG, no vGPU."""
        return "GeForce" in self.name or "TITAN" in self.name

    def is_older_than(self, other: "CardFacts") -> bool:
        return ARCHITECTURES.index(self.architecture) < ARCHITECTURES.index(other.architecture)

    def matches(self, name: str, memory_bytes: int | None = None) -> bool:
        """Tell whether NVML's `name` is this card, and its memory (where known) is near."""
        if not re.fullmatch(self.name_regex, MIG_SUFFIX.sub("", name)):
            return False
        totals = (self.memory_bytes, *self.memory_alternatives_bytes)
        return memory_bytes is None or any(
            abs(memory_bytes - total) <= total * MEMORY_TOLERANCE_RATIO for total in totals
        )


@cache
def all_cards() -> tuple[CardFacts, ...]:
    """Give every card in the fact file."""
    return tuple(
        CardFacts(
            name=row["name"],
            name_regex=row["regex"],
            architecture=row["arch"],
            memory_bytes=row["memory_mib"] * BYTES_PER_MIB,
            memory_alternatives_bytes=tuple(m * BYTES_PER_MIB for m in row["memory_mib_alt"]),
            sm_count=row["sm"],
            bandwidth_bytes_per_second=row["bw_gbs"] * 1e9 if row["bw_gbs"] else None,
            has_fp8=row["fp8"],
            mig_id=row["mig"],
            # "yes" means capable, but with no table of types here.
            vgpu_id=row["vgpu"] if row["vgpu"] != "yes" else None,
        )
        for row in read_facts("gpus")["gpus"]
    )


@cache
def find_card(name: str, memory_bytes: int | None = None) -> CardFacts | None:
    """Find the card that NVML calls `name`; None if it is unknown or its memory is another's."""
    return next((card for card in all_cards() if card.matches(name, memory_bytes)), None)


@cache
def card_with_mig_id(mig_id: str) -> CardFacts | None:
    """Find a card by the id of its MIG layout, such as "a100-80gb"."""
    return next((card for card in all_cards() if card.mig_id == mig_id), None)
