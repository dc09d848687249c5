"""Takes one page of ours into the tables: differences its counters, and gives each its hour."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rightslice.feeders.counters import BinGrowth, Growth, Scrape
from rightslice.feeders.hours.facts import Entity
from rightslice.feeders.hours.port_hours import OBSERVED, port_entity
from rightslice.feeders.hours.slice_layout import Slice
from rightslice.feeders.hours.spread import Shares, hour_of, spread
from rightslice.feeders.ours.metrics import RULES_BY_NAME
from rightslice.feeders.ours.page import OurPage
from rightslice.feeders.ours.rules import How, Rule, Thing
from rightslice.feeders.ours.series import SeriesBook, Step
from rightslice.feeders.ours.tables import OF_NODES, VIRTUAL_MACHINE, At, OurTables, see_peak
from rightslice.ledger.rows import KIND_VGPU
from rightslice.profile.flags import FLAG_BRIDGED

BUSY_SIGNAL = "busy"
# What a vGPU's own hour has from the virtual machine on it.
OF_MACHINE = frozenset(("observed_seconds", "busy_observed_seconds", "busy_seconds"))
# What may be read again after an outage, with nobody knowing how it was spread.
BRIDGEABLE = frozenset((Thing.CARD, Thing.SLICE, Thing.WORKLOAD))


@dataclass(slots=True)
class OurIntake:
    """One page while it is taken in.

    `before` are each card's slices on the page before: what grew since is theirs. `live` are the
    workloads that are there, None where the page does not tell.
    """

    tables: OurTables
    page: OurPage
    scrape: Scrape
    node: str
    owns_card: Callable[[str], bool]
    owns_node: bool
    before: Mapping[str, Mapping[str, Slice]]
    live: set[Entity] | None
    is_bridged: bool
    book: SeriesBook
    # Of cut cards: what was counted of the whole card, and of each slice by all who hold it.
    _allocation_observed: dict[str, Growth] = field(default_factory=dict)
    _allocated: dict[str, Growth] = field(default_factory=dict)
    _held_seconds: dict[str, float] = field(default_factory=dict)
    _cards_with_holders: set[str] = field(default_factory=set)
    # Which cards are this target's; over which hours a growth since some time is spread.
    _owned: dict[str, bool] = field(default_factory=dict)
    _shares: dict[float, Shares] = field(default_factory=dict)
    # Since when all registers of a port could be differenced; None where one could not.
    _ports: dict[Entity, float | None] = field(default_factory=dict)

    def run(self) -> None:
        """Take in all that the table of our metrics knows."""
        for name, readings in self.page.by_name.items():
            rules = RULES_BY_NAME.get(name, ())
            for rule in rules:
                if rule.how is How.BINS:
                    self._take_histograms(rule)
            if any(rule.how is not How.BINS for rule in rules):
                for steps, value in self.book.steps(name, readings):
                    for step in steps:
                        if self._is_to_tell(step.named, is_of_node=step.is_of_node):
                            self._take(step, value)
        self._settle_slices()
        self._settle_ports()

    def _take(self, step: Step, value: float) -> None:
        if step.is_growing:
            self._grow(step, value)
            return
        rule = step.rule
        place = self.tables.place(rule.thing, step.named, self.node)
        if place is None:
            return
        at, key = place
        builder = at(key, hour_of(self.scrape.now_seconds))
        if rule.how is How.PEAK:
            see_peak(builder, rule, value)
        elif rule.how is How.FLAG:
            if value == 1:
                builder.note(rule.field)
        else:
            builder.put(step.slot, value)

    def _is_to_tell(self, named: Entity, *, is_of_node: bool) -> bool:
        """Tell whether a thing is this target's to tell of."""
        if is_of_node:
            return self.owns_node
        uuid = named[0]
        owns = self._owned.get(uuid)
        if owns is None:
            owns = self._owned[uuid] = self.owns_card(uuid)
        return owns

    def _is_settled(self, named: Entity) -> bool:
        """Tell whether a slice is the one that was there at the page before."""
        now = self.tables.layout.of_card(named[0]).get(named[1])
        then = self.before.get(named[0], {}).get(named[1])
        return now is not None and then is not None and now.slice_uuid == then.slice_uuid

    def _grow(self, step: Step, value: float) -> None:
        rule, named = step.rule, step.named
        if rule.how is How.REGISTER:
            growth = self.scrape.grow_register(step.key, value, step.seconds_per_unit)
            self._note_register(port_entity(self.node, rule.thing, named), growth)
        else:
            growth = self.scrape.grow(step.key, value, step.seconds_per_unit)
        if growth is None or self._is_of_slices(rule, named, growth):
            return
        if rule.thing is Thing.SLICE and not self._is_settled(named):
            return  # of which of two instances it is cannot be told
        if rule.thing is Thing.WORKLOAD:
            if not growth.amount and self.live is not None and named not in self.live:
                return  # one that has ended, and whose counters are still there
            self._take_for_vgpu(rule, named, growth)
        place = self.tables.place(rule.thing, named, self.node)
        if place is not None:
            self._deliver(rule, *place, step.slot, growth)

    def _is_of_slices(self, rule: Rule, named: Entity, growth: Growth) -> bool:
        """Note what tells who holds a cut card's slices; True where the page's end settles it."""
        uuid = named[0]
        if uuid not in self.before:
            return False
        if rule.thing is Thing.CARD and rule.field == "allocation_observed_seconds":
            self._allocation_observed[uuid] = growth
        elif rule.thing is Thing.CARD and rule.field == "allocated_seconds":
            self._allocated[uuid] = growth
            return True
        elif rule.thing is Thing.WORKLOAD and rule.field == "allocated_seconds":
            name = self.tables.slice_of(named)
            if name:
                self._held_seconds[name] = self._held_seconds.get(name, 0.0) + growth.amount
                self._cards_with_holders.add(uuid)
        return False

    def _take_for_vgpu(self, rule: Rule, named: Entity, growth: Growth) -> None:
        if named[2] != VIRTUAL_MACHINE or rule.field not in OF_MACHINE:
            return
        name = self.tables.slice_of(named)
        found = self.tables.layout.known.get(name)
        if found is not None and found.kind == KIND_VGPU:
            self._deliver(rule, self.tables.slices.at, (name,), rule.field, growth)

    def _deliver(self, rule: Rule, at: At, key: Any, slot: str, growth: Growth) -> None:
        if rule.how is How.EVENTS:
            at(key, hour_of(growth.end_seconds)).add(slot, growth.amount)
            return
        start_seconds, end_seconds, amount = growth
        shares = self._shares.get(start_seconds)
        if shares is None:  # all growth on a page ends with it
            shares = self._shares[start_seconds] = Shares.of(start_seconds, end_seconds)
        for hour, part in shares.parts(amount):
            builder = at(key, hour)
            builder.add(slot, part)
            if self.is_bridged and rule.thing in BRIDGEABLE:
                builder.note(FLAG_BRIDGED)

    def _take_histograms(self, rule: Rule) -> None:
        interval_seconds = self.page.interval_seconds(rule.signal)
        for labels, (reading, counts) in self.page.histograms(rule, self.book).items():
            named = rule.entity(reading.labels)
            is_of_node = rule.thing in OF_NODES
            if named is None or not self._is_to_tell(named, is_of_node=is_of_node):
                continue
            growth = self.scrape.grow_bins((rule.name, *labels), counts, interval_seconds)
            if growth is None or (rule.thing is Thing.SLICE and not self._is_settled(named)):
                continue
            place = self.tables.place(rule.thing, named, self.node)
            if place is not None:
                self._deliver_bins(rule, *place, growth, interval_seconds)

    def _deliver_bins(
        self, rule: Rule, at: At, key: Any, growth: BinGrowth, interval_seconds: float
    ) -> None:
        bins = f"{rule.field}_bins"
        for index, amount in enumerate(growth.amounts):
            if not amount:
                continue
            for hour, part in spread(growth.start_seconds, growth.end_seconds, amount):
                builder = at(key, hour)
                builder.add_to_bin(bins, index, part)
                builder.put(f"{rule.field}_interval_seconds", interval_seconds)
                if rule.thing is Thing.CARD and rule.field == BUSY_SIGNAL:
                    builder.busy_signal = BUSY_SIGNAL

    def _settle_slices(self) -> None:
        """Tell each slice for how long it was held, once all who hold a part of it are known."""
        for uuid, allocated in self._allocated.items():
            observed = self._allocation_observed.get(uuid)
            slices = self.before[uuid].values()
            is_cut = is_cut_by_mig(slices)
            is_told = uuid in self._cards_with_holders or not allocated.amount
            if observed is not None and is_told:
                self._hold(slices, observed)
            if not (is_cut and is_told and observed is not None):
                for hour, part in spread(
                    allocated.start_seconds, allocated.end_seconds, allocated.amount
                ):
                    self.tables.cards.card(uuid, hour).add("allocated_seconds", part)

    def _hold(self, slices: Iterable[Slice], observed: Growth) -> None:
        span = (observed.start_seconds, observed.end_seconds)
        for told in slices:
            # Several containers may hold one slice: that is no more than all of the time.
            held_seconds = min(self._held_seconds.get(told.slice_uuid, 0.0), observed.amount)
            for name, amount in (
                ("allocation_observed_seconds", observed.amount),
                ("allocated_seconds", held_seconds),
            ):
                for hour, part in spread(*span, amount):
                    self.tables.slices.at((told.slice_uuid,), hour).add(name, part)

    def _note_register(self, port: Entity, growth: Growth | None) -> None:
        since_seconds = growth.start_seconds if growth is not None else None
        known_seconds = self._ports.get(port, since_seconds)
        if since_seconds is None or known_seconds is None:
            self._ports[port] = None
        else:
            self._ports[port] = max(known_seconds, since_seconds)

    def _settle_ports(self) -> None:
        """Count the time since they were told last for ports whose registers all could be compared.

        That is the page before, or one further back where pages tell different things.
        """
        now_seconds = self.scrape.now_seconds
        for port, since_seconds in self._ports.items():
            if since_seconds is not None:
                for hour, part in spread(since_seconds, now_seconds, now_seconds - since_seconds):
                    self.tables.ports.at(port, hour).add(OBSERVED, part)


def is_cut_by_mig(slices: Iterable[Slice]) -> bool:
    """Tell whether a card is cut into instances, all of which have a known share of it."""
    kinds = [(told.kind != KIND_VGPU, told.units > 0) for told in slices]
    return bool(kinds) and all(is_mig and has_share for is_mig, has_share in kinds)
