"""Scenarios: YAML files that say which cards a simulated node has and what happens to them."""

import re
from collections.abc import Iterable, Sequence
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
from rightslice.exporter.simulate.nic import NicEvent, SimulatedNic
from rightslice.exporter.simulate.read.cards import card_of
from rightslice.exporter.simulate.read.nics import Node, check_over_time, nic_event_of, nic_of
from rightslice.exporter.simulate.read.section import Section
from rightslice.exporter.simulate.read.timeline import event_of, is_on_node
from rightslice.exporter.simulate.read.workloads import workload_of
from rightslice.exporter.simulate.timeline import Event
from rightslice.exporter.simulate.workload import SimulatedWorkload

__all__ = [
    "BYTES_PER_MIB",
    "Scenario",
    "ScenarioError",
    "SimulatedCard",
    "Workload",
    "load_scenario",
    "scenario_names",
]

SCENARIO_KEYS = (
    "description",
    "driver_version",
    "include",
    "nodes",
    "workloads",
    "cards",
    "nics",
    "events",
)
DEFAULT_DRIVER_VERSION = "580.95.05"
# A scenario's name, and the number of one of its nodes.
NODE = re.compile(r"(?P<name>.+)@(?P<node>[0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulated node; `description` says what one should see."""

    name: str
    description: str
    driver_version: str
    cards: tuple[SimulatedCard, ...]
    events: tuple[Event, ...] = ()
    workloads: tuple[SimulatedWorkload, ...] = ()
    nics: tuple[SimulatedNic, ...] = ()
    nic_events: tuple[NicEvent, ...] = ()
    # Of how many nodes it tells; each is one simulated node, `name@2` the second.
    node_count: int = 1


def scenario_names() -> tuple[str, ...]:
    """List the scenarios that ship with the package."""
    folder = files("rightslice.exporter.simulate").joinpath("scenarios")
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def load_scenario(name: str, including: tuple[str, ...] = ()) -> Scenario:
    """Load a scenario by its name, or from a YAML file by its path. Raises ScenarioError.

    Of a scenario of several nodes, `name@2` is the second; without a number it is the first.
    `including` are those that include it, and must not be included again.
    """
    try:
        import yaml
    except ImportError as error:
        raise ScenarioError(
            "a simulated node needs PyYAML, which rightslice[simulate] brings along"
        ) from error
    match = NODE.fullmatch(name)
    file, node = (match["name"], int(match["node"])) if match else (name, 1)
    text = _scenario_text(file)
    try:
        document = yaml.safe_load(text)
    # A date or number that cannot be, and brackets without end, come as they are.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScenarioError(f"scenario {name}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"scenario {name}: want a mapping with description and cards")
    try:
        stem = f"{Path(file).stem}@{node}" if match else Path(file).stem
        return _scenario(stem, document, node, (*including, name))
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


def _scenario(
    name: str, document: dict[str, Any], node: int, including: tuple[str, ...]
) -> Scenario:
    section = Section("the file", document, SCENARIO_KEYS)
    node_count = section.whole("nodes", 1)
    if not 1 <= node <= node_count:
        raise ScenarioError(f"there is no node {node}; want a number from 1 to {node_count}")
    # What wanders does so alike on each run of a node, and differently on each node.
    key = name.partition("@")[0] if node == 1 else name
    cards: list[SimulatedCard] = []
    nics: list[SimulatedNic] = []
    events: list[Event] = []
    nic_events: list[NicEvent] = []
    workloads: list[SimulatedWorkload] = []
    for place, other in section.rows("include"):
        if not isinstance(other, str):
            raise ScenarioError(f"{place} is {other!r}; want a scenario's name or YAML file")
        if other in including:
            raise ScenarioError(f"{place}: {other} includes itself; take that include out")
        included = load_scenario(other, including)
        events += (_moved(event, len(cards)) for event in included.events)
        moved = (_moved_workload(each, len(cards)) for each in included.workloads)
        _add_workloads(workloads, moved, f"{place}: {other}")
        nic_events += (replace(each, nic=each.nic + len(nics)) for each in included.nic_events)
        nics += [_moved_nic(nic, len(cards), len(nics)) for nic in included.nics]
        cards += included.cards
    own_workloads: list[SimulatedWorkload] = []
    for place, row in section.rows("workloads"):
        _add_workloads(own_workloads, [workload_of(place, row, key)], place)
    own = [
        card_of(place, f"{key}/{position}", row, {each.name: each for each in own_workloads})
        for position, (place, row) in enumerate(section.rows("cards"))
    ]
    _check_grants(own_workloads, len(own))
    _add_workloads(
        workloads, (_moved_workload(each, len(cards)) for each in own_workloads), "the file"
    )
    own_nics: list[SimulatedNic] = []
    included_count = len(nic_events)
    for position, (place, row) in enumerate(section.rows("nics")):
        own_nics.append(nic_of(place, f"{key}/nic {position}", row, own_nics, Node(node, len(own))))
    for place, row in section.rows("events"):
        if not is_on_node(place, row, node):
            continue
        if isinstance(row, dict) and "nic" in row:
            event = nic_event_of(place, row, own_nics, key)
            nic_events.append(replace(event, nic=event.nic + len(nics)))
        else:
            events.append(_moved(event_of(place, row, own, key), len(cards)))
    check_over_time(own_nics, nic_events[included_count:], len(nics))
    nics += [_moved_nic(nic, len(cards), len(nics)) for nic in own_nics]
    if not cards and not own:
        raise ScenarioError("no cards; list some, or include a scenario that has some")
    _check_places((*cards, *own))
    _check_nics(nics)
    return Scenario(
        name=name,
        description=section.text("description"),
        driver_version=str(document.get("driver_version", DEFAULT_DRIVER_VERSION)),
        cards=(*cards, *own),
        events=tuple(events),
        workloads=tuple(workloads),
        nics=tuple(nics),
        nic_events=tuple(nic_events),
        node_count=node_count,
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


def _check_nics(nics: Sequence[SimulatedNic]) -> None:
    """Refuse two network cards of one name or at one place. Raises ScenarioError."""
    for what in ("name", "netdev", "pci_bus_id"):
        taken: dict[str, int] = {}
        for position, nic in enumerate(nics):
            text = getattr(nic, what)
            if text in taken:
                raise ScenarioError(
                    f"nics {taken[text]} and {position} both have {what} {text}; change one"
                )
            taken[text] = position


def _add_workloads(
    known: list[SimulatedWorkload], more: Iterable[SimulatedWorkload], place: str
) -> None:
    """Add workloads to those that are known, and refuse a name that is taken."""
    for each in more:
        if each.name in {other.name for other in known}:
            raise ScenarioError(f"{place}: there is a workload {each.name} already; rename one")
        known.append(each)


def _check_grants(workloads: Iterable[SimulatedWorkload], card_count: int) -> None:
    """Refuse a card that is granted and not there. Raises ScenarioError."""
    for workload in workloads:
        for position in workload.cards:
            if position >= card_count:
                raise ScenarioError(
                    f"workload {workload.name}: there is no card {position}; want a position from "
                    f"0 to {card_count - 1}"
                )


def _moved_workload(workload: SimulatedWorkload, count: int) -> SimulatedWorkload:
    """Let a workload have the same cards after `count` others have come before them."""
    return replace(workload, cards=tuple(position + count for position in workload.cards))


def _moved_nic(nic: SimulatedNic, card_count: int, nic_count: int) -> SimulatedNic:
    """Let a network card mean the same others after more have come before them."""
    physical = None if nic.physical is None else nic.physical + nic_count
    return replace(nic, card=nic.card + card_count, physical=physical)


def _moved(event: Event, count: int) -> Event:
    """Let an event mean the same card after `count` others have come before it."""
    return event if event.card is None else replace(event, card=event.card + count)
