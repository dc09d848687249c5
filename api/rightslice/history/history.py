"""The interface between those who keep the hours of cards and those who give advice."""

from datetime import datetime
from typing import Protocol

from rightslice.profile.usage import CardUsage


class History(Protocol):
    """The hours of cards: kept in a ledger, or asked of a Prometheus each time.

    A window has the hours that begin in it, each as a whole, of the one that is not over what has
    passed of it: so its bounds are best whole hours.
    """

    def span(self) -> tuple[datetime, datetime] | None:
        """Give the first hour, and when a card was last read; None where nothing is told."""
        ...

    def card_usage(self, start: datetime, end: datetime) -> list[CardUsage]:
        """Sum each card's hours that begin in [start, end), cards ordered by node and UUID."""
        ...
