"""What changed among the cards of a fleet: who came, went, moved, was replaced or renamed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby, pairwise

from rightslice.ledger.stays import DEPARTED_HOURS, Place, Stay

Host = tuple[str, str]
Cards = Mapping[str, Sequence[Stay]]


class ChangeKind(StrEnum):
    ARRIVED = "arrived"
    LEFT = "left"
    MOVED = "moved"
    REPLACED = "replaced"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """One change, at the first hour after it; one that left: at its last reading.

    `before` is None for a card that arrived, `after` for one that left. `uuid` is empty for a node
    that was renamed, whose places have no slot, and `card_count` says how many cards it has.
    `successor_uuid` is the card that took the place of one that left.
    """

    kind: ChangeKind
    at: datetime
    uuid: str
    before: Place | None
    after: Place | None
    successor_uuid: str = ""
    card_count: int = 1


@dataclass(frozen=True, slots=True)
class _Step:
    """A card's way from one place to another."""

    earlier: Stay
    later: Stay


def inventory_changes(stays: Iterable[Stay]) -> list[InventoryChange]:
    """Explain where each stay begins and ends, every one of these once; in the order of time.

    A card that was there when the first hours were read has not arrived. One that is seen again in
    another place has moved, however long it was away; in the same one, it left and arrived. A node
    was renamed when all of its cards went to a name without others, in one hour, each in its slot:
    so slots have to be told.
    """
    ordered = sorted(stays, key=lambda stay: (stay.uuid, stay.since))
    cards = {uuid: list(found) for uuid, found in groupby(ordered, lambda stay: stay.uuid)}
    steps = [
        _Step(*pair)
        for found in cards.values()
        for pair in pairwise(found)
        if pair[0].place.differs(pair[1].place)
    ]
    renamed, moved = _renamed_nodes(steps, ordered)
    changes = [*renamed, *map(_moved, moved), *_comings_and_goings(cards)]
    return sorted(changes, key=lambda change: (change.at, change.uuid, change.kind))


def _moved(step: _Step) -> InventoryChange:
    return InventoryChange(
        ChangeKind.MOVED, step.later.since, step.later.uuid, step.earlier.place, step.later.place
    )


def _renamed_nodes(
    steps: Sequence[_Step], stays: Sequence[Stay]
) -> tuple[list[InventoryChange], list[_Step]]:
    """Take the steps together that are a node's new name; gives these, and the steps left over."""
    by_hosts: dict[tuple[datetime, Host, Host], list[_Step]] = defaultdict(list)
    for step in steps:
        hosts = step.earlier.place.host, step.later.place.host
        by_hosts[step.later.since, *hosts].append(step)
    by_host: dict[Host, list[Stay]] = defaultdict(list)
    for stay in stays:
        by_host[stay.place.host].append(stay)
    changes, rest = [], []
    for (at, old, new), found in by_hosts.items():
        staying = [stay for host in (old, new) for stay in by_host[host] if _goes_on_over(stay, at)]
        if old == new or staying or not all(map(_keeps_slot, found)):
            rest.extend(found)
            continue
        before, after = Place(*old, ""), Place(*new, "")
        count = len(found)
        changes.append(InventoryChange(ChangeKind.RENAMED, at, "", before, after, card_count=count))
    return changes, rest


def _goes_on_over(stay: Stay, at: datetime) -> bool:
    return stay.since < at < stay.until


def _keeps_slot(step: _Step) -> bool:
    slot = step.earlier.place.slot
    return bool(slot) and slot == step.later.place.slot


def _comings_and_goings(cards: Cards) -> Iterator[InventoryChange]:
    """Give who arrived and who left, or both as one where a card took another's place."""
    arrivals = [stay for found in cards.values() for stay in _arrivals(found)]
    by_place: dict[Place, list[Stay]] = defaultdict(list)
    for stay in sorted(arrivals, key=lambda stay: (stay.since, stay.uuid)):
        by_place[stay.place].append(stay)
    departures = [stay for found in cards.values() for stay in _departures(found)]
    for stay in sorted(departures, key=lambda stay: (stay.until, stay.uuid)):
        successor = _successor(stay, by_place[stay.place]) if stay.place.slot else None
        if successor is None:
            yield InventoryChange(ChangeKind.LEFT, stay.until, stay.uuid, stay.place, None)
            continue
        by_place[stay.place].remove(successor)
        yield InventoryChange(
            ChangeKind.REPLACED,
            successor.since,
            stay.uuid,
            stay.place,
            stay.place,
            successor.uuid,
        )
    for found in by_place.values():
        for stay in found:
            yield InventoryChange(ChangeKind.ARRIVED, stay.since, stay.uuid, None, stay.place)


def _arrivals(found: Sequence[Stay]) -> Iterator[Stay]:
    """Give the stays of one card that began with its arrival."""
    if found[0].unseen_before_count:
        yield found[0]
    for earlier, later in pairwise(found):
        if not earlier.place.differs(later.place):
            yield later


def _departures(found: Sequence[Stay]) -> Iterator[Stay]:
    """Give the stays of one card that ended with its departure."""
    for earlier, later in pairwise(found):
        if not earlier.place.differs(later.place):
            yield earlier
    if found[-1].unseen_after_count >= DEPARTED_HOURS:
        yield found[-1]


def _successor(left: Stay, arrivals: Sequence[Stay]) -> Stay | None:
    """Find the first other card that arrived in a place after one had left it."""
    later = (stay for stay in arrivals if stay.uuid != left.uuid and stay.since >= left.until)
    return next(later, None)
