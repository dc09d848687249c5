"""MIG layouts: what a slice is cut from, and what it has."""

import pytest

from rightslice.facts.cards import all_cards
from rightslice.facts.data import BYTES_PER_MIB
from rightslice.facts.mig import MigProfile, find_mig_card
from rightslice.facts.mig_placement import PlaceableProfile, Placement

from .layouts import layout

EACH_LAYOUT = [
    pytest.param(mig_id, id=mig_id)
    for mig_id in sorted({card.mig_id for card in all_cards() if card.mig_id})
]


def profile(mig_id: str, name: str) -> MigProfile:
    """Find a profile that the test relies on."""
    return next(row for row in layout(mig_id).profiles if row.name == name)


@pytest.mark.parametrize("mig_id", EACH_LAYOUT)
def test_profiles_of_a_layout_have_each_their_own_name(mig_id: str) -> None:
    names = [row.name for row in layout(mig_id).profiles]

    assert names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mig_id", EACH_LAYOUT)
def test_no_slice_has_more_multiprocessors_than_its_card(mig_id: str) -> None:
    card = layout(mig_id)
    whole_count = card.sm_count or 1000

    assert all((row.sm_count or 0) <= whole_count for row in card.profiles)


@pytest.mark.parametrize("mig_id", EACH_LAYOUT)
def test_as_many_slices_of_a_kind_as_are_allowed_fit_the_card(mig_id: str) -> None:
    card = layout(mig_id)
    unit_count = card.placement_unit_count or 1000

    assert all(row.max_per_card >= 1 for row in card.profiles)
    assert all(
        row.max_per_card * (row.memory_slice_count or 0) <= unit_count for row in card.profiles
    )


def test_a_slice_has_its_true_memory_not_the_one_in_its_name() -> None:
    smallest = profile("a100-40gb", "1g.5gb")

    assert smallest.memory_bytes == 4864 * BYTES_PER_MIB
    assert smallest.sm_count == 14
    assert smallest.max_per_card == 7


@pytest.mark.parametrize(
    ("name", "resource_name"),
    [
        pytest.param("1g.5gb", "nvidia.com/mig-1g.5gb", id="plain"),
        pytest.param("1g.5gb+me", "nvidia.com/mig-1g.5gb.me", id="with media engines"),
    ],
)
def test_a_profile_is_asked_for_by_its_kubernetes_resource(name: str, resource_name: str) -> None:
    assert profile("a100-40gb", name).resource_name == resource_name


def test_a_profile_tells_where_it_may_stand() -> None:
    half = profile("a100-40gb", "3g.20gb")

    assert half.compute_slice_count == 3
    assert half.placements == (Placement(0, 4), Placement(4, 4))
    assert half.as_placeable() == PlaceableProfile("3g.20gb", half.placements, max_count=2)


@pytest.mark.parametrize(
    ("name", "owns"),
    [
        pytest.param("1g.24gb", False, id="plain"),
        pytest.param("1g.24gb+me", True, id="media engines"),
        pytest.param("2g.48gb+me.all", True, id="all media engines"),
        pytest.param("1g.24gb-me", False, id="without media engines"),
        pytest.param("1g.24gb+gfx", False, id="graphics"),
    ],
)
def test_profiles_that_own_the_media_engines_are_told_apart(name: str, owns: bool) -> None:
    assert profile("rtx-pro-6000-96gb", name).as_placeable().owns_media_engines is owns


def test_a_profile_whose_placements_nobody_knows_cannot_be_placed() -> None:
    card = layout("rtx-pro-4500-32gb")

    assert [row.placements for row in card.profiles] == [(), ()]
    assert card.placeable_profiles == ()


def test_figures_that_nobody_knows_stay_unknown() -> None:
    card = layout("rtx-pro-4500-32gb")

    assert (card.sm_count, card.placement_unit_count) == (None, None)


def test_an_unknown_layout_is_not_found() -> None:
    assert find_mig_card("t4-16gb") is None
