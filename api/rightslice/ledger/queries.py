"""The ledger's SQL, each statement in one place, and the rows they give."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from rightslice.contract.histogram import BIN_COUNT
from rightslice.profile.usage import CardUsage, Holder

# Column and SQL type, in the order in which staged values come.
CARD_HOUR_COLUMNS: tuple[tuple[str, str], ...] = (
    ("uuid", "VARCHAR"),
    ("hour", "TIMESTAMP"),
    ("source", "VARCHAR"),
    ("precedence", "INTEGER"),
    ("owned_seconds", "DECIMAL(10, 3)"),
    ("unknown_seconds", "DECIMAL(10, 3)"),
    ("unallocated_seconds", "DECIMAL(10, 3)"),
    ("busy_seconds", "DECIMAL(10, 3)"),
    ("idle_seconds", "DECIMAL(10, 3)"),
    ("unmeasured_seconds", "DECIMAL(10, 3)"),
    ("observed_seconds", "DECIMAL(10, 3)"),
    ("allocation_observed_seconds", "DECIMAL(10, 3)"),
    ("allocated_seconds", "DECIMAL(10, 3)"),
    ("busy_observed_seconds", "DECIMAL(10, 3)"),
    ("kernel_seconds", "DECIMAL(10, 3)"),
    ("unrequested_busy_seconds", "DECIMAL(10, 3)"),
    ("memory_total_bytes", "BIGINT"),
    ("memory_used_peak_bytes", "BIGINT"),
    ("memory_bins", "DOUBLE[]"),
    ("busy_bins", "DOUBLE[]"),
    ("sm_active_bins", "DOUBLE[]"),
    ("busy_signal", "VARCHAR"),
    ("memory_interval_seconds", "DOUBLE"),
    ("busy_interval_seconds", "DOUBLE"),
    ("sm_active_interval_seconds", "DOUBLE"),
    ("quality", "VARCHAR[]"),
    ("seen_until", "TIMESTAMP"),
)
_STORED = ", ".join(name for name, _ in CARD_HOUR_COLUMNS if name not in ("uuid", "precedence"))


def _unnest(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(
        f"unnest(${number}::{kind}[]) AS {name}"
        for number, (name, kind) in enumerate(columns, start=1)
    )


ADD_CARDS = """
    INSERT INTO card (uuid)
    SELECT told.uuid FROM (SELECT unnest($1::VARCHAR[]) AS uuid) AS told
    WHERE told.uuid NOT IN (SELECT uuid FROM card)
"""
# What was told of the same moment before is replaced.
_ATTRIBUTE_COLUMNS = (
    ("uuid", "VARCHAR"),
    ("since", "TIMESTAMP"),
    ("node", "VARCHAR"),
    ("name", "VARCHAR"),
)
STAGE_CARD_ATTRIBUTES = (
    f"CREATE TEMP TABLE staged_attribute AS SELECT {_unnest(_ATTRIBUTE_COLUMNS)}, "
    "generate_subscripts($1, 1) AS told"
)
# What was told of the same moment before is replaced.
DELETE_REPLACED_CARD_ATTRIBUTES = """
    DELETE FROM card_attribute USING staged_attribute AS staged, card
    WHERE card.uuid = staged.uuid AND card_attribute.card_id = card.card_id
      AND card_attribute.since = staged.since
"""
# A new dated row only when something changed; of two tellers at one moment the last one counts.
INSERT_STAGED_CARD_ATTRIBUTES = """
    WITH latest_told AS (
        SELECT card_id, since, node, name FROM staged_attribute JOIN card USING (uuid)
        QUALIFY row_number() OVER (PARTITION BY card_id, since ORDER BY told DESC) = 1
    )
    INSERT INTO card_attribute
    SELECT card_id, since, node, name FROM latest_told
    WHERE NOT EXISTS (
        SELECT 1 FROM (
            SELECT old.card_id, max(old.since) AS since FROM card_attribute AS old
            JOIN latest_told AS new ON new.card_id = old.card_id AND old.since <= new.since
            GROUP BY old.card_id
        ) AS last JOIN card_attribute AS known USING (card_id, since)
        WHERE known.card_id = latest_told.card_id
          AND known.node = latest_told.node AND known.name = latest_told.name
    )
"""
STAGE_CARD_HOURS = f"CREATE TEMP TABLE staged_card_hour AS SELECT {_unnest(CARD_HOUR_COLUMNS)}"


def _precedence(source: str) -> str:
    return f"CASE {source} WHEN 'rightslice' THEN 2 WHEN 'dcgm' THEN 1 ELSE 0 END"


DELETE_REPLACED_CARD_HOURS = f"""
    DELETE FROM card_hour USING staged_card_hour AS staged, card
    WHERE card.uuid = staged.uuid AND card_hour.card_id = card.card_id
      AND card_hour.hour = staged.hour
      AND (
        -- What nothing was seen of yields to anybody, and replaces nothing that was seen.
        (card_hour.observed_seconds = 0 AND staged.observed_seconds > 0)
        OR ({_precedence("card_hour.source")} <= staged.precedence
            AND (staged.observed_seconds > 0 OR card_hour.observed_seconds = 0))
      )
"""
INSERT_STAGED_CARD_HOURS = f"""
    INSERT INTO card_hour (card_id, {_STORED})
    SELECT card.card_id, {_STORED} FROM staged_card_hour JOIN card USING (uuid)
    WHERE NOT EXISTS (
        SELECT 1 FROM card_hour AS kept
        WHERE kept.card_id = card.card_id AND kept.hour = staged_card_hour.hour
    )
    QUALIFY row_number() OVER (PARTITION BY card_id, hour ORDER BY precedence DESC) = 1
"""

_WORKLOAD_COLUMNS = (
    ("kind", "VARCHAR"),
    ("namespace", "VARCHAR"),
    ("pod", "VARCHAR"),
    ("container", "VARCHAR"),
    ("uuid", "VARCHAR"),
    ("hour", "TIMESTAMP"),
    ("source", "VARCHAR"),
    ("allocated_seconds", "DECIMAL(10, 3)"),
)
STAGE_WORKLOAD_HOURS = (
    f"CREATE TEMP TABLE staged_workload_hour AS SELECT {_unnest(_WORKLOAD_COLUMNS)}"
)
ADD_WORKLOADS = """
    INSERT INTO workload (kind, namespace, pod, container)
    SELECT DISTINCT kind, namespace, pod, container FROM staged_workload_hour AS staged
    WHERE NOT EXISTS (
        SELECT 1 FROM workload AS known
        WHERE known.kind = staged.kind AND known.namespace = staged.namespace
          AND known.pod = staged.pod AND known.container = staged.container
    )
"""
# A card's hour is told anew as a whole: a workload that is no longer in it is gone from it.
_DELETE_WORKLOAD_HOURS = """
    DELETE FROM workload_hour USING {staged} AS staged, card
    WHERE card.uuid = staged.uuid AND workload_hour.card_id = card.card_id
      AND workload_hour.hour = staged.hour
"""
DELETE_WORKLOADS_OF_STAGED_HOURS = (
    _DELETE_WORKLOAD_HOURS.format(staged="staged_card_hour")
    + " AND workload_hour.source = staged.source"
)
DELETE_REPLACED_WORKLOAD_HOURS = (
    _DELETE_WORKLOAD_HOURS.format(staged="staged_workload_hour")
    + f" AND {_precedence('workload_hour.source')} <= {_precedence('staged.source')}"
)
INSERT_STAGED_WORKLOAD_HOURS = """
    INSERT INTO workload_hour
    SELECT workload_id, card_id, hour, source, allocated_seconds
    FROM staged_workload_hour
    JOIN card USING (uuid) JOIN workload USING (kind, namespace, pod, container)
    WHERE NOT EXISTS (
        SELECT 1 FROM workload_hour AS kept
        WHERE kept.card_id = card.card_id AND kept.hour = staged_workload_hour.hour
    )
"""

SPAN = "SELECT min(hour), coalesce(max(seen_until), max(hour)) FROM card_hour"
HOLDERS = """
    WITH spread AS (
        SELECT kind, namespace, pod, hour, count(DISTINCT card_id) AS cards
        FROM workload_hour JOIN workload USING (workload_id)
        WHERE hour >= $1 AND hour < $2
        GROUP BY ALL
    )
    SELECT card_id, kind, namespace, pod, container,
           count(DISTINCT hour), max(hour), max(cards)
    FROM workload_hour JOIN workload USING (workload_id)
    JOIN spread USING (kind, namespace, pod, hour)
    GROUP BY ALL ORDER BY max(hour) DESC, namespace, pod, container
"""
SHARED_HOURS = """
    SELECT card_id, count(*) FROM (
        SELECT card_id, hour FROM workload_hour JOIN workload USING (workload_id)
        WHERE hour >= $1 AND hour < $2
        GROUP BY ALL HAVING count(DISTINCT (namespace, pod)) > 1
    ) GROUP BY card_id
"""


def _bin_sums(column: str, interval: str) -> str:
    """Sum a histogram bin by bin, in seconds: counts of different intervals do not add."""
    sums = ", ".join(
        f"coalesce(sum({column}[{number}] * {interval}), 0)" for number in range(1, BIN_COUNT + 1)
    )
    return f"CASE WHEN count({column}) = 0 THEN [] ELSE [{sums}] END"


def card_usage_sql() -> str:
    """Build the sum over each card's hours in [$1, $2), one row per card."""
    return f"""
    WITH latest AS (
        SELECT card_id, last(node ORDER BY since) AS node, last(name ORDER BY since) AS name
        FROM card_attribute WHERE since < $2 GROUP BY card_id
    )
    SELECT card.card_id, card.uuid, coalesce(any_value(latest.node), ''),
        coalesce(any_value(latest.name), ''), min(hour),
        max(seen_until), count(*),
        string_agg(DISTINCT source, '+' ORDER BY source),
        sum(owned_seconds), sum(observed_seconds), sum(unknown_seconds),
        sum(unallocated_seconds), sum(busy_seconds), sum(idle_seconds), sum(unmeasured_seconds),
        sum(unrequested_busy_seconds), sum(busy_observed_seconds), sum(kernel_seconds),
        sum(busy_seconds + idle_seconds + unmeasured_seconds),
        last(memory_total_bytes ORDER BY hour) FILTER (memory_total_bytes IS NOT NULL),
        max(memory_used_peak_bytes),
        quantile_disc(memory_used_peak_bytes, 0.1) FILTER (allocated_seconds > 0),
        {_bin_sums("memory_bins", "memory_interval_seconds")},
        {_bin_sums("busy_bins", "busy_interval_seconds")},
        {_bin_sums("sm_active_bins", "sm_active_interval_seconds")},
        coalesce(mode(busy_signal) FILTER (busy_signal <> ''), ''),
        max(greatest(busy_interval_seconds, sm_active_interval_seconds)),
        list_sort(list_distinct(flatten(list(quality))))
    FROM card_hour JOIN card USING (card_id) LEFT JOIN latest USING (card_id)
    WHERE hour >= $1 AND hour < $2
    GROUP BY card.card_id, card.uuid
    ORDER BY 3, 2
    """


def holders_by_card(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[Holder, ...]]:
    """Group the rows of HOLDERS by card, the latest holder first."""
    holders: dict[int, list[Holder]] = defaultdict(list)
    for card_id, kind, namespace, pod, container, hours, last_hour, most_cards in rows:
        holders[card_id].append(
            Holder(
                kind, namespace, pod, container, hours, last_hour.replace(tzinfo=UTC), most_cards
            )
        )
    return {card_id: tuple(found) for card_id, found in holders.items()}


def card_usage(
    row: tuple[Any, ...],
    holders: Mapping[int, tuple[Holder, ...]],
    shared_hours: Mapping[int, int],
) -> CardUsage:
    """Read one row of `card_usage_sql`."""
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
        memory_bins,
        busy_bins,
        sm_active_bins,
        busy_signal,
        interval_seconds,
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
        memory_seconds=tuple(memory_bins),
        busy_bin_seconds=tuple(busy_bins),
        sm_active_bin_seconds=tuple(sm_active_bins),
        busy_signal=busy_signal,
        compute_interval_seconds=interval_seconds,
        quality=tuple(quality or ()),
        holders=holders.get(card_id, ()),
        shared_hour_count=shared_hours.get(card_id, 0),
    )
