"""Compares the sums of days with the hours that they were made from, day by day."""

from collections.abc import Callable, Iterator
from typing import Any

from rightslice.ledger.rollup import (
    DAY_COLUMNS,
    HISTOGRAMS,
    ONE_DAY,
    days_of_hours,
    levels_of_hours,
    workload_days_of_hours,
)

Run = Callable[..., Any]

DAYS = "SELECT day FROM rolled_day WHERE has_hours ORDER BY day"
_OF_DAY = "day = $1"


def _differing(stored: str, derived: str, card: str = "card_id") -> str:
    """Write how many cards differ between two selects of the same columns."""
    return (
        f"SELECT count(DISTINCT {card}) FROM ("
        f"(({stored}) EXCEPT ALL ({derived})) UNION ALL (({derived}) EXCEPT ALL ({stored})))"
    )


def _card_days() -> str:
    names = ", ".join(("card_id", *DAY_COLUMNS))
    return _differing(
        f"SELECT {names} FROM card_day WHERE {_OF_DAY}",
        f"SELECT {names} FROM ({days_of_hours(ONE_DAY)})",
    )


def _levels(histogram: str) -> str:
    return _differing(
        f"SELECT card_id, unnest({histogram}_levels) AS level, "
        f"unnest({histogram}_level_milliseconds) AS amount FROM card_day WHERE {_OF_DAY}",
        f"SELECT card_id, level, amount FROM ({levels_of_hours(histogram, ONE_DAY)})",
    )


def _workload_days() -> str:
    names = (
        "card_id, workload_id, hour_count, last_hour, most_cards, allocated_seconds, busy_seconds, "
        "wait_seconds, memory_used_peak_bytes"
    )
    return _differing(
        f"SELECT {names} FROM workload_day WHERE {_OF_DAY}",
        f"SELECT {names} FROM ({workload_days_of_hours(ONE_DAY)})",
    )


def wrong_sums(run: Run) -> Iterator[str]:
    """Say for each day that is not the sum of its hours how many cards are concerned."""
    statements = {
        "card_day": _card_days(),
        **{f"card_day's {name} histogram": _levels(name) for name in HISTOGRAMS},
        "workload_day": _workload_days(),
    }
    for (day,) in run(DAYS).fetchall():
        for what, statement in statements.items():
            (count,) = run(statement, [day]).fetchone()
            if count:
                yield f"{day:%Y-%m-%d}, {count} cards in {what}"
