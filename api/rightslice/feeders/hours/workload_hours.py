"""The ledger's rows of workloads and their failures, from what was told of them."""

from collections.abc import Iterable
from dataclasses import replace

from rightslice.feeders.hours.facts import Entity, Facts, FactTable
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_start
from rightslice.ledger.rows import SOURCE_RIGHTSLICE, CardHour, OomHour, WorkloadHour

# How a wait was found, the surest first: of a lone context it is certainly none.
WAIT_SOURCES = ("exclusive", "vgpu_log", "estimate")


def workload_entity(named: Entity, slice_uuid: str) -> Entity:
    """Name a workload's hour by its card, slice and own names, from a series' naming labels."""
    uuid, _, *workload = named
    return (uuid, slice_uuid, *workload)


def workload_hours(table: FactTable, cards: Iterable[CardHour]) -> list[WorkloadHour]:
    """Give the workloads of some cards' hours."""
    by_hour: dict[int, dict[str, list[Entity]]] = {}
    rows: list[WorkloadHour] = []
    for card in cards if table.hours else ():
        hour = int(card.hour.timestamp()) // SECONDS_PER_HOUR
        if hour not in by_hour:
            by_hour[hour] = _by_card(table, hour)
        told = [
            _workload_hour(entity, hour, card.source, table.hours[hour][entity])
            for entity in by_hour[hour].get(card.uuid, ())
        ]
        rows += _within_the_card(told, card)
    return rows


def _by_card(table: FactTable, hour: int) -> dict[str, list[Entity]]:
    found: dict[str, list[Entity]] = {}
    for entity in sorted(table.hours.get(hour, ())):
        found.setdefault(entity[0], []).append(entity)
    return found


def _within_the_card(rows: list[WorkloadHour], card: CardHour) -> list[WorkloadHour]:
    """Make the busy seconds on a whole card fit into the card's own.

    They lag behind it by some seconds, which at an hour's edge are seconds of the hour before.
    """
    shared = [row for row in rows if not row.slice_uuid]
    busy_seconds = sum(row.busy_seconds for row in shared)
    if not card.busy_observed_seconds or busy_seconds <= card.busy_seconds:
        return rows
    ratio = card.busy_seconds / busy_seconds
    return [
        row if row.slice_uuid else replace(row, busy_seconds=row.busy_seconds * ratio)
        for row in rows
    ]


def _workload_hour(entity: Entity, hour: int, source: str, facts: Facts) -> WorkloadHour:
    uuid, slice_uuid, kind, namespace, pod, container = entity
    wait_source, wait_seconds = _wait(facts)
    limit_source, limit_bytes = _limit(facts)
    return WorkloadHour(
        kind=kind,
        namespace=namespace,
        pod=pod,
        container=container,
        uuid=uuid,
        hour=hour_start(hour),
        source=source,
        allocated_seconds=_in_hour(facts.seconds("allocated_seconds")),
        slice_uuid=slice_uuid,
        observed_seconds=_in_hour(facts.seconds("observed_seconds")),
        busy_observed_seconds=_in_hour(facts.seconds("busy_observed_seconds")),
        busy_seconds=_in_hour(facts.seconds("busy_seconds")),
        wait_seconds=wait_seconds,
        wait_bound_seconds=facts.values.get("wait_bound_seconds"),
        wait_source=wait_source,
        cpu_seconds=facts.values.get("cpu_seconds"),
        memory_limit_bytes=limit_bytes,
        memory_limit_source=limit_source,
        memory_used_peak_bytes=facts.whole("memory_used_peak_bytes"),
        memory_bins=facts.histogram("memory_bins"),
        busy_bins=facts.histogram("busy_bins"),
        memory_interval_seconds=facts.seconds("memory_interval_seconds"),
        busy_interval_seconds=facts.seconds("busy_interval_seconds"),
        quality=tuple(sorted(facts.quality)),
    )


def _in_hour(seconds: float) -> float:
    """Give seconds that a clock's jitter makes no longer than their hour."""
    return min(seconds, float(SECONDS_PER_HOUR))


def _wait(facts: Facts) -> tuple[str, float | None]:
    """Give the wait and how it was found: by the least sure of the ways that found any."""
    told = facts.parts("wait_seconds")
    if not told:
        return "", None
    known = [source for source in WAIT_SOURCES if source in told]
    found = [source for source in known if told[source] > 0]
    source = found[-1] if found else known[0] if known else max(told)
    return source, sum(told.values())


def _limit(facts: Facts) -> tuple[str, int | None]:
    """Give the smallest of what was promised, and by whom."""
    told = facts.parts("memory_limit_bytes")
    if not told:
        return "", None
    source = min(sorted(told), key=told.__getitem__)
    return source, round(told[source])


def oom_hours(
    table: FactTable, hours: Iterable[int], *, changed_only: bool = False
) -> list[OomHour]:
    """Give how often workloads ran out of memory; no row where none did."""
    rows = []
    for hour, entity, facts in table.told(hours, changed_only=changed_only):
        kind, namespace, pod, container = entity
        rows += [
            OomHour(
                kind,
                namespace,
                pod,
                container,
                hour_start(hour),
                SOURCE_RIGHTSLICE,
                cause,
                round(count),
            )
            for cause, count in sorted(facts.parts("count").items())
            if round(count) > 0
        ]
    return rows
