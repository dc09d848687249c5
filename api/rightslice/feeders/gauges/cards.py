"""Writes what a batch of sightings tells of whole cards into the open hours."""

from collections.abc import Sequence

import numpy as np

from rightslice.feeders.gauges.block import card_block
from rightslice.feeders.gauges.hour_sums import Covered
from rightslice.feeders.gauges.hours import (
    Counts,
    GaugeMemory,
    card_seconds,
    each_hour,
    energy,
    last_told,
    mean_counts,
    memory_counts,
    sm_active,
    whole_busy,
)
from rightslice.feeders.gauges.labels import Learnt
from rightslice.feeders.gauges.mapping import GaugeMapping
from rightslice.feeders.gauges.sightings import CardSightings, Flags
from rightslice.feeders.hours.builder import HourTable, workload_key
from rightslice.profile.flags import FLAG_MIG, FLAG_STUCK_COUNTER


def take_cards(
    table: HourTable,
    cards: Sequence[CardSightings],
    mapping: GaugeMapping,
    learnt: Learnt,
    memory: GaugeMemory,
) -> None:
    """Add the sightings of some cards, each of which is newer than its last."""
    block = card_block(cards, mapping, learnt.naming_nodes)
    seen = Covered.of(block)
    _see(table, cards, seen, mapping, learnt)
    sums = card_seconds(seen)
    for uuid, hour, row in each_hour(seen, sums):
        builder = table.card(uuid, hour)
        for name, seconds in zip(sums, row, strict=True):
            setattr(builder, name, getattr(builder, name) + seconds)
    _count(table, "memory", memory_counts(seen))
    _count(table, "busy", mean_counts(seen, whole_busy(block), memory.busy_means))
    _count(table, "sm_active", mean_counts(seen, sm_active(block), memory.sm_means))
    energy(
        seen,
        memory,
        lambda uuid, hour, joules: table.card(uuid, hour).add("energy_joules", joules),
    )
    _hold(table, cards, seen)
    memory.remember(block)


def _see(
    table: HourTable,
    cards: Sequence[CardSightings],
    seen: Covered,
    mapping: GaugeMapping,
    learnt: Learnt,
) -> None:
    """Note, in the order of time, when cards were there, and what is no sum."""
    nodes = {card.uuid: card.node for card in cards}
    told_hours = last_told(seen)
    moments = [(one.first_seconds, one.name) for one in told_hours]
    moments += [(one.last_seconds, one.name) for one in told_hours]
    for seconds, uuid in sorted(moments):
        table.see(uuid, seconds, nodes[uuid], learnt.models.get(uuid, ""))
    for told in told_hours:
        builder = table.card(told.name, told.hour)
        if told.memory_used_peak_bytes is not None:
            builder.see_peak(told.memory_used_peak_bytes)
        if told.memory_total_bytes is not None:
            builder.memory_total_bytes = told.memory_total_bytes
        if told.busy_metric is not None:
            builder.busy_signal = mapping.metrics[told.busy_metric].signal
        if told.is_cut:
            builder.note(FLAG_MIG)
        if told.is_stuck:
            builder.note(FLAG_STUCK_COUNTER)


def _count(table: HourTable, signal: str, counts: Sequence[Counts]) -> None:
    for one in counts:
        builder = table.card(one.name, one.hour)
        one.add_to(getattr(builder, f"{signal}_bins"))
        setattr(builder, f"{signal}_interval_seconds", one.interval_seconds)


def _hold(table: HourTable, cards: Sequence[CardSightings], seen: Covered) -> None:
    """Add the seconds in which each workload held its card, once however many labels say so."""
    parts, start = seen.parts, 0
    for card in cards:
        end = start + len(card.stamps)
        held: dict[str, Flags] = {}
        for holder in card.holders:
            if holder.instance in card.slices:
                continue  # holds a part of the card
            key = workload_key("pod", *holder.pod)
            held[key] = held[key] | holder.at if key in held else holder.at
        if held:
            own = slice(*np.searchsorted(parts.row, (start, end)))
            row, hour = parts.row[own] - start, parts.hour[own] - seen.first_hour
            for key, at in held.items():
                seconds = np.bincount(hour, parts.seconds[own] * at[row], seen.hour_count)
                for place in np.flatnonzero(seconds).tolist():
                    workloads = table.card(card.uuid, place + seen.first_hour).workloads
                    workloads[key] = workloads.get(key, 0.0) + float(seconds[place])
        start = end
