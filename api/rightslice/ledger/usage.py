"""Reads the use of cards over a window: sums, histograms and holders, one value per card."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rightslice.ledger.levels import bin_seconds
from rightslice.ledger.rollup import HISTOGRAMS, window_days, window_levels, window_workload_days
from rightslice.profile.profile import Signal
from rightslice.profile.usage import CardUsage, Holder

Read = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Bins = Mapping[int, tuple[float, ...]]

HOLDERS = f"""
    SELECT card_id, kind, namespace, pod, container,
        sum(hour_count)::BIGINT, max(last_hour), max(most_cards)
    FROM ({window_workload_days()}) JOIN workload USING (workload_id)
    GROUP BY ALL ORDER BY max(last_hour) DESC, namespace, pod, container
"""
USAGE = f"""
    WITH latest AS (
        SELECT card_id, last(node ORDER BY since) AS node, last(name ORDER BY since) AS name
        FROM card_attribute WHERE since < $2 GROUP BY card_id
    )
    SELECT card.card_id, card.uuid, coalesce(any_value(latest.node), ''),
        coalesce(any_value(latest.name), ''), min(first_hour),
        max(seen_until), sum(hour_count)::BIGINT,
        array_to_string(list_sort(list_distinct(flatten(list(sources)))), '+'),
        sum(owned_seconds), sum(observed_seconds), sum(unknown_seconds),
        sum(unallocated_seconds), sum(busy_seconds), sum(idle_seconds), sum(unmeasured_seconds),
        sum(unrequested_busy_seconds), sum(busy_observed_seconds), sum(kernel_seconds),
        sum(busy_seconds + idle_seconds + unmeasured_seconds),
        last(memory_total_bytes ORDER BY first_hour) FILTER (memory_total_bytes IS NOT NULL),
        max(memory_used_peak_bytes),
        list_aggregate(flatten(list(held_peaks_bytes)), 'quantile_disc', 0.1),
        sum(engine_hour_count)::BIGINT, sum(gauge_hour_count)::BIGINT,
        max(interval_seconds), sum(shared_hour_count)::BIGINT,
        list_sort(list_distinct(flatten(list(quality))))
    FROM ({window_days()}) JOIN card USING (card_id) LEFT JOIN latest USING (card_id)
    GROUP BY card.card_id, card.uuid
    ORDER BY 3, 2
"""


def read_card_usage(read: Read, start: datetime, end: datetime) -> list[CardUsage]:
    """Sum each card's hours in [start, end), cards ordered by node and UUID; UTC, without zone."""
    window = [start, end]
    holders = _holders_by_card(read(HOLDERS, window))
    bins = [_bins_by_card(read(window_levels(name), window)) for name in HISTOGRAMS]
    return [_card_usage(row, holders, *bins) for row in read(USAGE, window)]


def _holders_by_card(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[Holder, ...]]:
    """Group the rows of HOLDERS by card, the latest holder first."""
    holders: dict[int, list[Holder]] = defaultdict(list)
    for card_id, kind, namespace, pod, container, hours, last_hour, most_cards in rows:
        holders[card_id].append(
            Holder(
                kind, namespace, pod, container, hours, last_hour.replace(tzinfo=UTC), most_cards
            )
        )
    return {card_id: tuple(found) for card_id, found in holders.items()}


def _bins_by_card(rows: Iterable[tuple[int, int, int]]) -> Bins:
    levels: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for card_id, level, amount in rows:
        levels[card_id].append((level, amount))
    return {card_id: bin_seconds(found) for card_id, found in levels.items()}


def _card_usage(
    row: tuple[Any, ...],
    holders: Mapping[int, tuple[Holder, ...]],
    memory_bins: Bins,
    busy_bins: Bins,
    sm_active_bins: Bins,
) -> CardUsage:
    """Read one row of USAGE."""
    card_id, uuid, node, name, first_hour, observed_until, hour_count, source, *rest = row
    (
        owned,
        observed,
        unknown,
        unallocated,
        busy,
        idle,
        unmeasured,
        unrequested,
        busy_observed,
        kernel,
        allocated,
        memory_total_bytes,
        memory_peak_bytes,
        memory_peak_low_bytes,
        engine_hours,
        gauge_hours,
        interval_seconds,
        shared_hour_count,
        quality,
    ) = rest
    return CardUsage(
        uuid=uuid,
        node=node,
        name=name,
        first_hour=first_hour.replace(tzinfo=UTC),
        observed_until=observed_until.replace(tzinfo=UTC) if observed_until else None,
        hour_count=hour_count,
        source=source,
        owned_seconds=owned,
        observed_seconds=observed,
        unknown_seconds=unknown,
        unallocated_seconds=unallocated,
        busy_seconds=busy,
        idle_seconds=idle,
        unmeasured_seconds=unmeasured,
        unrequested_busy_seconds=unrequested,
        busy_observed_seconds=busy_observed,
        kernel_seconds=kernel,
        allocated_seconds=allocated,
        memory_total_bytes=memory_total_bytes,
        memory_used_peak_bytes=memory_peak_bytes,
        memory_peak_low_bytes=memory_peak_low_bytes,
        memory_seconds=memory_bins.get(card_id, ()),
        busy_bin_seconds=busy_bins.get(card_id, ()),
        sm_active_bin_seconds=sm_active_bins.get(card_id, ()),
        busy_signal=_busy_signal(engine_hours, gauge_hours),
        compute_interval_seconds=interval_seconds,
        quality=tuple(quality or ()),
        holders=holders.get(card_id, ()),
        shared_hour_count=shared_hour_count,
    )


def _busy_signal(engine_hours: int, gauge_hours: int) -> str:
    """Name the reading behind most hours' busy histogram; the lesser one on a tie."""
    if not engine_hours and not gauge_hours:
        return ""
    return str(Signal.GR_ENGINE_ACTIVE if engine_hours > gauge_hours else Signal.BUSY)
