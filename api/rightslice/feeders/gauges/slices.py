"""What gauges tell of MIG instances, as hours of slices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rightslice.feeders.gauges.block import instance_block
from rightslice.feeders.gauges.hour_sums import Covered
from rightslice.feeders.gauges.hours import (
    GaugeMemory,
    each_hour,
    instance_seconds,
    last_told,
    mean_counts,
    sm_active,
)
from rightslice.feeders.gauges.labels import Learnt
from rightslice.feeders.gauges.mapping import Field, GaugeMapping
from rightslice.feeders.gauges.sightings import CardSightings
from rightslice.feeders.hours.facts import FactTable
from rightslice.feeders.hours.slice_layout import SliceLayout, mig_slices
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.readings import Reading

SM_BINS, SM_INTERVAL = "sm_active_bins", "sm_active_interval_seconds"
DRAM = "dram_active_seconds"


@dataclass(slots=True)
class GaugeSlices:
    """The open hours of all instances that gauges tell of."""

    layout: SliceLayout = field(default_factory=SliceLayout)
    table: FactTable = field(default_factory=FactTable)
    workloads: FactTable = field(default_factory=FactTable)
    memory: GaugeMemory = field(default_factory=GaugeMemory)

    def see(self, card: CardSightings, learnt: Learnt) -> None:
        """Note which instances a card is cut into, and since when.

        Names them in the sightings where what share of the card each of them is is known.
        """
        instances, before = card.instances, self.layout.of_card(card.uuid)
        if not instances and not before:
            return
        infos = [Reading("", learnt.labels_of(card.uuid, instance), 1.0) for instance in instances]
        model = learnt.models.get(card.uuid, "")
        found = mig_slices(card.uuid, model, infos, None, dict(before))
        if not all(told.units for told in found.values()):
            return
        card.slices = {instance: found[instance].slice_uuid for instance in instances}
        there = np.array([card.told_of(instance) for instance in instances], dtype=bool)
        there = there.reshape(len(instances), len(card.stamps))
        changed = np.append(True, np.any(there[:, 1:] != there[:, :-1], axis=0))
        for place in np.flatnonzero(changed).tolist():
            present = {
                one: found[one] for one, at in zip(instances, there, strict=True) if at[place]
            }
            self.layout.see(card.uuid, float(card.stamps[place]), present)

    def take(self, cards: Sequence[CardSightings], mapping: GaugeMapping, learnt: Learnt) -> None:
        """Take in the instances of some cards, which `see` has named."""
        if not any(card.slices for card in cards):
            return
        memory = self.memory
        block = instance_block(cards, mapping, learnt.naming_nodes, memory.last_seconds)
        seen = Covered.of(block)
        sums = instance_seconds(seen)
        for name, hour, row in each_hour(seen, sums):
            facts = self.table.at((name,), hour)
            for field_name, seconds in zip(sums, row, strict=True):
                facts.add(field_name, seconds)
        self._take_dram(seen)
        for told in last_told(seen):
            facts = self.table.at((told.name,), told.hour)
            if told.memory_used_peak_bytes is not None:
                facts.see_peak("memory_used_peak_bytes", told.memory_used_peak_bytes)
            if told.memory_total_bytes is not None:
                facts.put("memory_total_bytes", told.memory_total_bytes)
        for count in mean_counts(seen, sm_active(block), memory.sm_means):
            facts = self.table.at((count.name,), count.hour)
            count.add_to(facts.bins.setdefault(SM_BINS, []))
            facts.put(SM_INTERVAL, count.interval_seconds)
        self._hold(cards, seen)
        memory.remember(block)

    def _hold(self, cards: Sequence[CardSightings], seen: Covered) -> None:
        """Add the seconds in which each workload held its instance."""
        parts, start = seen.parts, 0
        for card in cards:
            for instance, slice_uuid in card.slices.items():
                there = card.told_of(instance)
                end = start + int(np.count_nonzero(there))
                own = slice(*np.searchsorted(parts.row, (start, end)))
                for holder in card.holders:
                    if holder.instance != instance:
                        continue
                    held = parts.seconds[own] * holder.at[there][parts.row[own] - start]
                    seconds = np.bincount(parts.hour[own] - seen.first_hour, held)
                    for place in np.flatnonzero(seconds).tolist():
                        entity = (card.uuid, slice_uuid, "pod", *holder.pod)
                        facts = self.workloads.at(entity, place + seen.first_hour)
                        facts.add("allocated_seconds", float(seconds[place]))
                start = end

    def _take_dram(self, seen: Covered) -> None:
        dram = seen.block.values[Field.DRAM_ACTIVE]
        if np.all(np.isnan(dram)):
            return
        sums = {DRAM: seen.total(dram), "": seen.total(1.0 * ~np.isnan(dram))}
        for name, hour, (seconds, observed) in each_hour(seen, sums):
            if observed:
                self.table.at((name,), hour).add(DRAM, seconds)

    def forget_cards(self, uuids: Iterable[str]) -> None:
        """Drop the instances of cards that have left."""
        for uuid in uuids:
            for told in self.layout.of_card(uuid).values():
                self.memory.forget(told.slice_uuid)
        self.layout.forget_cards(uuids)

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        for table in (self.table, self.workloads):
            table.forget_before(hour)
            table.changed.clear()  # a slice's rows are written with its card's
        self.layout.forget_before(hour)

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self.memory.clear()
        self.layout.start_over(now_seconds)
        later = int(now_seconds // SECONDS_PER_HOUR) + 1
        self.table.forget_from(later)
        self.workloads.forget_from(later)

    def state(self, from_hour: int) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold."""
        return {
            "layout": self.layout.state(),
            "table": self.table.state(from_hour),
            "workloads": self.workloads.state(from_hour),
            "memory": self.memory.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.layout.restore(state["layout"])
        self.table.restore(state["table"])
        self.workloads.restore(state["workloads"])
        self.memory.restore(state["memory"])
