"""MIG layouts as the driver needs them: profiles with ids and placements, from the fact file."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pynvml

from rightslice.facts.cards import find_card
from rightslice.facts.data import read_facts

# NVML enumerates profiles by slices and kind; the id that other calls want is another number.
PROFILE_NUMBERS: Mapping[tuple[int, str], int] = {
    (1, "base"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE,
    (2, "base"): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE,
    (3, "base"): pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE,
    (4, "base"): pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE,
    (7, "base"): pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE,
    (1, "me"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1,
    (2, "me"): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1,
    (1, "double_memory"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2,
    (1, "gfx"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX,
    (2, "gfx"): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX,
    (4, "gfx"): pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX,
    (1, "no_me"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME,
    (2, "no_me"): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME,
    (1, "me_all"): pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME,
    (2, "me_all"): pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME,
}


@dataclass(frozen=True, slots=True)
class Profile:
    """One GPU instance profile; `placements` are pairs of first slice and slice count."""

    name: str
    kind: str
    number: int
    id: int
    compute_slices: int
    memory_mib: int
    sm_count: int
    max_count: int
    placements: tuple[tuple[int, int], ...]
    engines: Mapping[str, int]

    @property
    def size(self) -> int:
        return self.placements[0][1]


@dataclass(frozen=True, slots=True)
class Layout:
    """How one card model can be cut, as far as all figures are known."""

    slice_count: int
    compute_slices: int
    max_count: int
    profiles: tuple[Profile, ...]

    def named(self, name: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)

    def with_id(self, profile_id: int) -> Profile | None:
        return next((profile for profile in self.profiles if profile.id == profile_id), None)

    def with_number(self, number: int) -> Profile | None:
        return next((profile for profile in self.profiles if profile.number == number), None)

    @property
    def sm_count_per_compute_slice(self) -> int:
        """Give what a compute instance of one slice gets inside a larger GPU instance."""
        return min(profile.sm_count for profile in self.profiles)


@cache
def layout_of(card_name: str) -> Layout | None:
    """Find the layout of a card by the name NVML prints; None for a card without MIG."""
    card = find_card(card_name)
    if card is None or card.mig_id is None:
        return None
    row = next(row for row in read_facts("mig_profiles")["cards"] if row["id"] == card.mig_id)
    return Layout(
        slice_count=row["placement_units"] or 0,
        compute_slices=row["compute_slices"],
        max_count=row["max_gpu_instances"],
        profiles=tuple(_profile(profile) for profile in row["profiles"] if _is_known(profile)),
    )


def _is_known(row: dict[str, Any]) -> bool:
    return all(row[key] is not None for key in ("gi_profile_id", "memory_mib", "placements", "sm"))


def _profile(row: dict[str, Any]) -> Profile:
    return Profile(
        name=row["name"],
        kind=row["kind"],
        number=PROFILE_NUMBERS[row["compute_slices"], row["kind"]],
        id=row["gi_profile_id"],
        compute_slices=row["compute_slices"],
        memory_mib=row["memory_mib"],
        sm_count=row["sm"],
        max_count=row["max"],
        placements=tuple((int(start), size) for start, size in row["placements"].items()),
        engines={name: count or 0 for name, count in (row["engines"] or {}).items()},
    )
