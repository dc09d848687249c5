"""Scenario files: those that ship, and what is said about wrong ones."""

import os
from pathlib import Path

import pytest
from support.simulated import BYTES_PER_MIB

from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.scenario import (
    ScenarioError,
    SimulatedCard,
    Workload,
    load_scenario,
    scenario_names,
)
from rightslice.facts.cards import find_card
from rightslice.facts.vgpu import find_vgpu_type

from .scenario_files import CARD, only_card, written


def is_known(card: SimulatedCard) -> bool:
    """Tell whether the facts know the card: as a whole one, or as a guest's part of one."""
    if card.memory_kind == "unified":
        return card.memory_total_bytes == 0
    if card.virtualization == "vgpu":
        vgpu_type = find_vgpu_type(card.name.removeprefix("GRID "))
        return vgpu_type is not None and vgpu_type.memory_bytes == card.memory_total_bytes
    return find_card(card.name, card.memory_total_bytes) is not None


def most_busy_ratio(card: SimulatedCard) -> float:
    """Give the highest share of time in which a kernel runs, by the card or by its processes."""
    if not card.is_sum_of_processes:
        return card.busy_ratio.high
    return min(sum(process.busy_ratio.high for process in card.processes), 1.0)


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_that_ships_describes_possible_cards(name: str) -> None:
    scenario = load_scenario(name)

    assert scenario.name == name
    assert scenario.description
    assert all(is_known(card) for card in scenario.cards)
    assert all(
        card.memory_used_bytes.high + card.memory_reserved_bytes <= card.memory_total_bytes
        for card in scenario.cards
    )
    assert all(card.sm_active_ratio.high <= most_busy_ratio(card) <= 1 for card in scenario.cards)


def test_the_fleet_has_a_card_of_each_kind() -> None:
    kinds = ("hand-warmer", "twin", "pre-allocated", "parked", "busy", "free")

    assert load_scenario("fleet").cards == tuple(
        card for kind in kinds for card in load_scenario(kind).cards
    )


def test_cards_have_each_their_own_uuid_that_stays() -> None:
    uuids = [card.uuid for card in load_scenario("fleet").cards]

    assert len(uuids) == len(set(uuids))
    assert uuids == [card.uuid for card in load_scenario("fleet").cards]


def test_a_scenario_can_be_a_file_of_one_s_own(tmp_path: Path) -> None:
    path = written(tmp_path, f"description: Mine.\ndriver_version: 535.1\ncards:{CARD}")

    scenario = load_scenario(path)

    (card,) = scenario.cards
    assert (scenario.name, scenario.driver_version) == ("mine", "535.1")
    assert card.name == "NVIDIA A10"
    assert card.memory_total_bytes == 23028 * BYTES_PER_MIB
    assert card.memory_used_bytes.at(0) == 1000 * BYTES_PER_MIB
    assert (card.memory_reserved_bytes, card.process_count, card.workload) == (0, 0, None)


def test_a_card_with_a_workload_has_a_process(tmp_path: Path) -> None:
    card = only_card(tmp_path, "    workload: {namespace: a, pod: b-0, container: c}\n")

    assert card.workload == Workload("a", "b-0", "c")
    assert card.process_count == 1


def test_a_card_can_be_told_to_fail(tmp_path: Path) -> None:
    card = only_card(tmp_path, "    faults: {nvmlDeviceGetMemoryInfo_v2: 15}\n")

    assert card.faults == {"nvmlDeviceGetMemoryInfo_v2": 15}


def test_a_level_with_a_peak_is_read(tmp_path: Path) -> None:
    peak = "peak: {value: 0.9, every_seconds: 3600, for_seconds: 60}"

    path = written(
        tmp_path,
        "description: Mine.\n"
        f"cards: [{{name: NVIDIA A10, memory_total_mib: 23028, memory_used_mib: 1000, "
        f"busy_ratio: {{low: 0.1, high: 0.2, {peak}}}, sm_active_ratio: 0}}]",
    )

    level: Level = load_scenario(path).cards[0].busy_ratio
    assert level.at(30) == 0.9
    assert 0.1 <= level.at(90) <= 0.2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("cards: [", "not YAML", id="not YAML"),
        pytest.param("- 1", "want a mapping with description and cards", id="a list"),
        pytest.param("", "want a mapping with description and cards", id="empty"),
        pytest.param("description: 2024-13-45", "not YAML", id="a date that cannot be"),
        pytest.param("[" * 5000, "not YAML", id="brackets without end"),
        pytest.param("description: M.\ninclude: [7]", "include 0 is 7", id="include of a number"),
        pytest.param(
            'description: M.\ninclude: ["a\\0b"]', "cannot read .*null", id="include of no path"
        ),
        pytest.param("description: Mine.", "no cards", id="no cards"),
        pytest.param(f"cards:{CARD}", "description", id="no description"),
        pytest.param("description: M.\ncards: [{name: A10}]", "memory_total_mib", id="no memory"),
        pytest.param(
            f"description: M.\ncards:{CARD}    colour: red\n", "unknown key 'colour'", id="unknown"
        ),
        pytest.param("description: M.\ncards: [7]", "mine", id="card no mapping"),
        pytest.param("description: M.\ninclude: [nothing]", "no scenario 'nothing'", id="include"),
        pytest.param(
            f"description: M.\ncards:{CARD}    workload: {{pod: a}}\n", "namespace", id="workload"
        ),
    ],
)
def test_a_wrong_scenario_says_what_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        load_scenario(written(tmp_path, text))


def test_a_scenario_that_includes_itself_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, f"description: M.\ninclude: [{tmp_path / 'mine.yaml'}]")

    with pytest.raises(ScenarioError, match=r"^scenario \S+: the file, include 0: .* itself"):
        load_scenario(path)


def test_scenarios_that_include_each_other_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    path = written(tmp_path, f"description: M.\ninclude: [{other}]")
    other.write_text(f"description: O.\ninclude: [{path}]", encoding="utf-8")

    with pytest.raises(ScenarioError, match=r"mine.yaml: .*other.yaml: .* includes itself"):
        load_scenario(path)


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=f"^cannot read {tmp_path}: Is a directory$"):
        load_scenario(str(tmp_path))


def test_a_file_that_is_not_text_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\x7fELF\xff\xfe\x00")

    with pytest.raises(ScenarioError, match=f"^cannot read {path}: not text in UTF-8"):
        load_scenario(str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_is_not_ours_to_read_is_told_as_that(tmp_path: Path) -> None:
    path = written(tmp_path, "description: Mine.")
    Path(path).chmod(0)

    with pytest.raises(ScenarioError, match=f"^cannot read {path}: Permission denied$"):
        load_scenario(path)


def test_a_file_that_cannot_be_read_tells_the_reason() -> None:
    with pytest.raises(ScenarioError, match=r"^cannot read /proc/self/mem: Input/output error$"):
        load_scenario("/proc/self/mem")


def test_two_cards_at_one_place_are_refused(tmp_path: Path) -> None:
    place = '    pci_bus_id: "00000000:07:00.0"\n'
    path = written(tmp_path, f"description: Mine.\ncards:{CARD}{CARD.lstrip(chr(10))}{place}")

    with pytest.raises(ScenarioError, match=r"cards 0 and 1 both stand at 00000000:07:00\.0"):
        load_scenario(path)


def test_an_unknown_scenario_names_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match=r"no scenario 'warm'; .*hand-warmer.*YAML file"):
        load_scenario("warm")
