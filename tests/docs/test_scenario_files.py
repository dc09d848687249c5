"""The page of scenario files: it tells every key and word there is, and its example works."""

import re
from pathlib import Path

import pytest

from rightslice.exporter.host.net.distance import DISTANCES
from rightslice.exporter.simulate.card import (
    MEMORY_KINDS,
    PROCESS_KINDS,
    SCHEDULERS,
    THROTTLE_REASONS,
    VIRTUALIZATIONS,
)
from rightslice.exporter.simulate.faults import ALL, FAULTS
from rightslice.exporter.simulate.nic import CAPABILITIES, DRIVERS, LINK_LAYERS, LINKS
from rightslice.exporter.simulate.read import cards, nics, section, slices, timeline, workloads
from rightslice.exporter.simulate.scenario import (
    DEFAULT_DRIVER_VERSION,
    SCENARIO_KEYS,
    load_scenario,
)
from rightslice.exporter.simulate.timeline import DRIVER_STATES, Event
from rightslice.exporter.simulate.workload import (
    CGROUPS,
    DEVICE_IDS,
    KINDS,
    LIMIT_SOURCES,
    RUNTIMES,
)

PAGE = Path(__file__).resolve().parents[2] / "docs/scenario-files.md"
KEY = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def chapter(title: str) -> str:
    """Give the text below a heading, up to the next one."""
    text = PAGE.read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("The file", SCENARIO_KEYS),
        ("Levels", (*section.LEVEL_KEYS, *section.PEAK_KEYS)),
        ("Cards", cards.CARD_KEYS),
        ("Processes", cards.PROCESS_KEYS),
        ("Workloads", workloads.WORKLOAD_KEYS),
        ("Memory errors", cards.ECC_KEYS),
        ("Remapped rows", cards.REMAP_KEYS),
        ("NVLink", cards.NVLINK_KEYS),
        ("PCIe", cards.PCIE_KEYS),
        ("MIG", (*slices.MIG_KEYS, *slices.INSTANCE_KEYS)),
        ("vGPU", {*slices.VGPU_KEYS, *slices.VGPU_INSTANCE_KEYS}),
        ("Events", timeline.EVENT_KEYS),
        ("Network cards", (*nics.NIC_KEYS, *nics.PCIE_KEYS, *nics.PAUSE_KEYS)),
        ("Events of network cards", nics.ONLY_EVENT_KEYS),
    ],
)
def test_every_key_has_a_row(title: str, keys: tuple[str, ...]) -> None:
    assert sorted(KEY.findall(chapter(title))) == sorted(keys)


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Cards", (*MEMORY_KINDS, *VIRTUALIZATIONS, *THROTTLE_REASONS, *cards.WORKLOAD_KEYS)),
        ("Processes", PROCESS_KINDS),
        ("Workloads", (*KINDS, *RUNTIMES, *CGROUPS, *DEVICE_IDS, *LIMIT_SOURCES)),
        ("vGPU", SCHEDULERS),
        ("Faults", (ALL, *FAULTS)),
        ("Events", DRIVER_STATES),
        ("Network cards", (*DRIVERS, *LINK_LAYERS, *LINKS, *DISTANCES, *CAPABILITIES)),
        ("Events of network cards", nics.CHANGE_KEYS),
    ],
)
def test_every_word_is_told(title: str, words: tuple[str, ...]) -> None:
    text = chapter(title)

    assert [word for word in words if f"`{word}`" not in text] == []


def test_the_default_driver_is_told() -> None:
    assert f"| {DEFAULT_DRIVER_VERSION} |" in chapter("The file")


def test_the_example_is_a_scenario(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "example.yaml"
    path.write_text(example, encoding="utf-8")

    scenario = load_scenario(str(path))

    assert [card.name for card in scenario.cards] == ["NVIDIA A100-SXM4-40GB"]
    assert scenario.events == (
        Event(60, card=0, faults={"nvmlDeviceGetMemoryInfo_v2": FAULTS["unknown"]}),
        Event(90, card=0, faults={}),
    )
