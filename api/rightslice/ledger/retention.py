"""Drops hours that are older than wanted. Their days' sums stay, so nothing is lost of money."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rightslice.ledger.columns import naive
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.parquet import HOUR_TABLES

LEAST_RETENTION = timedelta(days=90)

_DAYS = " UNION ".join(
    f"SELECT DISTINCT date_trunc('day', hour) AS day FROM {table} WHERE hour < $1"
    for table in HOUR_TABLES
)
# Days of cards that have no sums yet stay whole.
DAYS_TO_DROP = f"""
    SELECT day FROM ({_DAYS})
    WHERE day IN (SELECT day FROM rolled_day WHERE has_hours)
       OR NOT EXISTS (
            SELECT 1 FROM card_hour
            WHERE hour >= day AND hour < day + INTERVAL 1 DAY AND hour < $1
       )
    ORDER BY day
"""
ONE_DAY = "hour >= $1 AND hour < $1 + INTERVAL 1 DAY"


def first_kept_month(now: datetime, retention: timedelta) -> datetime:
    """Give the start of the oldest month that is kept: months are dropped as a whole."""
    if retention < LEAST_RETENTION:
        raise ValueError(f"want to keep {LEAST_RETENTION.days} days at least, got {retention}")
    oldest = now.astimezone(UTC) - retention
    return oldest.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def drop_hours(ledger: Ledger, before: datetime) -> Iterator[datetime]:
    """Drop the hours before a moment, a day at a time; gives each day that is gone.

    A day of which cards' hours are not summed yet stays. Raises LedgerError.
    """
    for (day,) in ledger.read("find old hours", DAYS_TO_DROP, [naive(before)]):
        with ledger.transaction("drop old hours") as run:
            for table in HOUR_TABLES:
                run(f"DELETE FROM {table} WHERE {ONE_DAY}", [day])
            run("UPDATE rolled_day SET has_hours = false WHERE day = $1", [day])
        yield day.replace(tzinfo=UTC)
