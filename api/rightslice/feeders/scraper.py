"""The embedded feeder: scrapes exporters itself, so that no Prometheus is needed."""

import logging
import threading
from collections.abc import Callable, Sequence
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
# An hour stays open this long after its end: the reading that straddles it is still to come.
OPEN_SECONDS = 600.0
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
        if any(reading.name.startswith(PREFIX) for reading in readings):
            self._ours.feed(target, now_seconds, readings)
        if any(field_name(reading.name) for reading in readings):
            self._dcgm.feed(now_seconds, readings, self._interval_seconds)
        state.last_success_seconds = now_seconds
        state.last_error = ""

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
        """Write the open hours and all state in one transaction. Raises LedgerError."""
        if self._open_hour is None:
            return
        closing_hour = int((now_seconds - OPEN_SECONDS) // SECONDS_PER_HOUR)
        for hour in range(self._open_hour, closing_hour):
            for table in self._tables:
                table.carry(hour)
        last_hour = int(now_seconds // SECONDS_PER_HOUR)
        hours = range(self._open_hour, last_hour + 1)
        ours, companion = (table.card_hours(hours, now_seconds) for table in self._tables)
        batch = Batch(
            merge(ours, companion),
            self._dcgm.table.workload_hours(hours),
            [
                attributes
                for table in self._tables
                for attributes in table.attributes(self._open_hour)
            ],
        )
        for table in self._tables:
            table.forget_before(closing_hour)
        self._open_hour = max(self._open_hour, closing_hour)
        state = FeederState(
            datetime.fromtimestamp(self._open_hour * SECONDS_PER_HOUR, UTC),
            {
                "ours": self._ours.state(),
                "dcgm": self._dcgm.state(),
                "open_hour": self._open_hour,
            },
        )
        self._ledger.replace_hours(batch, FEEDER, state)


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
    while not stop.is_set():
        started_seconds = now_seconds()
        for target in targets:
            try:
                scraper.ingest(target, fetch(target), now_seconds())
            except SourceError as error:
                scraper.fail(target, str(error))
        if now_seconds() - flushed_seconds >= FLUSH_SECONDS:
            flushed_seconds = _flush(scraper, now_seconds())
        stop.wait(max(interval_seconds - (now_seconds() - started_seconds), 0.1))
    _flush(scraper, now_seconds())


def _flush(scraper: Scraper, now_seconds: float) -> float:
    try:
        scraper.flush(now_seconds)
    except LedgerError as error:
        # The hours stay in memory and are written by the next flush that can.
        log.error("%s", error)
    return now_seconds
