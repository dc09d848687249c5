"""The page of the companion exporter on a simulated node."""

import pytest
from support.pages import from_text
from support.simulated import (
    BYTES_PER_MIB,
    START_SECONDS,
    constant,
    simulated_card,
    simulated_scenario,
)

from rightslice.exporter.simulate.dcgm import COLLECT_SECONDS, page
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.scenario import Scenario, Workload, load_scenario

HELD = simulated_card(1, workload=Workload("chat", "engine-0", "vllm"))
FREE = simulated_card(2, memory_used_bytes=constant(4.5 * BYTES_PER_MIB), busy_ratio=constant(0))
NODE = simulated_scenario(HELD, FREE)


def samples(scenario: Scenario = NODE) -> dict[tuple[str, str], tuple[dict[str, str], float]]:
    """Read the page: field and UUID to labels and value."""
    told = from_text(page(scenario, "node-a", START_SECONDS).encode())
    return {(name, labels["UUID"]): (labels, value) for name, labels, value in told}


@pytest.mark.parametrize(
    ("field", "held", "free"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 50, 0, id="percent"),
        pytest.param("DCGM_FI_DEV_FB_USED", 20480, 4, id="whole MiB used"),
        pytest.param("DCGM_FI_DEV_FB_RESERVED", 434, 434, id="MiB reserved"),
        pytest.param("DCGM_FI_DEV_FB_FREE", 20046, 40522, id="MiB free"),
        pytest.param("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, 0, id="engine ratio"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", 0.25, 0.25, id="SM ratio"),
    ],
)
def test_a_field_has_its_own_unit(field: str, held: float, free: float) -> None:
    told = samples()

    assert told[field, "GPU-0001"][1] == held
    assert told[field, "GPU-0002"][1] == free


def test_labels_are_those_of_the_companion() -> None:
    labels, _ = samples()["DCGM_FI_PROF_SM_ACTIVE", "GPU-0001"]

    assert labels == {
        "gpu": "0",
        "UUID": "GPU-0001",
        "pci_bus_id": "00000000:07:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "Hostname": "node-a",
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
        "container": "vllm",
        "namespace": "chat",
        "pod": "engine-0",
    }


def test_a_card_that_nobody_holds_has_empty_labels() -> None:
    labels, _ = samples()["DCGM_FI_PROF_SM_ACTIVE", "GPU-0002"]

    assert (labels["namespace"], labels["pod"], labels["container"]) == ("", "", "")


def test_a_scrape_between_two_collections_gives_the_same_values_again() -> None:
    moving = simulated_scenario(simulated_card(busy_ratio=Level(0, 1, seed=5)))
    pages = [page(moving, "node-a", START_SECONDS + step) for step in (0, 29.9, 60)]

    assert COLLECT_SECONDS == 30
    assert pages[0] == pages[1] != pages[2]


def test_each_scenario_that_ships_tells_six_fields_for_each_card() -> None:
    fleet = load_scenario("fleet")

    assert len(samples(fleet)) == 6 * len(fleet.cards)
