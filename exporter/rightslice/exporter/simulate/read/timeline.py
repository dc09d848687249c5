"""Reads what happens over a scenario's time."""

from collections.abc import Sequence
from typing import Any

from rightslice.exporter.simulate.card import ScenarioError, SimulatedCard
from rightslice.exporter.simulate.read.cards import ecc_of, faults_of
from rightslice.exporter.simulate.read.section import Section, is_number
from rightslice.exporter.simulate.read.slices import MIG_KEYS, mig_of
from rightslice.exporter.simulate.timeline import DRIVER_STATES, Event

CARD_CHANGES = ("faults", "xid", "mig", "listed", "ecc")
EVENT_KEYS = ("at_seconds", "card", "driver", "nodes", *CARD_CHANGES)


def is_on_node(place: str, value: Any, node: int) -> bool:
    """Tell whether an event happens on a node of its scenario: on all if it names none."""
    if not isinstance(value, dict) or "nodes" not in value:
        return True
    nodes = value["nodes"]
    if not isinstance(nodes, list) or not all(is_number(each) and each >= 1 for each in nodes):
        raise ScenarioError(f"{place}: nodes is {nodes!r}; want a list of numbers from 1")
    return node in nodes


def event_of(place: str, value: Any, cards: Sequence[SimulatedCard], name: str) -> Event:
    """Read one event about the cards of its own scenario, which is called `name`."""
    row = Section(place, value, EVENT_KEYS)
    at_seconds = row.number("at_seconds")
    changes = [key for key in CARD_CHANGES if key in row]
    if not changes and "driver" not in row:
        raise row.wrong("at_seconds", f"a change beside it: driver, {', '.join(CARD_CHANGES)}")
    driver = row.word("driver", DRIVER_STATES, "loaded") if "driver" in row else None
    if not changes:
        return Event(at_seconds, driver=driver)
    card = row.whole("card")
    if card >= len(cards):
        raise row.wrong("card", f"a card's position, from 0 to {len(cards) - 1}")
    mig = row.section("mig", MIG_KEYS)
    return Event(
        at_seconds,
        card,
        driver,
        faults=faults_of(row) if "faults" in row else None,
        xid=row.whole("xid") if "xid" in row else None,
        mig=None if mig is None else mig_of(mig, f"{name}/{card}", cards[card].name),
        listed=row.flag("listed", default=True) if "listed" in row else None,
        ecc=ecc_of(row),
    )
