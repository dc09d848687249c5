"""MIG profiles: which GPU instances a card can be cut into, with true memory and SM counts."""

from dataclasses import dataclass
from functools import cache

from rightslice.facts.data import bytes_from_mib, read_facts
from rightslice.facts.mig_placement import PlaceableProfile, Placement

# The kinds whose instance owns the media engines that a card has once.
MEDIA_KINDS = ("me", "me_all")


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One GPU instance profile of one card; None where the figure is not known.

    Without `placements` it is not known where it may stand.
    """

    name: str
    kind: str
    memory_bytes: int | None
    sm_count: int | None
    memory_slice_count: int | None
    max_per_card: int
    compute_slice_count: int
    placements: tuple[Placement, ...]

    @property
    def resource_name(self) -> str:
        """The Kubernetes resource under the device plugin's mixed strategy."""
        return f"nvidia.com/mig-{self.name.replace('+', '.')}"

    def as_placeable(self) -> PlaceableProfile:
        """Give what the placement search needs; without known placements it fits nowhere."""
        return PlaceableProfile(
            name=self.name,
            placements=self.placements,
            max_count=self.max_per_card,
            owns_media_engines=self.kind in MEDIA_KINDS,
        )


@dataclass(frozen=True, slots=True)
class MigCard:
    """A card's MIG layout; `placement_unit_count` is None where not known."""

    mig_id: str
    sm_count: int | None
    placement_unit_count: int | None
    profiles: tuple[MigProfile, ...]

    @property
    def placeable_profiles(self) -> tuple[PlaceableProfile, ...]:
        """Give the profiles whose placements are known, for the placement search."""
        return tuple(one.as_placeable() for one in self.profiles if one.placements)


@cache
def find_mig_card(mig_id: str) -> MigCard | None:
    """Give the layout with that id, as named by the card's facts."""
    for row in read_facts("mig_profiles")["cards"]:
        if row["id"] == mig_id:
            return MigCard(
                mig_id=mig_id,
                sm_count=row["sm_total"],
                placement_unit_count=row["placement_units"],
                profiles=tuple(
                    MigProfile(
                        name=profile["name"],
                        kind=profile["kind"],
                        memory_bytes=bytes_from_mib(profile["memory_mib"]),
                        sm_count=profile["sm"],
                        memory_slice_count=profile["memory_slices"],
                        max_per_card=profile["max"],
                        compute_slice_count=profile["compute_slices"],
                        placements=_placements(profile["placements"]),
                    )
                    for profile in row["profiles"]
                ),
            )
    return None


def _placements(sizes_by_start: dict[str, int] | None) -> tuple[Placement, ...]:
    return tuple(
        sorted(Placement(int(start), size) for start, size in (sizes_by_start or {}).items())
    )
