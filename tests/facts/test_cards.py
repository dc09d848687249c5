"""What a name printed by NVML means."""

import pytest

from rightslice.facts.cards import ARCHITECTURES, CardFacts, all_cards, card_with_mig_id, find_card
from rightslice.facts.data import BYTES_PER_GIB, BYTES_PER_MIB
from rightslice.facts.mig import find_mig_card

EACH_CARD = [pytest.param(card, id=card.name) for card in all_cards()]


def found(name: str, memory_bytes: int | None = None) -> CardFacts:
    """Find a card that the test relies on."""
    card = find_card(name, memory_bytes)
    assert card is not None
    return card


@pytest.mark.parametrize("card", EACH_CARD)
def test_a_card_is_the_only_one_with_its_name(card: CardFacts) -> None:
    assert [other for other in all_cards() if other.matches(card.name)] == [card]


@pytest.mark.parametrize("card", EACH_CARD)
def test_a_card_is_found_by_its_name_and_memory(card: CardFacts) -> None:
    assert find_card(card.name, card.memory_bytes) is card


@pytest.mark.parametrize("card", EACH_CARD)
def test_a_card_has_sane_figures(card: CardFacts) -> None:
    assert card.architecture in ARCHITECTURES
    assert 7 * BYTES_PER_GIB < card.memory_bytes < 400 * BYTES_PER_GIB
    assert card.sm_count is None or 10 <= card.sm_count <= 200
    assert card.bandwidth_bytes_per_second is None or card.bandwidth_bytes_per_second > 1e11


@pytest.mark.parametrize("card", EACH_CARD)
def test_a_layout_that_a_card_names_is_known(card: CardFacts) -> None:
    assert card.mig_id is None or find_mig_card(card.mig_id) is not None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("NVIDIA A100-SXM4-40GB", id="current driver"),
        pytest.param("A100-SXM4-40GB", id="driver before R470"),
        pytest.param("NVIDIA A100-SXM4-40GB MIG 1g.5gb", id="a slice of it"),
    ],
)
def test_each_spelling_of_a_name_is_the_same_card(name: str) -> None:
    assert found(name).name == "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize(
    ("name", "memory_mib"),
    [
        pytest.param("Tesla T4", 15360, id="ECC on"),
        pytest.param("Tesla T4", 16384, id="ECC off"),
        pytest.param("Tesla T4", 15109, id="reserve subtracted"),
        pytest.param("NVIDIA GeForce RTX 4090 D", 49140, id="twice the memory"),
    ],
)
def test_the_totals_that_drivers_show_for_a_card_are_all_its_own(
    name: str, memory_mib: int
) -> None:
    assert found(name, memory_mib * BYTES_PER_MIB).name.endswith(name)


@pytest.mark.parametrize(
    ("name", "memory_bytes"),
    [
        pytest.param("NVIDIA A9000", None, id="name never seen"),
        pytest.param("nvidia a10", None, id="another case"),
        pytest.param("NVIDIA A10 and more", None, id="only begins like one"),
        pytest.param("NVIDIA A100-SXM4-40GB", 4 * BYTES_PER_GIB, id="the memory of a slice"),
        pytest.param("", None, id="no name"),
    ],
)
def test_a_card_that_is_not_known_is_not_guessed(name: str, memory_bytes: int | None) -> None:
    assert find_card(name, memory_bytes) is None


def test_a_card_is_found_by_its_mig_layout() -> None:
    card = card_with_mig_id("a100-80gb")

    assert card is not None
    assert card.memory_bytes == 80 * BYTES_PER_GIB


def test_an_unknown_mig_layout_has_no_card() -> None:
    assert card_with_mig_id("a9000") is None


@pytest.mark.parametrize(
    ("name", "has_bf16", "has_fp8"),
    [
        pytest.param("Tesla V100-SXM2-16GB", False, False, id="volta"),
        pytest.param("Tesla T4", False, False, id="turing"),
        pytest.param("NVIDIA A100-SXM4-40GB", True, False, id="ampere"),
        pytest.param("NVIDIA L4", True, True, id="ada"),
        pytest.param("NVIDIA H200", True, True, id="hopper"),
    ],
)
def test_data_types_come_with_the_architecture(name: str, has_bf16: bool, has_fp8: bool) -> None:
    card = found(name)

    assert (card.has_bf16, card.has_fp8) == (has_bf16, has_fp8)


@pytest.mark.parametrize(
    ("name", "is_consumer"),
    [
        pytest.param("NVIDIA GeForce RTX 4090", True, id="GeForce"),
        pytest.param("NVIDIA TITAN RTX", True, id="TITAN"),
        pytest.param("Quadro RTX 8000", False, id="Quadro"),
        pytest.param("NVIDIA A10", False, id="data centre"),
    ],
)
def test_consumer_cards_are_told_apart(name: str, is_consumer: bool) -> None:
    assert found(name).is_consumer is is_consumer


def test_age_follows_the_architecture_and_no_card_is_older_than_itself() -> None:
    turing, ampere = found("Tesla T4"), found("NVIDIA A10")

    assert turing.is_older_than(ampere)
    assert not ampere.is_older_than(turing)
    assert not ampere.is_older_than(found("NVIDIA A30"))


def test_capable_of_vgpu_without_a_table_of_types_is_no_table() -> None:
    assert found("Tesla P40").vgpu_id is None
    assert found("NVIDIA A10").vgpu_id == "a10-24gb"
