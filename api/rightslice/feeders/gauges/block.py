"""Lays the sightings of many cards, or instances of them, end to end: one array for each field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightslice.contract.sampling import HELD_MEMORY_BYTES
from rightslice.feeders.gauges.mapping import MEMORY_FIELDS, Field, GaugeMapping
from rightslice.feeders.gauges.sightings import CardSightings, Flags, Floats, Numbers
from rightslice.profile.profile import NO_COMPUTE_RATIO

NOBODY, SOMEBODY, UNKNOWN = 0, 1, -1
INSTANCE_ACTIVITY = (Field.BUSY, Field.SM_ACTIVE)


@dataclass(slots=True)
class Block:
    """Things and what was told of them, by thing and in the order of time; NaN where nothing was.

    `names` are the things; `owner` gives each sighting's place among them. `held` tells whether
    somebody held it: NOBODY, SOMEBODY or UNKNOWN. `busy_metric` is the place in the mapping of the
    metric that told busy, -1 for none. `is_cut` says that instances were told of. `before` is when
    the thing was told of before: of an instance, where its card was and it was not, NaN.
    """

    names: Sequence[str]
    owner: Numbers
    stamps: Floats
    before: Floats
    intervals: Floats
    values: Mapping[Field, Floats]
    busy_metric: Numbers
    held: Numbers
    is_cut: Flags

    @property
    def memory_total(self) -> Floats:
        """Give the size: as told, else the sum of its parts, which needs the free one."""
        reserved = np.nan_to_num(self.values[Field.MEMORY_RESERVED])
        summed = self.values[Field.MEMORY_USED] + self.values[Field.MEMORY_FREE] + reserved
        return np.where(
            np.isnan(self.values[Field.MEMORY_TOTAL]), summed, self.values[Field.MEMORY_TOTAL]
        )


@dataclass(slots=True)
class _Thing:
    """One card or instance on its way into a block."""

    name: str
    stamps: Floats
    before: Floats
    interval_seconds: float
    values: dict[Field, Floats]
    busy_metric: Numbers
    has_pod: Flags
    names_pods: Flags
    is_cut: Flags


def card_block(
    cards: Sequence[CardSightings], mapping: GaugeMapping, naming_nodes: Mapping[str, float]
) -> Block:
    """Lay out whole cards. The memory of one cut by MIG is its instances' sum.

    While all its instances are known by their share, who holds it is told by their hours.
    """
    block = _block([_card(one, mapping, naming_nodes) for one in cards], (Field.BUSY,))
    start = 0
    for card in cards:
        own = slice(start, start + len(card.stamps))
        if card.slices:
            by_parts = _held_by_parts(card, mapping, naming_nodes)
            block.held[own] = np.where(block.is_cut[own], by_parts, block.held[own])
        start = own.stop
    return block


def instance_block(
    cards: Sequence[CardSightings],
    mapping: GaugeMapping,
    naming_nodes: Mapping[str, float],
    last_seconds: Mapping[str, float],
) -> Block:
    """Lay out the instances whose share is known; `last_seconds` is when each was told of."""
    return _block(
        [
            _instance(one, instance, mapping, naming_nodes, last_seconds)
            for one in cards
            for instance in one.slices
        ],
        INSTANCE_ACTIVITY,
    )


def _held_by_parts(
    card: CardSightings, mapping: GaugeMapping, naming_nodes: Mapping[str, float]
) -> Numbers:
    """Tell whether it is known of every instance who holds it; the card itself nobody holds."""
    held = np.full(len(card.stamps), NOBODY)
    for instance in card.slices:
        part = _block([_instance(card, instance, mapping, naming_nodes, {})], INSTANCE_ACTIVITY)
        held[card.told_of(instance)] |= np.where(part.held == UNKNOWN, UNKNOWN, NOBODY)
    return held


def _card(card: CardSightings, mapping: GaugeMapping, naming_nodes: Mapping[str, float]) -> _Thing:
    values, busy_metric = _resolved(card, "", mapping)
    is_cut = np.zeros(len(card.stamps), dtype=bool)
    instances = card.instances
    for instance in instances:
        is_cut |= card.told_of(instance)
    if instances and mapping.instance.memory_adds_up:
        _add_up(values, [_resolved(card, instance, mapping)[0] for instance in instances])
    has_pod = np.zeros(len(card.stamps), dtype=bool)
    for holder in card.holders:
        has_pod |= holder.at
    return _Thing(
        name=card.uuid,
        stamps=card.stamps,
        before=card.before,
        interval_seconds=card.interval_seconds,
        values=values,
        busy_metric=busy_metric,
        has_pod=has_pod,
        names_pods=card.stamps >= naming_nodes.get(card.node, np.inf),
        is_cut=is_cut,
    )


def _instance(
    card: CardSightings,
    instance: str,
    mapping: GaugeMapping,
    naming_nodes: Mapping[str, float],
    last_seconds: Mapping[str, float],
) -> _Thing:
    values, busy_metric = _resolved(card, instance, mapping)
    there, name = card.told_of(instance), card.slices[instance]
    has_pod = np.zeros(len(card.stamps), dtype=bool)
    for holder in card.holders:
        if holder.instance == instance:
            has_pod |= holder.at
    was_there = np.append(last_seconds.get(name) == card.before_seconds, there[:-1])
    stamps = card.stamps[there]
    return _Thing(
        name=name,
        stamps=stamps,
        before=np.where(was_there, card.before, np.nan)[there],
        interval_seconds=card.interval_seconds,
        values={field: told[there] for field, told in values.items()},
        busy_metric=busy_metric[there],
        has_pod=has_pod[there],
        names_pods=stamps >= naming_nodes.get(card.node, np.inf),
        is_cut=np.zeros(len(stamps), dtype=bool),
    )


def _resolved(
    card: CardSightings, instance: str, mapping: GaugeMapping
) -> tuple[dict[Field, Floats], Numbers]:
    """Take each field from the first of its metrics that tells it; and say which told busy."""
    values: dict[Field, Floats] = {}
    busy_metric = np.full(len(card.stamps), -1, dtype=np.int64)
    for number, metric in enumerate(mapping.metrics):
        column = card.columns.get((instance, number))
        if column is None:
            continue
        known = values.get(metric.field)
        merged = column if known is None else np.where(np.isnan(known), column, known)
        if metric.field is Field.BUSY:
            busy_metric[(busy_metric < 0) & ~np.isnan(column)] = number
        values[metric.field] = merged
    return values, busy_metric


def _add_up(values: dict[Field, Floats], parts: Sequence[dict[Field, Floats]]) -> None:
    for field in MEMORY_FIELDS:
        told = [part[field] for part in parts if field in part]
        if not told:
            continue
        summed = np.where(np.isnan(np.fmax.reduce(told)), np.nan, np.nansum(told, axis=0))
        whole = values.get(field)
        values[field] = summed if whole is None else np.where(np.isnan(whole), summed, whole)


def _block(things: Sequence[_Thing], activity: Sequence[Field]) -> Block:
    """Lay things end to end; any of `activity` above nothing says that a thing is at work."""
    counts = [len(one.stamps) for one in things]
    unknown = np.full(max(counts, default=0), np.nan)

    def laid(field: Field) -> Floats:
        rows = [one.values.get(field, unknown[: len(one.stamps)]) for one in things]
        return np.concatenate([unknown[:0], *rows])

    values = {field: laid(field) for field in Field}
    owner = np.repeat(np.arange(len(things)), counts)
    has_pod = _laid([one.has_pod for one in things], np.bool_)
    names_pods = _laid([one.names_pods for one in things], np.bool_)
    return Block(
        names=[one.name for one in things],
        owner=owner,
        stamps=_laid([one.stamps for one in things], np.float64),
        before=_laid([one.before for one in things], np.float64),
        intervals=np.repeat(np.array([one.interval_seconds for one in things]), counts),
        values=values,
        busy_metric=_laid([one.busy_metric for one in things], np.int64),
        held=_held(
            values[Field.MEMORY_USED],
            np.fmax.reduce([values[field] for field in activity]),
            has_pod,
            names_pods,
        ),
        is_cut=_laid([one.is_cut for one in things], np.bool_),
    )


def _laid(arrays: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *arrays])


def _held(used: Floats, activity: Floats, has_pod: Flags, names_pods: Flags) -> Numbers:
    """Tell whether somebody holds a thing.

    Without a pod, on a node that names pods, it is free only if it also looks free: in use by
    somebody who is not named, its holder is unknown.
    """
    in_use = used > HELD_MEMORY_BYTES  # not where memory is not told
    by_memory = np.where(np.isnan(used), UNKNOWN, in_use)
    by_naming = np.where(in_use | (activity > NO_COMPUTE_RATIO), UNKNOWN, NOBODY)
    return np.where(has_pod, SOMEBODY, np.where(names_pods, by_naming, by_memory))
