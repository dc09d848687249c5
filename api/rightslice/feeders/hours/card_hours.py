"""Closes the hours of cards that are cut by MIG: by the units of the instances that are held."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from rightslice.ledger.closure import MILLISECONDS_PER_SECOND, split_hour
from rightslice.ledger.rows import KIND_MIG, CardHour, SliceHour


def close_cut_cards(cards: Iterable[CardHour], slices: Iterable[SliceHour]) -> list[CardHour]:
    """Give the cards' rows, those of cut cards with what their instances add to them.

    An instance with u of U units that is held for a second holds u/U of a second of the card, and
    what nobody holds, occupied or not, is unallocated. What the row of a cut card holds before is
    of times in which the card was whole, or nobody told who holds which instance.
    """
    by_card: dict[tuple[str, datetime], list[SliceHour]] = {}
    for row in slices:
        if row.kind == KIND_MIG:
            by_card.setdefault((row.uuid, row.hour), []).append(row)
    return [
        _closed(card, parts) if (parts := by_card.get((card.uuid, card.hour))) else card
        for card in cards
    ]


def _closed(card: CardHour, parts: list[SliceHour]) -> CardHour:
    whole_measured_seconds = min(card.allocated_seconds, card.busy_observed_seconds)
    whole_busy_seconds = card.busy_seconds - card.unrequested_busy_seconds
    busy_seconds = min(max(whole_busy_seconds, 0.0), whole_measured_seconds)
    idle_seconds = whole_measured_seconds - busy_seconds
    unmeasured_seconds = card.allocated_seconds - whole_measured_seconds
    for part in parts:
        split, share = split_hour(part), part.units / part.card_units / MILLISECONDS_PER_SECOND
        busy_seconds += share * split.busy
        idle_seconds += share * split.idle
        unmeasured_seconds += share * split.unmeasured
    measured_seconds = busy_seconds + idle_seconds
    allocated_seconds = measured_seconds + unmeasured_seconds
    # The closing of an hour takes that part of the held seconds as measured that it was observed.
    ratio = measured_seconds / allocated_seconds if allocated_seconds else 0.0
    return replace(
        card,
        allocated_seconds=allocated_seconds,
        busy_observed_seconds=card.allocation_observed_seconds * ratio,
        busy_seconds=busy_seconds,
        unrequested_busy_seconds=0.0,
    )
