"""MIG geometry: what still fits on a card, where it goes, and what a bad order costs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.facts.data import read_facts
from rightslice.facts.mig_placement import (
    PlaceableProfile,
    PlacedInstance,
    Placement,
    fits,
    fragmentation_ratio,
    free_units,
    largest_placeable,
    maximal_layouts,
    placeable_count,
)

from .layouts import layout

# The profiles of a card, and what stands on it; what is wanted, beside what, on which card.
CardInUse = tuple[tuple[PlaceableProfile, ...], list[PlacedInstance]]
Wish = tuple[list[PlaceableProfile], list[PlacedInstance], tuple[PlaceableProfile, ...]]

SEVEN_SLICES = "a100-40gb"
SEVEN_ONES = [f"1g.5gb@{start}" for start in range(7)]


def profiles(mig_id: str = SEVEN_SLICES, kinds: str = "") -> tuple[PlaceableProfile, ...]:
    """Give a card's profiles, perhaps only those of some kinds."""
    rows = layout(mig_id).profiles
    return tuple(row.as_placeable() for row in rows if not kinds or row.kind in kinds.split())


def profile(name: str, mig_id: str = SEVEN_SLICES) -> PlaceableProfile:
    return next(one for one in profiles(mig_id) if one.name == name)


def instances(*places: str, mig_id: str = SEVEN_SLICES) -> list[PlacedInstance]:
    """Read instances such as "3g.20gb@4"."""
    return [placed(place, mig_id) for place in places]


def placed(place: str, mig_id: str) -> PlacedInstance:
    name, start = place.split("@")
    one = profile(name, mig_id)
    return PlacedInstance(one, Placement(int(start), one.unit_count))


def where(existing: Sequence[PlacedInstance]) -> list[Placement]:
    return [one.placement for one in existing]


def free_starts(one: PlaceableProfile, occupied: Sequence[Placement]) -> list[int]:
    return [at.start for at in one.placements if not any(at.overlaps(other) for other in occupied)]


def starts(found: Sequence[Placement] | None) -> list[int] | None:
    return None if found is None else [at.start for at in found]


def disjoint(placements: Sequence[Placement]) -> bool:
    return not any(one.overlaps(other) for one, other in combinations(placements, 2))


def obeys_maxima(kinds: Sequence[PlaceableProfile]) -> bool:
    counts = Counter(kinds)
    return sum(one.owns_media_engines for one in kinds) <= 1 and all(
        count <= one.max_count for one, count in counts.items()
    )


def every_fit(
    wanted: Sequence[PlaceableProfile], existing: Sequence[PlacedInstance]
) -> Iterator[tuple[Placement, ...]]:
    """Try every combination of legal placements, cleverness left out."""
    if obeys_maxima([*wanted, *(one.profile for one in existing)]):
        for tried in product(*(one.placements for one in wanted)):
            if disjoint([*tried, *where(existing)]):
                yield tried


def units_left(
    tried: Sequence[Placement],
    wanted: Sequence[PlaceableProfile],
    existing: Sequence[PlacedInstance],
    card: Sequence[PlaceableProfile],
) -> int:
    """Sum the sizes of the placements that remain for one more instance."""
    kinds = [*wanted, *(one.profile for one in existing)]
    occupied = [*tried, *where(existing)]
    return sum(
        one.unit_count * len(free_starts(one, occupied))
        for one in card
        if obeys_maxima([*kinds, one])
    )


MIG_IDS = [row["id"] for row in read_facts("mig_profiles")["cards"]]
KNOWN = [mig_id for mig_id in MIG_IDS if layout(mig_id).placement_unit_count is not None]
EACH_GEOMETRY = [pytest.param(mig_id, id=mig_id) for mig_id in KNOWN]
EACH_PROFILE = [
    pytest.param(one, id=f"{mig_id} {one.name}") for mig_id in KNOWN for one in profiles(mig_id)
]


@st.composite
def cards_in_use(
    draw: st.DrawFn,
) -> CardInUse:
    """Draw a card's profiles and some legal layout of it, in creation order."""
    card = profiles(draw(st.sampled_from(["a30-24gb", "a100-40gb", "rtx-pro-6000-96gb"])))
    choices = [PlacedInstance(one, at) for one in card for at in one.placements]
    existing: list[PlacedInstance] = []
    for choice in draw(st.lists(st.sampled_from(choices), max_size=6)):
        joined = [*existing, choice]
        if disjoint(where(joined)) and obeys_maxima([one.profile for one in joined]):
            existing = joined
    return card, existing


@st.composite
def wishes(
    draw: st.DrawFn,
) -> Wish:
    """Draw what is wanted beside a legal layout, and the card's profiles."""
    card, existing = draw(cards_in_use())
    return draw(st.lists(st.sampled_from(card), max_size=4)), existing, card


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        pytest.param(Placement(0, 4), Placement(3, 1), True, id="last unit"),
        pytest.param(Placement(0, 4), Placement(4, 4), False, id="next to it"),
        pytest.param(Placement(5, 1), Placement(4, 4), True, id="inside"),
        pytest.param(Placement(2, 2), Placement(2, 2), True, id="itself"),
        pytest.param(Placement(6, 1), Placement(0, 1), False, id="far away"),
    ],
)
def test_placements_overlap_when_they_share_a_unit(
    one: Placement, other: Placement, overlap: bool
) -> None:
    assert one.overlaps(other) is overlap
    assert other.overlaps(one) is overlap


@pytest.mark.parametrize(("start", "size"), [(-1, 1), (0, 0)])
def test_a_placement_that_cannot_be_is_an_error(start: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"placement {start}:{size}"):
        Placement(start, size)


def test_free_units_are_those_that_nothing_stands_on() -> None:
    existing = instances("1g.5gb@0", "1g.5gb@1", "1g.5gb@5")

    assert free_units(8, where(existing)) == (2, 3, 4, 6, 7)
    assert free_units(4, []) == (0, 1, 2, 3)


def test_seven_ones_leave_a_unit_on_which_nothing_fits() -> None:
    existing = instances(*SEVEN_ONES)

    assert free_units(8, where(existing)) == (7,)
    assert [placeable_count(one, where(existing)) for one in profiles()] == [0] * 7
    assert largest_placeable(profiles(), existing) is None


@pytest.mark.parametrize(
    ("name", "count", "at"),
    [
        pytest.param("1g.5gb", 2, [5, 6], id="1g"),
        pytest.param("1g.10gb", 1, [6], id="1g with double memory"),
        pytest.param("2g.10gb", 0, [], id="2g"),
        pytest.param("3g.20gb", 0, [], id="3g"),
    ],
)
def test_a_three_and_a_one_leave_room_for_small_profiles_only(
    name: str, count: int, at: list[int]
) -> None:
    existing = where(instances("3g.20gb@0", "1g.5gb@4"))

    assert placeable_count(profile(name), existing) == count
    assert free_starts(profile(name), existing) == at


def test_ones_that_are_scattered_lock_out_a_three() -> None:
    existing = instances("1g.5gb@0", "1g.5gb@1", "1g.5gb@5")

    assert placeable_count(profile("3g.20gb"), where(existing)) == 0
    assert free_starts(profile("2g.10gb"), where(existing)) == [2]
    assert largest_placeable(profiles(), existing) == profile("2g.10gb")
    assert fragmentation_ratio(profiles(), existing) == 0.5


def test_what_exists_counts_against_the_maximum_of_its_profile() -> None:
    limited = PlaceableProfile("1g", tuple(Placement(at, 1) for at in range(4)), max_count=2)

    assert placeable_count(limited, []) == 2
    assert placeable_count(limited, [Placement(0, 1)], existing_count=1) == 1
    assert placeable_count(limited, [], existing_count=3) == 0


def test_media_engines_go_to_one_instance_only() -> None:
    with_media = replace(profile("1g.5gb+me"), max_count=7)

    assert placeable_count(with_media, []) == 1
    assert placeable_count(with_media, [], media_engines_taken=True) == 0
    assert placeable_count(profile("1g.5gb"), [], media_engines_taken=True) == 7


def test_placements_of_several_sizes_are_counted_at_their_best() -> None:
    odd = PlaceableProfile("odd", (Placement(0, 8), Placement(1, 2), Placement(4, 1)), max_count=9)

    assert placeable_count(odd, []) == 2


@pytest.mark.parametrize("one", EACH_PROFILE)
def test_an_empty_card_takes_as_many_as_its_facts_say(one: PlaceableProfile) -> None:
    without_maximum = replace(one, max_count=99)

    assert placeable_count(one, []) == one.max_count
    assert placeable_count(without_maximum, []) == one.max_count


@given(cards_in_use(), st.integers(0, 11), st.integers(1, 4))
def test_more_occupied_never_means_more_room(card: CardInUse, start: int, size: int) -> None:
    one_card, existing = card
    more = [*where(existing), Placement(start, size)]

    for one in one_card:
        assert placeable_count(one, more) <= placeable_count(one, where(existing))


@given(cards_in_use())
def test_the_count_is_the_most_that_any_choice_of_placements_gives(
    card: CardInUse,
) -> None:
    one_card, existing = card
    occupied = where(existing)

    for one in one_card:
        most = max(
            count
            for count in range(len(one.placements) + 1)
            for tried in combinations(one.placements, count)
            if disjoint([*tried, *occupied])
        )
        unlimited = replace(one, max_count=99, owns_media_engines=False)
        assert placeable_count(unlimited, occupied) == most


@pytest.mark.parametrize(
    ("existing", "name"),
    [
        pytest.param([], "7g.40gb", id="empty"),
        pytest.param(["1g.5gb@6"], "4g.20gb", id="4g rather than 3g"),
        pytest.param(["3g.20gb@0"], "3g.20gb", id="upper half"),
        pytest.param(["3g.20gb@4", "1g.5gb@0"], "2g.10gb", id="2g rather than double memory"),
        pytest.param(["4g.20gb@0", "2g.10gb@4"], "1g.10gb", id="double memory alone"),
        pytest.param(["4g.20gb@0", "1g.10gb@6", "1g.5gb@4"], "1g.5gb", id="not the media engines"),
    ],
)
def test_the_largest_that_fits_is_the_scarcest_of_its_size(existing: list[str], name: str) -> None:
    assert largest_placeable(profiles(), instances(*existing)) == profile(name)


def test_the_media_engines_are_not_offered_twice() -> None:
    only_media = [profile("1g.5gb+me")]

    assert largest_placeable(only_media, []) == profile("1g.5gb+me")
    assert largest_placeable(only_media, instances("1g.5gb+me@3")) is None
    assert fragmentation_ratio(only_media, instances("1g.5gb+me@3")) is None


@pytest.mark.parametrize(
    ("existing", "ratio"),
    [
        pytest.param([], 0, id="empty"),
        pytest.param(["7g.40gb@0"], None, id="one whole"),
        pytest.param(SEVEN_ONES, None, id="seven ones"),
        pytest.param(["1g.5gb@6"], 0, id="one at the end"),
        pytest.param(["1g.5gb@0", "1g.5gb@4"], 0.5, id="one in each half"),
        pytest.param(["3g.20gb@0"], 0, id="3g where 4g could be"),
        pytest.param(["1g.5gb@2", "2g.10gb@4", "2g.10gb@0"], 0, id="scattered, yet as good"),
        pytest.param(["3g.20gb@0", "2g.10gb@4", "1g.5gb@6"], 1, id="only unit 7 is left"),
    ],
)
def test_fragmentation_is_what_moving_the_instances_would_win(
    existing: list[str], ratio: float | None
) -> None:
    assert fragmentation_ratio(profiles(), instances(*existing)) == ratio


def test_an_instance_where_no_start_is_listed_can_at_least_stay() -> None:
    foreign = PlacedInstance(PlaceableProfile("new", (), max_count=1), Placement(0, 1))

    assert fragmentation_ratio(profiles(), [foreign]) == 0
    assert fragmentation_ratio(profiles(), [foreign, *instances("1g.5gb@4")]) == 0.5


def test_a_card_whose_placements_are_not_known_gets_no_ratio() -> None:
    unknown = layout("rtx-pro-5000-48gb")

    assert unknown.placeable_profiles == ()
    assert fragmentation_ratio(unknown.placeable_profiles, []) is None


@given(cards_in_use())
def test_fragmentation_is_a_ratio(
    card: CardInUse,
) -> None:
    ratio = fragmentation_ratio(*card)

    assert ratio is None or 0 <= ratio <= 1


@given(cards_in_use())
def test_fragmentation_compares_with_building_the_card_anew(
    card: CardInUse,
) -> None:
    one_card, existing = card
    kinds = [one.profile for one in existing]
    anew = [one.unit_count for one in one_card if any(every_fit([*kinds, one], []))]
    now = [one.unit_count for one in one_card if any(every_fit([one], existing))]

    expected = 1 - max(now, default=0) / max(anew) if anew else None

    assert fragmentation_ratio(one_card, existing) == expected


@pytest.mark.parametrize(
    ("wanted", "existing", "at"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param(["1g.5gb"], [], [6], id="1g at the end"),
        pytest.param(["2g.10gb"], [], [4], id="2g in the upper half"),
        pytest.param(["3g.20gb"], [], [4], id="3g leaves room for 4g"),
        pytest.param(["1g.5gb"] * 2, [], [4, 5], id="double memory still fits at the end"),
        pytest.param(["1g.5gb"] * 3, [], [4, 5, 6], id="upper half first"),
        pytest.param(["1g.5gb"], ["1g.5gb@0"], [1], id="the half that is broken, beside it"),
        pytest.param(["1g.5gb"] * 2, ["3g.20gb@4", "1g.5gb@2"], [1, 3], id="fills a gap"),
        pytest.param(
            ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], [], [2, 3, 0, 4], id="small ones first"
        ),
        pytest.param(["3g.20gb", "4g.20gb"], [], [4, 0], id="4g beside 3g"),
        pytest.param(["1g.10gb", "3g.20gb"], [], [6, 0], id="as good: the small one goes last"),
        pytest.param(["1g.5gb"], ["1g.10gb@0"], [3], id="few large starts before many small"),
        pytest.param(["1g.10gb"], ["1g.5gb+me@0"], [2], id="what is used up needs no room"),
        pytest.param(["3g.20gb"], ["1g.5gb@0", "1g.5gb@5"], None, id="both halves broken"),
        pytest.param(["4g.20gb", "4g.20gb"], [], None, id="4g twice"),
        pytest.param(["1g.5gb"] * 8, [], None, id="eight"),
        pytest.param(["1g.5gb+me", "1g.5gb"], [], [5, 4], id="media engines beside plain"),
        pytest.param(["1g.5gb+me", "1g.5gb+me"], [], None, id="media engines twice"),
        pytest.param(["1g.5gb+me"], ["1g.5gb+me@0"], None, id="media engines taken"),
    ],
)
def test_what_is_wanted_goes_where_most_room_remains(
    wanted: list[str], existing: list[str], at: list[int] | None
) -> None:
    found = fits([profile(name) for name in wanted], instances(*existing), profiles())

    assert starts(found) == at


def test_creating_one_after_the_other_keeps_room_for_the_large_ones() -> None:
    order = [profile(name) for name in ("1g.5gb", "1g.5gb", "2g.10gb")]
    existing: list[PlacedInstance] = []

    for one in order:
        (placement,) = fits([one], existing, profiles()) or ()
        existing.append(PlacedInstance(one, placement))

    assert [one.placement.start for one in existing] == [6, 5, 2]
    assert placeable_count(profile("2g.10gb"), where(existing)) == 1


def test_more_than_the_maximum_is_refused_where_it_would_find_room() -> None:
    limited = PlaceableProfile("1g", tuple(Placement(at, 1) for at in range(4)), max_count=2)

    assert starts(fits([limited] * 2, [], [])) == [2, 3]
    assert fits([limited] * 3, [], []) is None
    assert fits([limited] * 2, [PlacedInstance(limited, Placement(0, 1))], []) is None


def test_the_smaller_of_two_that_are_as_free_goes_to_the_end() -> None:
    small = PlaceableProfile("a", (Placement(0, 1), Placement(3, 1)), max_count=1)
    large = PlaceableProfile("b", (Placement(0, 2), Placement(2, 2)), max_count=1)

    assert starts(fits([small, large], [], [])) == [3, 0]


def test_profiles_of_another_media_kind_share_the_one_set_of_engines() -> None:
    card = "rtx-pro-6000-96gb"
    with_some, with_all = profile("1g.24gb+me", card), profile("2g.48gb+me.all", card)

    assert fits([with_some, with_all], [], profiles(card)) is None
    assert fits([with_some], instances("2g.48gb+me.all@0", mig_id=card), profiles(card)) is None


@given(wishes())
def test_what_is_found_is_legal_and_never_overlaps(
    wish: Wish,
) -> None:
    wanted, existing, card = wish
    found = fits(wanted, existing, card)

    assert found is None or (
        all(at in one.placements for one, at in zip(wanted, found, strict=True))
        and disjoint([*found, *where(existing)])
        and obeys_maxima([*wanted, *(one.profile for one in existing)])
    )


@given(wishes())
def test_it_fits_exactly_when_trying_everything_finds_a_way_and_leaves_as_much(
    wish: Wish,
) -> None:
    wanted, existing, card = wish
    found = fits(wanted, existing, card)
    ways = [units_left(tried, wanted, existing, card) for tried in every_fit(wanted, existing)]

    assert (found is not None) == bool(ways)
    assert found is None or units_left(found, wanted, existing, card) == max(ways)


@given(wishes(), st.randoms(use_true_random=False))
def test_the_order_of_the_wishes_does_not_change_the_result(
    wish: Wish,
    shuffling: Random,
) -> None:
    wanted, existing, card = wish
    shuffled = shuffling.sample(wanted, len(wanted))

    first, second = fits(wanted, existing, card), fits(shuffled, existing, card)

    assert (first is None) == (second is None)
    assert Counter(zip(wanted, first or (), strict=False)) == Counter(
        zip(shuffled, second or (), strict=False)
    )


@pytest.mark.parametrize(
    ("without", "count"),
    [pytest.param("", 19, id="all"), pytest.param("7g.40gb", 18, id="without 7g")],
)
def test_a_seven_slice_card_has_nineteen_maximal_layouts(without: str, count: int) -> None:
    plain = [one for one in profiles(kinds="base") if one.name != without]

    assert len(set(maximal_layouts(plain))) == len(maximal_layouts(plain)) == count


def test_the_layouts_of_a_four_slice_card_are_these() -> None:
    layouts = maximal_layouts(profiles("a30-24gb", kinds="base"))

    assert sorted(tuple(f"{name[:2]}@{at.start}" for name, at in one) for one in layouts) == [
        ("1g@0", "1g@1", "1g@2", "1g@3"),
        ("1g@0", "1g@1", "2g@2"),
        ("2g@0", "1g@2", "1g@3"),
        ("2g@0", "2g@2"),
        ("4g@0",),
    ]


def test_a_card_with_twelve_units_is_cut_in_threes() -> None:
    card = "rtx-pro-6000-96gb"
    existing = instances("1g.24gb@3", mig_id=card)

    assert free_units(12, where(existing)) == (0, 1, 2, 6, 7, 8, 9, 10, 11)
    assert placeable_count(profile("1g.24gb", card), where(existing), existing_count=1) == 3
    assert placeable_count(profile("2g.48gb", card), where(existing)) == 1
    assert starts(fits([profile("1g.24gb", card)], existing, profiles(card))) == [0]
    assert len(maximal_layouts(profiles(card, kinds="base"))) == 5


@pytest.mark.parametrize("mig_id", EACH_GEOMETRY)
def test_every_placement_lies_on_its_card(mig_id: str) -> None:
    card = layout(mig_id)
    rows = [(row, at) for row in card.profiles for at in row.placements]

    assert len(card.placeable_profiles) == len(card.profiles)
    assert all(at.start + at.size <= (card.placement_unit_count or 0) for _, at in rows)
    assert all(at.size == row.memory_slice_count for row, at in rows)


@pytest.mark.parametrize("mig_id", EACH_GEOMETRY)
def test_no_layout_has_more_compute_or_instances_than_the_card(mig_id: str) -> None:
    (fact,) = [row for row in read_facts("mig_profiles")["cards"] if row["id"] == mig_id]
    compute = {row.name: row.compute_slice_count for row in layout(mig_id).profiles}
    layouts = maximal_layouts(profiles(mig_id))

    totals = [sum(compute[name] for name, _ in one) for one in layouts]

    assert max(totals) == fact["compute_slices"]
    assert max(len(one) for one in layouts) == fact["max_gpu_instances"]


@pytest.mark.parametrize("mig_id", EACH_GEOMETRY)
def test_no_layout_gives_the_media_engines_to_two(mig_id: str) -> None:
    owners = {one.name for one in profiles(mig_id) if one.owns_media_engines}

    for one in maximal_layouts(profiles(mig_id)):
        assert sum(name in owners for name, _ in one) <= 1
