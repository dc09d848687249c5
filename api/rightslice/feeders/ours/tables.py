"""All open hours that our exporters told of, and whose hour a value belongs to."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rightslice.feeders.hours.builder import HourTable
from rightslice.feeders.hours.facts import Entity, FactTable
from rightslice.feeders.hours.port_hours import port_entity
from rightslice.feeders.hours.slice_layout import SliceLayout
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.hours.workload_hours import workload_entity
from rightslice.feeders.ours.rules import Rule, Thing
from rightslice.ledger.rows import SOURCE_RIGHTSLICE

VIRTUAL_MACHINE = "vm"
OF_NODES = frozenset((Thing.OOM, Thing.RDMA_PORT, Thing.NETDEV))

# Gives the builder of a thing's hour; cards have another than the rest.
At = Callable[[Any, int], Any]


@dataclass(slots=True)
class OurTables:
    """All open hours that our exporters told of, and how cards are cut."""

    cards: HourTable = field(default_factory=lambda: HourTable(SOURCE_RIGHTSLICE))
    slices: FactTable = field(default_factory=FactTable)
    workloads: FactTable = field(default_factory=FactTable)
    ports: FactTable = field(default_factory=FactTable)
    ooms: FactTable = field(default_factory=FactTable)
    layout: SliceLayout = field(default_factory=SliceLayout)
    # The slice that each workload was last seen on, by the workload's naming labels.
    places: dict[Entity, str] = field(default_factory=dict)

    @property
    def facts(self) -> Mapping[str, FactTable]:
        return {
            "slices": self.slices,
            "workloads": self.workloads,
            "ports": self.ports,
            "ooms": self.ooms,
        }

    def place(self, thing: Thing, named: Entity, node: str) -> tuple[At, Any] | None:
        """Tell whose builder a value goes to; None for a slice that is not known."""
        if thing is Thing.CARD:
            return self.cards.card, named[0]
        if thing is Thing.WORKLOAD:
            return self.workloads.at, workload_entity(named, self.slice_of(named))
        if thing is Thing.OOM:
            return self.ooms.at, named
        if thing in OF_NODES:
            return self.ports.at, port_entity(node, thing, named)
        found = self.layout.of_card(named[0]).get(named[1])
        return None if found is None else (self.slices.at, (found.slice_uuid,))

    def slice_of(self, named: Entity) -> str:
        """Name the slice that a workload was last seen on; empty for a whole card."""
        uuid, gpu_instance_id, kind, *_, container = named
        place = gpu_instance_id or (container if kind == VIRTUAL_MACHINE else "")
        if not place:
            return ""
        known = self.places.get(named)
        if known is not None:
            return known
        found = self.layout.of_card(uuid).get(place)
        return found.slice_uuid if found else ""

    def move(self, live: Iterable[Entity]) -> None:
        """Note on which slice each workload is that is there."""
        for named in live:
            found = self.layout.of_card(named[0]).get(named[1] or named[-1])
            if found is not None:
                self.places[named] = found.slice_uuid

    def carry(self, hour: int) -> None:
        """Move a clock's jitter at an hour's end to the next."""
        self.cards.carry(hour)

    def written(self) -> None:
        """Note that all there was to write is written."""
        self.cards.written()
        for table in self.facts.values():
            table.changed.clear()

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.cards.forget_before(hour)
        self.layout.forget_before(hour)
        for table in self.facts.values():
            table.forget_before(hour)

    def forget_cards(self, uuids: set[str]) -> None:
        """Drop what is kept of the slices of cards that have left."""
        self.layout.forget_cards(uuids)
        if uuids:
            self.places = {
                named: name for named, name in self.places.items() if named[0] not in uuids
            }

    def start_over(self, now_seconds: float) -> None:
        """Take back what was told of the time after now: the clock was set back."""
        self.cards.start_over(now_seconds)
        self.layout.start_over(now_seconds)
        for table in self.facts.values():
            table.forget_from(int(now_seconds // SECONDS_PER_HOUR) + 1)

    def state(self, from_hour: int) -> dict[str, Any]:
        """Give everything, hours from `from_hour` on, in a shape that JSON can hold."""
        return {
            "table": self.cards.state(from_hour),
            "layout": self.layout.state(),
            "places": [[list(named), name] for named, name in self.places.items()],
            **{name: table.state(from_hour) for name, table in self.facts.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.cards.restore(state["table"])
        self.layout.restore(state["layout"])
        self.places = {tuple(named): name for named, name in state["places"]}
        for name, table in self.facts.items():
            table.restore(state[name])


def see_peak(builder: Any, rule: Rule, value: float) -> None:
    """Take in a reading of which the hour's highest counts."""
    if rule.thing is Thing.CARD:
        builder.see_peak(value)
    else:
        builder.see_peak(rule.field, value)
