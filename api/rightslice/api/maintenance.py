"""Keeps a ledger tidy while it is served: sums its days and drops its old hours, hourly."""

import argparse
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rightslice.api.command import span_of
from rightslice.ledger.ledger import Ledger, LedgerError
from rightslice.ledger.maintenance import tidy, wait_seconds
from rightslice.ledger.retention import LEAST_RETENTION

log = logging.getLogger(__name__)


def retention(text: str) -> timedelta:
    """Read how long hours are kept: 90 days at least."""
    span = span_of(text)
    if span is None:
        raise argparse.ArgumentTypeError(f"want a number with its unit, like 800d: {text!r}")
    if span < LEAST_RETENTION:
        raise argparse.ArgumentTypeError(
            f"want {LEAST_RETENTION.days}d at least, since reports read the hours: {text!r}"
        )
    return span


def add_retention_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ledger.retention",
        dest="ledger_retention",
        type=retention,
        metavar="DURATION",
        help="drop hours of months that ended longer ago, once their days are summed "
        f"({LEAST_RETENTION.days}d at least; default: keep all)",
    )


def maintenance(
    ledger: Ledger,
    kept: timedelta | None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Callable[[threading.Event], None]:
    """Make the job that tidies until it is stopped; a round that fails is tried again."""

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            failed = not _round(ledger, kept, now, stop)
            stop.wait(wait_seconds(failed=failed))

    return run


def _round(
    ledger: Ledger,
    kept: timedelta | None,
    now: Callable[[], datetime],
    stop: threading.Event,
) -> bool:
    """Tell whether a round went well."""
    try:
        done = tidy(ledger, now(), kept, stop.is_set)
    except LedgerError as error:
        log.warning("tidying the ledger failed and is tried again: %s", error)
        return False
    except Exception:  # this thread must not end: the next round may do better
        log.exception("tidying the ledger failed and is tried again")
        return False
    if done.summed_day_count or done.dropped_day_count:
        log.info(
            "the ledger's days: %d summed, of %d the hours dropped",
            done.summed_day_count,
            done.dropped_day_count,
        )
    return True
