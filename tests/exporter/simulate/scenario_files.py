"""Scenario files as a test writes them."""

from pathlib import Path

from rightslice.exporter.simulate.scenario import SimulatedCard, load_scenario

CARD = """
  - name: NVIDIA A10
    memory_total_mib: 23028
    memory_used_mib: 1000
    busy_ratio: 0.5
    sm_active_ratio: 0.25
"""


def written(folder: Path, text: str) -> str:
    """Write a scenario file and give its path."""
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def only_card(folder: Path, more: str = "") -> SimulatedCard:
    """Load a scenario of one card, with some more lines about it."""
    (card,) = load_scenario(written(folder, f"description: Mine.\ncards:{CARD}{more}")).cards
    return card
