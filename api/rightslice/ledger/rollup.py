"""Sums of whole days, and how a window reads them: days where they are summed, else hours.

One piece of SQL sums hours, whether into a stored day or for an answer; so both tell the same.
"""

from rightslice.profile.profile import Signal

HISTOGRAMS = ("memory", "busy", "sm_active")
SUMMED = (
    "owned_seconds",
    "unknown_seconds",
    "unallocated_seconds",
    "busy_seconds",
    "idle_seconds",
    "unmeasured_seconds",
    "observed_seconds",
    "allocation_observed_seconds",
    "allocated_seconds",
    "busy_observed_seconds",
    "kernel_seconds",
    "unrequested_busy_seconds",
    "sm_observed_seconds",
    "sm_active_seconds",
    "dram_active_seconds",
    "throttled_seconds",
    "energy_joules",
    "nvlink_bytes",
    "pcie_bytes",
    "xid_count",
    "ecc_uncorrected_count",
)
# Of a window [$1, $2): its whole days that are summed already, and its hours outside of those.
SUMMED_DAYS = "day >= $1 AND day + INTERVAL 1 DAY <= $2 AND day IN (SELECT day FROM rolled_day)"
OTHER_HOURS = f"""
    hour >= $1 AND hour < $2 AND date_trunc('day', hour) NOT IN (
        SELECT day FROM rolled_day WHERE {SUMMED_DAYS}
    )
"""
ONE_DAY = "hour >= $1 AND hour < $1 + INTERVAL 1 DAY"

# Columns of a day in their order, without card, day and histograms.
DAY_COLUMNS = (
    "first_hour",
    "seen_until",
    "hour_count",
    "sources",
    *SUMMED,
    "memory_total_bytes",
    "memory_used_peak_bytes",
    "held_peaks_bytes",
    "engine_hour_count",
    "gauge_hour_count",
    "interval_seconds",
    "shared_hour_count",
    "quality",
)


def _decimals(name: str) -> str:
    """Keep the stored type of a sum of seconds."""
    kind = "DECIMAL(18, 3)" if name.endswith("_seconds") else "BIGINT"
    return f"sum({name})::{kind} AS {name}"


def days_of_hours(where: str) -> str:
    """Write the sums of the hours of each card and day, of those hours that `where` selects."""
    sums = ", ".join(_decimals(name) for name in SUMMED)
    return f"""
        SELECT card_id, day,
            min(hour) AS first_hour, max(seen_until) AS seen_until, count(*) AS hour_count,
            list_sort(list(DISTINCT source)) AS sources, {sums},
            last(memory_total_bytes ORDER BY hour) FILTER (memory_total_bytes IS NOT NULL)
                AS memory_total_bytes,
            max(memory_used_peak_bytes) AS memory_used_peak_bytes,
            coalesce(list(memory_used_peak_bytes ORDER BY hour) FILTER (
                allocated_seconds > 0 AND memory_used_peak_bytes IS NOT NULL
            ), []) AS held_peaks_bytes,
            count(*) FILTER (busy_signal = '{Signal.GR_ENGINE_ACTIVE}') AS engine_hour_count,
            count(*) FILTER (busy_signal NOT IN ('', '{Signal.GR_ENGINE_ACTIVE}'))
                AS gauge_hour_count,
            max(greatest(busy_interval_seconds, sm_active_interval_seconds)) AS interval_seconds,
            coalesce(any_value(shared.shared_hour_count), 0) AS shared_hour_count,
            list_sort(list_distinct(flatten(list(quality)))) AS quality
        FROM (
            SELECT *, date_trunc('day', hour) AS day FROM card_hour WHERE {where}
        ) LEFT JOIN (
            SELECT card_id, date_trunc('day', hour) AS day, count(*) AS shared_hour_count FROM (
                SELECT card_id, hour FROM workload_hour JOIN workload USING (workload_id)
                WHERE {where}
                GROUP BY ALL HAVING count(DISTINCT (namespace, pod)) > 1
            ) GROUP BY ALL
        ) AS shared USING (card_id, day)
        GROUP BY ALL
    """


def levels_of_hours(histogram: str, where: str) -> str:
    """Write the milliseconds of each card, day and level of a histogram."""
    return f"""
        SELECT card_id, day, level, sum(amount)::UINTEGER AS amount FROM (
            SELECT card_id, date_trunc('day', hour) AS day,
                unnest({histogram}_levels) AS level,
                unnest({histogram}_level_milliseconds) AS amount
            FROM card_hour WHERE {where}
        ) GROUP BY ALL
    """


def workload_days_of_hours(where: str) -> str:
    """Write the sums of the hours of each workload, card and day."""
    return f"""
        WITH spread AS (
            SELECT kind, namespace, pod, hour, count(DISTINCT card_id) AS cards
            FROM workload_hour JOIN workload USING (workload_id)
            WHERE {where}
            GROUP BY ALL
        )
        SELECT card_id, workload_id, date_trunc('day', hour) AS day,
            count(DISTINCT hour) AS hour_count, max(hour) AS last_hour, max(cards) AS most_cards,
            sum(allocated_seconds)::DECIMAL(18, 3) AS allocated_seconds,
            sum(busy_seconds)::DECIMAL(18, 3) AS busy_seconds,
            sum(wait_seconds)::DECIMAL(18, 3) AS wait_seconds,
            max(memory_used_peak_bytes) AS memory_used_peak_bytes
        FROM workload_hour JOIN workload USING (workload_id)
        JOIN spread USING (kind, namespace, pod, hour)
        WHERE {where}
        GROUP BY ALL
    """


def roll_up_statements() -> tuple[str, ...]:
    """Write the statements that sum the day that begins at $1, which has no sums yet."""
    lists = ", ".join(
        f"{name}.levels AS {name}_levels, {name}.amounts AS {name}_level_milliseconds"
        for name in HISTOGRAMS
    )
    joins = " ".join(
        f"""
        LEFT JOIN (
            SELECT card_id, list(level ORDER BY level) AS levels,
                list(amount ORDER BY level) AS amounts
            FROM ({levels_of_hours(name, ONE_DAY)}) GROUP BY card_id
        ) AS {name} USING (card_id)
        """
        for name in HISTOGRAMS
    )
    return (
        f"""
        INSERT INTO card_day BY NAME
        SELECT days.*, {lists} FROM ({days_of_hours(ONE_DAY)}) AS days {joins}
        ORDER BY card_id
        """,
        f"INSERT INTO workload_day BY NAME ({workload_days_of_hours(ONE_DAY)})",
        "INSERT INTO rolled_day VALUES ($1, true)",
    )


# Days that have hours, are over at $1, and are not summed.
DAYS_TO_ROLL = """
    SELECT DISTINCT date_trunc('day', hour) AS day FROM card_hour
    WHERE date_trunc('day', hour) + INTERVAL 1 DAY <= $1
      AND date_trunc('day', hour) NOT IN (SELECT day FROM rolled_day)
    ORDER BY day
"""


def window_days() -> str:
    """Write the days of cards in [$1, $2), the stored ones and those summed now."""
    names = ", ".join(("card_id", *DAY_COLUMNS))
    return f"""
        SELECT {names} FROM card_day WHERE {SUMMED_DAYS}
        UNION ALL BY NAME
        SELECT {names} FROM ({days_of_hours(OTHER_HOURS)})
    """


def window_levels(histogram: str) -> str:
    """Write the milliseconds of each card and level of a histogram in [$1, $2)."""
    return f"""
        SELECT card_id, level, sum(amount)::BIGINT AS amount FROM (
            SELECT card_id, level, amount FROM ({levels_of_hours(histogram, OTHER_HOURS)})
            UNION ALL
            SELECT card_id, unnest({histogram}_levels), unnest({histogram}_level_milliseconds)
            FROM card_day WHERE {SUMMED_DAYS}
        ) GROUP BY ALL ORDER BY ALL
    """


def window_workload_days() -> str:
    """Write the days of workloads in [$1, $2), the stored ones and those summed now."""
    names = "card_id, workload_id, hour_count, last_hour, most_cards"
    return f"""
        SELECT {names} FROM workload_day WHERE {SUMMED_DAYS}
        UNION ALL
        SELECT {names} FROM ({workload_days_of_hours(OTHER_HOURS)})
    """
