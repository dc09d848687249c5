"""Joins what several sources tell of the same hours: ours leads, the gauges of others fill in.

Never a sum: each value is one source's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from rightslice.ledger.batch import Batch
from rightslice.ledger.rows import CardHour, SliceHour, WorkloadHour

Part = TypeVar("Part", SliceHour, WorkloadHour)
# The rows of one exporter's gauges.
Told = tuple[Iterable[CardHour], Iterable[SliceHour], Iterable[WorkloadHour]]


def flag_of(source: str) -> str:
    """Name the mark of an hour whose SM activity is from another source than the rest."""
    return f"sm_active_from_{source}"


def merge(ours: Iterable[CardHour], companion: Iterable[CardHour]) -> list[CardHour]:
    """Give one row per card and hour; SM activity comes from the companion where we have none."""
    others = {(row.uuid, row.hour): row for row in companion}
    merged = []
    for row in ours:
        other = others.pop((row.uuid, row.hour), None)
        if other is None:
            merged.append(row)
        elif not row.observed_seconds:
            merged.append(other)  # we saw nothing of this hour
        elif row.sm_active_bins is None and other.sm_active_bins is not None:
            merged.append(_with_activity_of(row, other))
        else:
            merged.append(row)
    return [*merged, *others.values()]


def _with_activity_of(row: CardHour, other: CardHour) -> CardHour:
    return replace(
        row,
        sm_active_bins=other.sm_active_bins,
        sm_active_interval_seconds=other.sm_active_interval_seconds,
        sm_observed_seconds=other.sm_observed_seconds,
        sm_active_seconds=other.sm_active_seconds,
        dram_active_seconds=other.dram_active_seconds,
        quality=tuple(sorted({*row.quality, *other.quality, flag_of(other.source)})),
    )


def merge_parts(ours: Sequence[Part], companion: Iterable[Part]) -> list[Part]:
    """Give the slices, or the workloads, of cards: of one card's hour those of one source."""
    merged = list(ours)
    told = {(row.uuid, row.hour) for row in ours}
    merged.extend(row for row in companion if (row.uuid, row.hour) not in told)
    return merged


def merge_all(ours: Batch, others: Iterable[Told]) -> Batch:
    """Fill in what others tell of the same hours, the most trusted of them first."""
    cards, slices, workloads = list(ours.cards), list(ours.slices), list(ours.workloads)
    for told_cards, told_slices, told_workloads in others:
        cards = merge(cards, told_cards)
        slices = merge_parts(slices, told_slices)
        workloads = merge_parts(workloads, told_workloads)
    return replace(ours, cards=cards, slices=slices, workloads=workloads)
