"""When the ledger is tidied: days are summed once they are settled, old hours are dropped."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rightslice.ledger.ledger import Ledger
from rightslice.ledger.retention import drop_hours, first_kept_month

# Late hours of a day are in by then: what is told later sums the day anew.
SETTLED = timedelta(hours=7)
ROUND_SECONDS, RETRY_SECONDS = 3600.0, 300.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Days that ended by `sum_before` are summed; hours before `drop_before` go, None: none do."""

    sum_before: datetime
    drop_before: datetime | None


@dataclass(frozen=True, slots=True)
class Tidied:
    """How many days were summed, and of how many the hours were dropped."""

    summed_day_count: int
    dropped_day_count: int


def plan(now: datetime, retention: timedelta | None, last_told: datetime | None) -> Plan:
    """Say what is to be done now; without a retention everything is kept.

    Age is counted from the ledger's own end where the clock is beyond it (`last_told`, None for an
    empty ledger): a clock that steps far ahead must not drop everything.
    """
    drop_before = None
    if retention is not None and last_told is not None:
        drop_before = first_kept_month(min(now, last_told), retention)
    return Plan(now.astimezone(UTC) - SETTLED, drop_before)


def wait_seconds(*, failed: bool) -> float:
    """Give the time until the next round; sooner after one that failed."""
    return RETRY_SECONDS if failed else ROUND_SECONDS


def tidy(
    ledger: Ledger,
    now: datetime,
    retention: timedelta | None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Tidied:
    """Do what is due, in small transactions; ends early when told to. Raises LedgerError."""
    span = ledger.span()
    planned = plan(now, retention, span[1] if span else None)
    summed = ledger.roll_up(planned.sum_before)
    dropped = 0
    if planned.drop_before is not None:
        for day in drop_hours(ledger, planned.drop_before):
            dropped += 1
            log.info("dropped the hours of %s, which are summed", f"{day:%Y-%m-%d}")
            if is_stopped():
                break
    return Tidied(summed, dropped)
