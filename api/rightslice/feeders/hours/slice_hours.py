"""The ledger's rows of MIG instances and vGPUs, from what was told of them."""

from collections.abc import Iterable

from rightslice.feeders.hours.facts import Facts, FactTable
from rightslice.feeders.hours.slice_layout import Slice, SliceLayout
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.ledger.rows import CardHour, SliceHour

NOTHING_TOLD = Facts()


def slice_hours(
    layout: SliceLayout,
    table: FactTable,
    cards: Iterable[CardHour],
    until_seconds: float,
) -> list[SliceHour]:
    """Give the slices of some cards' hours, told or not, as far as the hours have come.

    A slice owns no more of an hour than its card. One of which the share of the card is not known
    has no row: its money could not be told.
    """
    by_card: dict[str, list[Slice]] = {}
    for told in layout.known.values():
        if told.units:
            by_card.setdefault(told.uuid, []).append(told)
    rows = []
    for card in cards if by_card else ():
        hour = int(card.hour.timestamp()) // SECONDS_PER_HOUR
        facts = table.hours.get(hour, {})
        for told in by_card.get(card.uuid, ()):
            owned_seconds = layout.owned_seconds(told.slice_uuid, hour, until_seconds)
            owned_seconds = min(owned_seconds, card.owned_seconds)
            if owned_seconds > 0:
                found = facts.get((told.slice_uuid,), NOTHING_TOLD)
                rows.append(_slice_hour(told, card, owned_seconds, found))
    return rows


def _slice_hour(told: Slice, card: CardHour, owned_seconds: float, facts: Facts) -> SliceHour:
    return SliceHour(
        uuid=told.uuid,
        slice_uuid=told.slice_uuid,
        kind=told.kind,
        gpu_instance_id=told.gpu_instance_id,
        profile=told.profile,
        units=told.units,
        card_units=told.card_units,
        hour=card.hour,
        source=card.source,
        owned_seconds=owned_seconds,
        observed_seconds=facts.seconds("observed_seconds"),
        allocation_observed_seconds=facts.seconds("allocation_observed_seconds"),
        allocated_seconds=facts.seconds("allocated_seconds"),
        busy_observed_seconds=facts.seconds("busy_observed_seconds"),
        busy_seconds=facts.seconds("busy_seconds"),
        unrequested_busy_seconds=facts.seconds("unrequested_busy_seconds"),
        dram_active_seconds=facts.values.get("dram_active_seconds"),
        memory_total_bytes=facts.whole("memory_total_bytes"),
        memory_used_peak_bytes=facts.whole("memory_used_peak_bytes"),
        sm_active_bins=facts.histogram("sm_active_bins"),
        sm_active_interval_seconds=facts.seconds("sm_active_interval_seconds"),
        quality=tuple(sorted(facts.quality)),
    )
