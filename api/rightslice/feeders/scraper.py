"""The embedded feeder: scrapes exporters itself, so that no Prometheus is needed."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rightslice.contract.spec import PREFIX
from rightslice.feeders.builder import HourTable
from rightslice.feeders.dcgm_page import DcgmMapper, field_name
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.hours import SECONDS_PER_HOUR
from rightslice.feeders.merge import merge
from rightslice.feeders.prometheus_answer import SourceError
from rightslice.feeders.rightslice_page import RightsliceMapper
from rightslice.ledger.ledger import Batch, FeederState, Ledger, LedgerError

log = logging.getLogger(__name__)

FEEDER = "embedded"
# A clock may be corrected a little; more than this is a step.
CLOCK_STEP_SECONDS = 60.0
MOST_FETCHES_AT_ONCE = 32
# An hour stays open this long after its end: the reading that straddles it is still to come.
OPEN_SECONDS = 600.0
# A target that is read again after this long has its time spread over hours that are closed: lost.
LATE_SECONDS = 6 * 3600.0
FLUSH_SECONDS = 60.0

Fetch = Callable[[str], str]


@dataclass(slots=True)
class TargetState:
    """How a target fares."""

    parser: PageParser = field(default_factory=PageParser)
    last_success_seconds: float | None = None
    last_error: str = ""


class Scraper:
    """Takes in pages of any number of targets, and writes them to the ledger as they come.

    The clock is the caller's: `ingest` and `flush` are told the time.
    """

    def __init__(self, ledger: Ledger, interval_seconds: float) -> None:
        self._ledger = ledger
        self._interval_seconds = interval_seconds
        self._ours = RightsliceMapper()
        self._dcgm = DcgmMapper()
        self.targets: dict[str, TargetState] = {}
        self._open_hour: int | None = None
        # The hours from here on have not been written as a whole.
        self._written_hour = 0
        self._latest_seconds = 0.0
        self._resume()

    def _resume(self) -> None:
        known = self._ledger.feeder_state(FEEDER)
        if known is not None:
            self._ours.restore(known.state["ours"])
            self._dcgm.restore(known.state["dcgm"])
            self._open_hour = known.state["open_hour"]

    def ingest(self, target: str, page: str, now_seconds: float) -> None:
        """Take in a target's page as it stood at `now_seconds`; broken lines are skipped."""
        state = self.targets.setdefault(target, TargetState())
        broken_before = state.parser.broken_line_count
        readings = state.parser.parse(page)
        if state.parser.broken_line_count and not broken_before:
            log.warning("target %s: its page has broken lines, which are skipped", target)
        if self._open_hour is None:
            self._open_hour = int(now_seconds // SECONDS_PER_HOUR)
        self._look_at_clock(now_seconds)
        if any(reading.name.startswith(PREFIX) for reading in readings):
            self._ours.feed(target, now_seconds, readings)
        if any(field_name(reading.name) for reading in readings):
            self._dcgm.feed(now_seconds, readings, lambda _: self._interval_seconds)
        state.last_success_seconds = now_seconds
        state.last_error = ""

    def _look_at_clock(self, now_seconds: float) -> None:
        """Start over when the clock was set back, instead of waiting until it has caught up."""
        if now_seconds < self._latest_seconds - CLOCK_STEP_SECONDS and self._open_hour is not None:
            log.warning(
                "the clock went back by %.0f s; readings start over",
                self._latest_seconds - now_seconds,
            )
            self._ours.start_over(now_seconds)
            self._dcgm.start_over(now_seconds)
            self._open_hour = min(self._open_hour, int(now_seconds // SECONDS_PER_HOUR))
            self._latest_seconds = now_seconds
        self._latest_seconds = max(self._latest_seconds, now_seconds)

    def fail(self, target: str, error: str) -> None:
        """Note that a target could not be read; the others are not touched by it."""
        state = self.targets.setdefault(target, TargetState())
        if state.last_error != error:  # the same failure is told once, not at each scrape
            log.warning("%s", error)
        state.last_error = error

    @property
    def open_until_seconds(self) -> float | None:
        """The latest reading of any target so far, from before a restart too; None without one."""
        seen = [seconds for table in self._tables for seconds in table.last_seen.values()]
        return max(seen, default=None)

    @property
    def _tables(self) -> tuple[HourTable, HourTable]:
        return self._ours.table, self._dcgm.table

    def flush(self, now_seconds: float) -> None:
        """Write what changed and all state in one transaction. Raises LedgerError.

        Nothing is forgotten before it is written.
        """
        if self._open_hour is None:
            return
        closing_hour = max(self._closing_hour(now_seconds), self._open_hour)
        for hour in range(self._open_hour, closing_hour):
            for table in self._tables:
                table.carry(hour)
        last_hour = int(now_seconds // SECONDS_PER_HOUR)
        changed = set().union(*(table.changed_hours for table in self._tables))
        hours = [
            hour
            for hour in range(self._open_hour, last_hour + 1)
            if hour in changed or hour >= self._written_hour
        ]
        ours, companion = (table.card_hours(hours, now_seconds) for table in self._tables)
        batch = Batch(
            merge(ours, companion),
            self._dcgm.table.workload_hours(hours),
            # Ours last: of two tellers the last one counts.
            [
                attributes
                for table in reversed(self._tables)
                for attributes in table.attributes(self._open_hour)
            ],
        )
        state = FeederState(
            datetime.fromtimestamp(closing_hour * SECONDS_PER_HOUR, UTC),
            {
                "ours": self._ours.state(closing_hour),
                "dcgm": self._dcgm.state(closing_hour),
                "open_hour": closing_hour,
            },
        )
        self._ledger.replace_hours(batch, FEEDER, state)
        self._open_hour, self._written_hour = closing_hour, last_hour
        for table in self._tables:
            table.forget_before(closing_hour)
            table.changed_hours.clear()
        self._ours.forget_departed(now_seconds)
        self._dcgm.forget_departed(now_seconds)

    def _closing_hour(self, now_seconds: float) -> int:
        """Give the first hour that may still be told something.

        An exporter that could not be read goes on counting, and tells of the time when it is read
        again: its hours stay open for a while.
        """
        last_read = [
            target.last_seconds
            for target in self._ours.targets.values()
            if target.last_seconds and target.last_seconds > now_seconds - LATE_SECONDS
        ]
        return int(min(now_seconds - OPEN_SECONDS, *last_read, now_seconds) // SECONDS_PER_HOUR)


def run(
    scraper: Scraper,
    targets: Sequence[str],
    fetch: Fetch,
    now_seconds: Callable[[], float],
    interval_seconds: float,
    stop: threading.Event,
) -> None:
    """Scrape every target each interval until `stop` is set, writing once a minute."""
    flushed_seconds = now_seconds()

    def stamped(target: str) -> tuple[str, float]:
        """Fetch a page with the time of its arrival; a slow target must not date the others."""
        return fetch(target), now_seconds()

    with ThreadPoolExecutor(min(len(targets), MOST_FETCHES_AT_ONCE), "fetch") as fetchers:
        while not stop.is_set():
            started_seconds = now_seconds()
            pages = {target: fetchers.submit(stamped, target) for target in targets}
            for target, page in pages.items():
                _take(scraper, target, page)
            if now_seconds() - flushed_seconds >= FLUSH_SECONDS:
                flushed_seconds = _flush(scraper, now_seconds())
            stop.wait(max(interval_seconds - (now_seconds() - started_seconds), 0.1))
    _flush(scraper, now_seconds())


def _take(scraper: Scraper, target: str, page: Future[tuple[str, float]]) -> None:
    """Take in one page. Whatever is wrong with it stays with its target."""
    try:
        scraper.ingest(target, *page.result())
    except SourceError as error:
        scraper.fail(target, str(error))
    except Exception as error:
        log.exception("target %s cannot be taken in", target)
        scraper.fail(target, f"target {target} cannot be taken in: {error}")


def _flush(scraper: Scraper, now_seconds: float) -> float:
    try:
        scraper.flush(now_seconds)
    except LedgerError as error:
        # The hours stay in memory and are written by the next flush that can.
        log.error("%s", error)
    except Exception:  # the loop must go on; what is wrong is told each time
        log.exception("writing the ledger failed")
    return now_seconds
