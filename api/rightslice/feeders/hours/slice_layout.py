"""Which slices a card is cut into, since when, and what share of the card each is.

A MIG instance's id is used again. What tells one instance from the next is the UUID of its compute
instances: the first that was seen stays its name for as long as one of its compute instances stays.
A slice is there from the first page that tells it to the first page of the card that does not.
"""

import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Any

from rightslice.facts.cards import find_card
from rightslice.facts.mig import MigCard, find_mig_card
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import KIND_MIG, KIND_VGPU

# A compute instance's profile names it before its GPU instance's: "2c.3g.71gb".
COMPUTE_PART = re.compile(r"^\d+c\.")


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a card. `units` of `card_units` are its share of it, 0 of 0 where not known."""

    uuid: str
    slice_uuid: str
    kind: str
    gpu_instance_id: str
    profile: str
    units: int
    card_units: int

    @property
    def share(self) -> float:
        return self.units / self.card_units if self.card_units else 0.0


@dataclass(slots=True)
class SliceLayout:
    """All slices of all cards: those that are there, and when each was there."""

    # By card, and GPU instance id; of vGPUs the vGPU's UUID.
    present: dict[str, dict[str, Slice]] = field(default_factory=dict)
    known: dict[str, Slice] = field(default_factory=dict)
    # From when to when each was there; no end while it is there.
    spans: dict[str, list[list[float | None]]] = field(default_factory=dict)

    def see(self, uuid: str, now_seconds: float, found: dict[str, Slice]) -> None:
        """Take in all slices of a card, by their place, as a page tells them."""
        before = self.present.pop(uuid, {})
        names = {told.slice_uuid for told in found.values()}
        for old in before.values():
            if old.slice_uuid not in names:
                self.spans[old.slice_uuid][-1][1] = now_seconds
        for told in found.values():
            self.known[told.slice_uuid] = told
            spans = self.spans.setdefault(told.slice_uuid, [])
            if not spans or spans[-1][1] is not None:
                spans.append([now_seconds, None])
        if found:
            self.present[uuid] = found

    def of_card(self, uuid: str) -> dict[str, Slice]:
        return self.present.get(uuid, {})

    def owned_seconds(self, slice_uuid: str, hour: int, until_seconds: float) -> float:
        """Give how much of an hour a slice was there, as far as the hour has come."""
        begin = hour * SECONDS_PER_HOUR
        end = min(begin + SECONDS_PER_HOUR, until_seconds)
        return sum(
            max(min(end, end if span_end is None else span_end) - max(begin, start or 0.0), 0.0)
            for start, span_end in self.spans.get(slice_uuid, ())
        )

    def forget_cards(self, uuids: Iterable[str]) -> None:
        """Drop the slices of cards that have left."""
        gone = set(uuids)
        if gone:
            self._forget({name for name, told in self.known.items() if told.uuid in gone})
            for uuid in gone:
                self.present.pop(uuid, None)

    def forget_before(self, hour: int) -> None:
        """Drop slices that had ended before an hour."""
        begin = hour * SECONDS_PER_HOUR
        ended = set()
        for name, spans in self.spans.items():
            self.spans[name] = [span for span in spans if span[1] is None or span[1] > begin]
            if not self.spans[name]:
                ended.add(name)
        self._forget(ended)

    def _forget(self, names: set[str]) -> None:
        for name in names:
            self.known.pop(name, None)
            self.spans.pop(name, None)

    def start_over(self, now_seconds: float) -> None:
        """Take back what was told of the time after now: the clock was set back."""
        for spans in self.spans.values():
            for span in spans:
                span[:] = [None if edge is None else min(edge, now_seconds) for edge in span]

    def state(self) -> dict[str, Any]:
        """Give everything, in a shape that JSON can hold."""
        return {
            "known": [list(astuple(told)) for told in self.known.values()],
            "present": {
                uuid: {place: told.slice_uuid for place, told in places.items()}
                for uuid, places in self.present.items()
            },
            "spans": self.spans,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.known = {row[1]: Slice(*row) for row in state["known"]}
        self.present = {
            uuid: {place: self.known[name] for place, name in places.items()}
            for uuid, places in state["present"].items()
        }
        self.spans = {
            name: [list(span) for span in spans] for name, spans in state["spans"].items()
        }


def mig_slices(
    uuid: str,
    card_name: str,
    infos: Iterable[Reading],
    free_units: float | None,
    before: dict[str, Slice],
) -> dict[str, Slice]:
    """Give a card's GPU instances by their ids, from a page's rows of its compute instances.

    `before` are those of the page before, `free_units` the units that no instance occupies, None
    where that is not told.
    """
    rows: dict[str, list[Reading]] = {}
    for info in infos:
        rows.setdefault(info.labels.get("gpu_instance_id", ""), []).append(info)
    facts = find_card(card_name)
    mig_card = find_mig_card(facts.mig_id) if facts and facts.mig_id else None
    sizes = {place: _size(told[0], mig_card) for place, told in rows.items()}
    card_units = mig_card.placement_unit_count if mig_card else None
    if card_units is None and free_units is not None and all(sizes.values()):
        card_units = round(free_units) + sum(sizes.values())
    found = {}
    for place, told in rows.items():
        units = sizes[place] if card_units else 0
        found[place] = Slice(
            uuid=uuid,
            slice_uuid=_name(uuid, place, told, before.get(place)),
            kind=KIND_MIG,
            gpu_instance_id=place,
            profile=_profile(told[0]),
            units=units,
            card_units=card_units or 0 if units else 0,
        )
    return found


def vgpu_slices(uuid: str, infos: Iterable[Reading], shares: dict[str, float]) -> dict[str, Slice]:
    """Give a card's vGPUs by their UUIDs.

    A type's share is one over as many as fit: one unit of so many says it exactly, where
    thousandths of a third would not.
    """
    found = {}
    for info in infos:
        name = info.labels.get("vgpu_uuid", "")
        share = shares.get(name, 0.0)
        found[name] = Slice(
            uuid=uuid,
            slice_uuid=name,
            kind=KIND_VGPU,
            gpu_instance_id="",
            profile=info.labels.get("type", ""),
            units=1 if share > 0 else 0,
            card_units=round(1 / share) if share > 0 else 0,
        )
    found.pop("", None)
    return found


def _profile(info: Reading) -> str:
    return COMPUTE_PART.sub("", info.labels.get("profile", ""))


def _size(info: Reading, mig_card: MigCard | None) -> int:
    """Give an instance's placement units: as told, else by its profile; 0 where not known."""
    told = info.labels.get("size", "")
    if told.isdecimal():
        return int(told)
    profiles = mig_card.profiles if mig_card else ()
    sizes = [
        each.placements[0].size
        for each in profiles
        if each.name == _profile(info) and each.placements
    ]
    return sizes[0] if sizes else 0


def _name(uuid: str, place: str, rows: list[Reading], before: Slice | None) -> str:
    """Name an instance by its first compute instance; what named it before stays its name."""
    names = [
        row.labels["mig_uuid"]
        for row in sorted(rows, key=lambda row: row.labels.get("compute_instance_id", ""))
        if row.labels.get("mig_uuid")
    ]
    if before is not None and before.slice_uuid in names:
        return before.slice_uuid
    return names[0] if names else f"{uuid}/gi/{place}/{_profile(rows[0])}"
