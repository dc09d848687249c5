"""Answers for a whole fleet, from its history: the one path that CLI, API and page share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rightslice.advice.policy import Policy
from rightslice.advice.recommend import Answer, recommend, urgency
from rightslice.catalogue.price_book import PriceBook
from rightslice.history.history import History
from rightslice.profile.profile import usage_profile

# Hours come from Prometheus when they are over, and one may be late: silent for longer than this,
# a ledger tells of the past.
SILENT = timedelta(hours=3)


def silent_since(history: History, now: datetime) -> datetime | None:
    """Give when a history was last told anything, if that is long ago; None while it is filled."""
    span = history.span()
    return span[1] if span is not None and now - span[1] > SILENT else None


@dataclass(frozen=True, slots=True)
class Fleet:
    """A history seen through a price book and a policy. `now` is the clock of the window's end."""

    history: History
    book: PriceBook
    policy: Policy
    window: timedelta
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    channel: str | None = None

    def answers(self) -> list[Answer]:
        """Answer for every card seen in the window, the largest saving first.

        The window ends with the clock, not with the data: what is missing at its end is missing.
        """
        end = self.now()
        usages = self.history.card_usage(end - self.window, end)
        answers = [
            recommend(usage_profile(usage), self.book, self.policy, end, self.channel)
            for usage in usages
        ]
        return sorted(answers, key=urgency)
