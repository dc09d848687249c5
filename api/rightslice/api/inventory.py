"""Where cards were and what changed among them, as the API tells it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from rightslice.ledger.inventory import ChangeKind, InventoryChange, inventory_changes
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.stays import Place, card_stays


@dataclass(frozen=True, slots=True)
class PlaceDocument:
    """Where a card sits; each part is empty where nobody tells. `slot` is its PCI bus id."""

    cluster: str
    node: str
    slot: str


@dataclass(frozen=True, slots=True)
class StayDocument:
    """A card in one place, from the first hour in which it was seen there to its last reading."""

    uuid: str
    card: str
    place: PlaceDocument
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ChangeDocument:
    """One change, at the first hour after it; one that left: at its last reading.

    `uuid` is empty for a node that was renamed. `before` is null for what arrived, `after` for what
    left. `successor_uuid` is the card in the place of one that was replaced.
    """

    kind: ChangeKind
    at: datetime
    uuid: str
    before: PlaceDocument | None
    after: PlaceDocument | None
    successor_uuid: str
    card_count: int


@dataclass(frozen=True, slots=True)
class InventoryDocument:
    """Cards by UUID and time, and changes by time, in [start, end)."""

    start: datetime
    end: datetime
    stays: list[StayDocument]
    changes: list[ChangeDocument]


def utc(moment: datetime) -> datetime:
    """Read a moment without a zone as UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def inventory_document(
    ledger: Ledger, start: datetime, end: datetime, node: str | None = None
) -> InventoryDocument:
    """Tell of the cards that were seen in [start, end), or of those that touched one node."""
    stays = card_stays(lambda sql, values: ledger.read("read stays", sql, values), start, end)
    changes = [change for change in inventory_changes(stays) if change.at >= start]
    return InventoryDocument(
        start,
        end,
        [
            StayDocument(stay.uuid, stay.name, _place(stay.place), stay.since, stay.until)
            for stay in stays
            if stay.until > start and node in (None, stay.place.node)
        ],
        [_change(change) for change in changes if node is None or _touches(change, node)],
    )


def _touches(change: InventoryChange, node: str) -> bool:
    return any(place and place.node == node for place in (change.before, change.after))


def _place(place: Place) -> PlaceDocument:
    return PlaceDocument(place.cluster, place.node, place.slot)


def _change(change: InventoryChange) -> ChangeDocument:
    return ChangeDocument(
        change.kind,
        change.at,
        change.uuid,
        _place(change.before) if change.before else None,
        _place(change.after) if change.after else None,
        change.successor_uuid,
        change.card_count,
    )
