"""vGPU types: the share of a card that a virtual machine gets."""

from fractions import Fraction

import pytest

from rightslice.facts.cards import all_cards
from rightslice.facts.data import BYTES_PER_MIB, read_facts
from rightslice.facts.vgpu import VgpuType, find_vgpu_type

EACH_TYPE = [
    pytest.param(row["name"], id=row["name"])
    for card in read_facts("vgpu_profiles")["cards"]
    for row in card["profiles"]
]


def vgpu_type(name: str) -> VgpuType:
    """Find a type that the test relies on."""
    found = find_vgpu_type(name)
    assert found is not None
    return found


def test_a_type_tells_its_memory_and_share() -> None:
    assert vgpu_type("A100D-4C") == VgpuType(
        name="A100D-4C",
        card_id="a100-80gb",
        memory_bytes=4096 * BYTES_PER_MIB,
        guest_memory_bytes=None,
        share=Fraction(1, 20),
        has_cuda=True,
    )


def test_a_guest_sees_less_than_its_type_is_named_for() -> None:
    largest = vgpu_type("A10-24Q")

    assert largest.guest_memory_bytes == 22976 * BYTES_PER_MIB
    assert largest.guest_memory_bytes < largest.memory_bytes


def test_a_type_backed_by_mig_has_no_time_share() -> None:
    assert vgpu_type("A30-1-6C").share is None


@pytest.mark.parametrize("name", EACH_TYPE)
def test_a_type_is_a_part_of_a_card(name: str) -> None:
    found = vgpu_type(name)

    assert found.name == name
    assert found.memory_bytes > 0
    assert 0 < (found.share or 1) <= 1
    assert (found.guest_memory_bytes or 0) <= found.memory_bytes


def test_each_table_of_types_that_a_card_names_exists() -> None:
    tables = {card["id"] for card in read_facts("vgpu_profiles")["cards"]}

    assert {card.vgpu_id for card in all_cards() if card.vgpu_id} <= tables


def test_an_unknown_type_is_not_found() -> None:
    assert find_vgpu_type("NVIDIA A100D-4C") is None
