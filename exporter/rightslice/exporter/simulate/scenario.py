"""Scenarios: YAML files that say which cards a simulated node has and what happens to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from rightslice.exporter.simulate.card import (
    BYTES_PER_MIB,
    ScenarioError,
    SimulatedCard,
    Workload,
)
from rightslice.exporter.simulate.read.cards import card_of
from rightslice.exporter.simulate.read.section import Section
from rightslice.exporter.simulate.read.timeline import event_of
from rightslice.exporter.simulate.timeline import Event

__all__ = [
    "BYTES_PER_MIB",
    "Scenario",
    "ScenarioError",
    "SimulatedCard",
    "Workload",
    "load_scenario",
    "scenario_names",
]

SCENARIO_KEYS = ("description", "driver_version", "include", "cards", "events")
DEFAULT_DRIVER_VERSION = "580.95.05"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulated node; `description` says what one should see."""

    name: str
    description: str
    driver_version: str
    cards: tuple[SimulatedCard, ...]
    events: tuple[Event, ...] = ()


def scenario_names() -> tuple[str, ...]:
    """List the scenarios that ship with the package."""
    folder = files("rightslice.exporter.simulate").joinpath("scenarios")
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def load_scenario(name: str, including: tuple[str, ...] = ()) -> Scenario:
    """Load a scenario by its name, or from a YAML file by its path. Raises ScenarioError.

    `including` are those that include it, and must not be included again.
    """
    try:
        import yaml
    except ImportError as error:
        raise ScenarioError(
            "a simulated node needs PyYAML, which rightslice[simulate] brings along"
        ) from error
    text = _scenario_text(name)
    try:
        document = yaml.safe_load(text)
    # A date or number that cannot be, and brackets without end, come as they are.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScenarioError(f"scenario {name}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"scenario {name}: want a mapping with description and cards")
    try:
        return _scenario(Path(name).stem, document, (*including, name))
    except ScenarioError as error:
        raise ScenarioError(f"scenario {name}: {error}") from error


def _scenario_text(name: str) -> str:
    if name in scenario_names():
        folder = files("rightslice.exporter.simulate").joinpath("scenarios")
        return folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        known = ", ".join(scenario_names())
        raise ScenarioError(
            f"no scenario {name!r}; there are {known}, or give the path of a YAML file"
        ) from error
    except OSError as error:
        raise ScenarioError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(
            f"cannot read {name}: not text in UTF-8; give the path of a YAML file"
        ) from error
    except ValueError as error:  # a NUL in the path
        raise ScenarioError(f"cannot read {name!r}: {error}") from error


def _scenario(name: str, document: dict[str, Any], including: tuple[str, ...]) -> Scenario:
    section = Section("the file", document, SCENARIO_KEYS)
    cards: list[SimulatedCard] = []
    events: list[Event] = []
    for place, other in section.rows("include"):
        if not isinstance(other, str):
            raise ScenarioError(f"{place} is {other!r}; want a scenario's name or YAML file")
        if other in including:
            raise ScenarioError(f"{place}: {other} includes itself; take that include out")
        included = load_scenario(other, including)
        events += (_moved(event, len(cards)) for event in included.events)
        cards += included.cards
    own = [
        card_of(place, f"{name}/{position}", row)
        for position, (place, row) in enumerate(section.rows("cards"))
    ]
    events += (
        _moved(event_of(place, row, own, name), len(cards)) for place, row in section.rows("events")
    )
    if not cards and not own:
        raise ScenarioError("no cards; list some, or include a scenario that has some")
    _check_places((*cards, *own))
    return Scenario(
        name=name,
        description=section.text("description"),
        driver_version=str(document.get("driver_version", DEFAULT_DRIVER_VERSION)),
        cards=(*cards, *own),
        events=tuple(events),
    )


def _check_places(cards: Sequence[SimulatedCard]) -> None:
    """Refuse two cards at one place. Raises ScenarioError."""
    taken: dict[str, int] = {}
    for index, card in enumerate(cards):
        bus_id = card.bus_id_at(index).lower()
        if bus_id in taken:
            raise ScenarioError(
                f"cards {taken[bus_id]} and {index} both stand at {bus_id}; change a pci_bus_id"
            )
        taken[bus_id] = index


def _moved(event: Event, count: int) -> Event:
    """Let an event mean the same card after `count` others have come before it."""
    return event if event.card is None else replace(event, card=event.card + count)
