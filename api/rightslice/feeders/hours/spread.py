"""Spreads what lies between two readings over the hours that it spans."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

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


class Shares(NamedTuple):
    """Over which hours a time goes: how much of each but the last, which has the rest."""

    length_seconds: float
    earlier: Sequence[tuple[int, float]]
    last_hour: int

    @classmethod
    def of(cls, start_seconds: float, end_seconds: float) -> "Shares":
        """Cut (start, end] at the hours' ends."""
        last_hour = hour_of(end_seconds)
        first_hour = int(start_seconds // SECONDS_PER_HOUR)
        if end_seconds <= start_seconds or first_hour >= last_hour:
            return cls(0.0, (), last_hour)
        earlier = [
            (hour, (hour + 1) * SECONDS_PER_HOUR - max(start_seconds, hour * SECONDS_PER_HOUR))
            for hour in range(first_hour, last_hour)
        ]
        return cls(end_seconds - start_seconds, earlier, last_hour)

    def parts(self, amount: float) -> Sequence[tuple[int, float]]:
        """Split an amount over the hours; the parts sum to it."""
        length_seconds, earlier, last_hour = self
        if not earlier:
            return ((last_hour, amount),)
        rate, given = amount / length_seconds, 0.0
        parts = []
        for hour, seconds in earlier:
            part = rate * seconds
            given += part
            parts.append((hour, part))
        parts.append((last_hour, amount - given))
        return parts


def spread(start_seconds: float, end_seconds: float, amount: float) -> Sequence[tuple[int, float]]:
    """Split an amount by time over the hours in (start, end]; the parts sum to the amount.

    What has no length in time belongs to the hour of its end.
    """
    return Shares.of(start_seconds, end_seconds).parts(amount)
