"""MIG geometry: what still fits on a card, beside the instances it has or after moving them.

Takes plain values: the node's profiles come from the driver, the fleet plan's from the facts.
Overlap, a profile's own maximum and the media engines are all that decides. That the compute
slices of a legal layout never exceed the card's follows from the legal starts; a test holds it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """The units that an instance takes; a unit is a memory slice on most cards."""

    start: int
    size: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.size < 1:
            raise ValueError(f"placement {self.start}:{self.size}: want start >= 0 and size >= 1")

    def overlaps(self, other: "Placement") -> bool:
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class PlaceableProfile:
    """A profile and where it may stand on its card; without placements it fits nowhere.

    Some media engines exist once on a card. At most one instance may own them (+me, +me.all).
    """

    name: str
    placements: tuple[Placement, ...]
    max_count: int
    owns_media_engines: bool = False

    @property
    def unit_count(self) -> int:
        return max((placement.size for placement in self.placements), default=0)


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """An instance that exists, or that a layout would have."""

    profile: PlaceableProfile
    placement: Placement


def free_units(unit_count: int, occupied: Iterable[Placement]) -> tuple[int, ...]:
    """Give the units that nothing stands on."""
    taken = _units(occupied)
    return tuple(unit for unit in range(unit_count) if not taken >> unit & 1)


def placeable_count(
    profile: PlaceableProfile,
    occupied: Iterable[Placement],
    existing_count: int = 0,
    *,
    media_engines_taken: bool = False,
) -> int:
    """Count how many more instances of this profile alone could be created, moving none.

    `existing_count` is how many of this profile are among the occupied.
    """
    taken, count = _units(occupied), 0
    # Taking whichever ends first leaves most room for the rest: no search is needed.
    for placement in sorted(profile.placements, key=lambda at: at.start + at.size):
        if _is_free(placement, taken):
            taken |= _units([placement])
            count += 1
    return min(
        count, _allowed_count(profile, existing_count, media_engines_taken=media_engines_taken)
    )


def largest_placeable(
    profiles: Sequence[PlaceableProfile], instances: Sequence[PlacedInstance]
) -> PlaceableProfile | None:
    """Find the profile with most units that could be created now; None if none could.

    Of equal sizes the scarcer wins, so 4g before 3g and 2g before a 1g with double memory, but
    one without the media engines before one with them.
    """
    taken = _units(instance.placement for instance in instances)
    return max(
        (one for one in _still_allowed(profiles, _kinds(instances)) if _has_start(one, taken)),
        key=lambda one: (one.unit_count, not one.owns_media_engines, -one.max_count),
        default=None,
    )


def fragmentation_ratio(
    profiles: Sequence[PlaceableProfile], instances: Sequence[PlacedInstance]
) -> float | None:
    """Tell how much of the largest profile that could be had is lost to where instances stand.

    0: moving them would win nothing. 1: nothing fits now, and something would after moving.
    None: nothing would fit even then; a full card is not fragmented.
    """
    packings = _packings(
        # An instance that the driver lets stand where no start is listed can at least stay.
        [{*instance.profile.placements, instance.placement} for instance in instances]
    )
    packed_best = max(
        (
            one.unit_count
            for one in _still_allowed(profiles, _kinds(instances))
            if any(_has_start(one, taken) for taken in packings)
        ),
        default=0,
    )
    if not packed_best:
        return None
    largest = largest_placeable(profiles, instances)
    return 1 - (largest.unit_count if largest else 0) / packed_best


def fits(
    wanted: Sequence[PlaceableProfile],
    instances: Sequence[PlacedInstance],
    profiles: Sequence[PlaceableProfile],
) -> tuple[Placement, ...] | None:
    """Place all that is wanted, in its order, beside what exists; None if it does not fit.

    Of all ways it takes the one that leaves the card's `profiles` the most legal starts, weighted
    by size; then the one with the highest starts for the profiles that can stand in most places,
    so that the lower half, where alone a 4g can stand, stays whole longest.
    """
    if not _may_be_created(wanted, _kinds(instances)):
        return None
    taken = _units(instance.placement for instance in instances)
    starts = [[at for at in profile.placements if _is_free(at, taken)] for profile in wanted]
    order = sorted(
        range(len(wanted)),
        key=lambda index: (len(starts[index]), -wanted[index].unit_count, wanted[index].name),
    )
    packings = _packings([starts[index] for index in order], taken)
    if not packings:
        return None
    later = _still_allowed(profiles, [*_kinds(instances), *wanted])
    _, _, best = max(
        (_future_units(later, units), _preference(placed), placed)
        for units, placed in packings.items()
    )
    return tuple(at for _, at in sorted(zip(order, best, strict=True)))


def maximal_layouts(
    profiles: Sequence[PlaceableProfile],
) -> tuple[tuple[tuple[str, Placement], ...], ...]:
    """List every layout of an empty card to which no instance of these profiles can be added."""
    choices = sorted(
        (PlacedInstance(profile, at) for profile in profiles for at in profile.placements),
        key=lambda choice: (choice.placement, choice.profile.name),
    )
    return tuple(
        tuple((instance.profile.name, instance.placement) for instance in layout)
        for layout in _layouts((), choices)
        if not any(_can_join(choice, layout) for choice in choices)
    )


def _layouts(
    layout: tuple[PlacedInstance, ...], choices: Sequence[PlacedInstance]
) -> Iterator[tuple[PlacedInstance, ...]]:
    """Give this layout and all that adding choices makes of it, each once."""
    yield layout
    for index, choice in enumerate(choices):
        if _can_join(choice, layout):
            yield from _layouts((*layout, choice), choices[index + 1 :])


def _can_join(choice: PlacedInstance, layout: Sequence[PlacedInstance]) -> bool:
    return not any(choice.placement.overlaps(other.placement) for other in layout) and (
        _may_be_created([choice.profile], _kinds(layout))
    )


def _packings(
    starts: Sequence[Collection[Placement]], taken: int = 0
) -> dict[int, tuple[Placement, ...]]:
    """Give all sets of units that instances with these starts can take together, and how.

    What follows depends only on the units taken, so of the ways to take the same ones only the
    preferred is kept. That makes an exact search over at most a few hundred sets.
    """
    packings: dict[int, tuple[Placement, ...]] = {taken: ()}
    for choices in starts:
        ways = [
            (units | _units([at]), (*placed, at))
            for units, placed in packings.items()
            for at in choices
            if _is_free(at, units)
        ]
        # Later items of a dict replace earlier ones: the preferred way comes last.
        packings = dict(sorted(ways, key=lambda way: _preference(way[1])))
    return packings


def _preference(placed: Sequence[Placement]) -> tuple[int, ...]:
    """Rank ways to place the same profiles: high starts for those placed last count first."""
    return tuple(at.start for at in reversed(placed))


def _future_units(profiles: Iterable[PlaceableProfile], taken: int) -> int:
    """Sum the sizes of all placements that are still free."""
    return sum(at.size for one in profiles for at in one.placements if _is_free(at, taken))


def _may_be_created(
    wanted: Sequence[PlaceableProfile], existing: Sequence[PlaceableProfile]
) -> bool:
    """Tell whether the maxima and the media engines allow these, wherever they may stand."""
    wanted_counts = Counter(one.name for one in wanted)
    return all(wanted_counts[one.name] <= _allowed_beside(one, existing) for one in wanted) and (
        sum(one.owns_media_engines for one in wanted) <= 1
    )


def _still_allowed(
    profiles: Iterable[PlaceableProfile], existing: Sequence[PlaceableProfile]
) -> list[PlaceableProfile]:
    return [one for one in profiles if _allowed_beside(one, existing)]


def _allowed_beside(profile: PlaceableProfile, existing: Sequence[PlaceableProfile]) -> int:
    return _allowed_count(
        profile,
        sum(other.name == profile.name for other in existing),
        media_engines_taken=any(other.owns_media_engines for other in existing),
    )


def _allowed_count(
    profile: PlaceableProfile, existing_count: int, *, media_engines_taken: bool
) -> int:
    """Count how many more its maximum and the media engines allow, wherever they may stand."""
    if profile.owns_media_engines and media_engines_taken:
        return 0
    most_count = min(1, profile.max_count) if profile.owns_media_engines else profile.max_count
    return max(0, most_count - existing_count)


def _kinds(instances: Iterable[PlacedInstance]) -> list[PlaceableProfile]:
    return [instance.profile for instance in instances]


def _has_start(profile: PlaceableProfile, taken: int) -> bool:
    return any(_is_free(placement, taken) for placement in profile.placements)


def _is_free(placement: Placement, taken: int) -> bool:
    return not _units([placement]) & taken


def _units(placements: Iterable[Placement]) -> int:
    """Give the units taken as the bits of a number."""
    units = 0
    for placement in placements:
        units |= ((1 << placement.size) - 1) << placement.start
    return units
