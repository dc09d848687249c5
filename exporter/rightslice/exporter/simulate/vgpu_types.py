"""vGPU types as the driver numbers them, from the fact file."""

from dataclasses import dataclass
from functools import cache

from rightslice.exporter.simulate.card import BYTES_PER_MIB
from rightslice.facts.data import read_facts

# Stands in for the numbers of types that nobody has listed.
FIRST_MADE_UP_ID = 10_000


@dataclass(frozen=True, slots=True)
class VgpuTypeRow:
    """One type; `max_count` is how many a card takes if all are of it."""

    id: int
    name: str
    framebuffer_bytes: int
    max_count: int


@cache
def vgpu_types() -> tuple[VgpuTypeRow, ...]:
    """Give every type in the fact file."""
    rows = [row for card in read_facts("vgpu_profiles")["cards"] for row in card["profiles"]]
    return tuple(
        VgpuTypeRow(
            id=row["type_id"] or FIRST_MADE_UP_ID + position,
            name=row["name"],
            framebuffer_bytes=row["fb_mib"] * BYTES_PER_MIB,
            max_count=row["max_equal"],
        )
        for position, row in enumerate(rows)
    )


@cache
def vgpu_type_named(name: str) -> VgpuTypeRow | None:
    """Find a type by its name without a vendor prefix, such as "A100D-4C"."""
    return next((row for row in vgpu_types() if row.name == name), None)


@cache
def vgpu_type_with_id(type_id: int) -> VgpuTypeRow | None:
    return next((row for row in vgpu_types() if row.id == type_id), None)
