"""Spreads what lies between two readings over the hours that it spans."""

from collections.abc import Iterator
from datetime import UTC, datetime

SECONDS_PER_HOUR = 3600


def hour_of(now_seconds: float) -> int:
    """Give the hour, counted from the Unix epoch, that ends at or after a reading's time.

    A reading tells of the time before it: one taken on the hour belongs to the hour that ends.
    """
    return int(-(-now_seconds // SECONDS_PER_HOUR)) - 1


def moment(now_seconds: float) -> datetime:
    """Give a time since the Unix epoch as a moment."""
    return datetime.fromtimestamp(now_seconds, UTC)


def hour_start(hour: int) -> datetime:
    """Give an hour's first moment."""
    return moment(hour * SECONDS_PER_HOUR)


def spread(start_seconds: float, end_seconds: float, amount: float) -> Iterator[tuple[int, float]]:
    """Split an amount by time over the hours in (start, end]; the parts sum to the amount.

    What has no length in time belongs to the hour of its end.
    """
    last_hour = hour_of(end_seconds)
    first_hour = int(start_seconds // SECONDS_PER_HOUR)
    if end_seconds <= start_seconds or first_hour >= last_hour:
        yield last_hour, amount
        return
    rate, given = amount / (end_seconds - start_seconds), 0.0
    for hour in range(first_hour, last_hour):
        part = rate * ((hour + 1) * SECONDS_PER_HOUR - max(start_seconds, hour * SECONDS_PER_HOUR))
        given += part
        yield hour, part
    yield last_hour, amount - given
