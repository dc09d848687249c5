"""The embedded feeder: takes in exporters' pages itself, so that no Prometheus is needed."""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rightslice.contract.spec import PREFIX
from rightslice.feeders.companions import Companions
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import GaugeMapping, shipped_mapping, shipped_names
from rightslice.feeders.hours.builder import HourTable, age_together
from rightslice.feeders.hours.card_names import named_anew
from rightslice.feeders.hours.merge import merge_all
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.readings import Reading
from rightslice.ledger.batch import Batch
from rightslice.ledger.ledger import FeederState, Ledger
from rightslice.ledger.rows import SOURCE_PRECEDENCE

log = logging.getLogger(__name__)

FEEDER = "embedded"
STATE_VERSION = 2
# A clock may be corrected a little; more than this is a step.
CLOCK_STEP_SECONDS = 60.0
# An hour stays open this long after its end: the reading that straddles it is still to come.
OPEN_SECONDS = 600.0
# A target that is read again after this long has its time spread over hours that are closed: lost.
LATE_SECONDS = 6 * 3600.0
# The rows of so many cards are written in a moment; an hour that is over is written as a whole.
CARDS_PER_FLUSH = 1_000


@dataclass(frozen=True, slots=True)
class Intake:
    """What was found on one page. `unattached` are engines on it whose workload is not known."""

    sample_count: int
    broken_line_count: int
    unattached: tuple[str, ...] = ()


class Scraper:
    """Takes in pages of any number of targets, and writes them to the ledger as they come.

    The clock is the caller's: `ingest` and `flush` are told the time.
    """

    def __init__(
        self,
        ledger: Ledger,
        interval_seconds: float,
        mappings: Sequence[GaugeMapping] | None = None,
        companions: Companions | None = None,
    ) -> None:
        """`mappings` are other exporters that are understood; None for those that come with it."""
        self._ledger = ledger
        self._interval_seconds = interval_seconds
        self._mappings = {
            mapping.name: mapping
            for mapping in (map(shipped_mapping, shipped_names()) if mappings is None else mappings)
        }
        self._companions = companions or Companions()
        self._ours = RightsliceMapper()
        # Of each exporter of others that was met, the most trusted first.
        self._gauges: dict[str, GaugeMapper] = {}
        self._parsers: dict[str, PageParser] = {}
        self._open_hour: int | None = None
        # The hours from here on have not been written as a whole.
        self._written_hour = 0
        # The last card whose row of the current hour was written.
        self._last_written = ""
        self._latest_seconds = 0.0
        self._known_names = {
            name: {each.upper() for each in mapping.series_names}
            for name, mapping in self._mappings.items()
        }
        self._resume()

    def _resume(self) -> None:
        known = self._ledger.feeder_state(FEEDER)
        if known is None:
            return
        if known.state.get("version") != STATE_VERSION:
            log.warning("the ledger was last written by an older version; readings start anew")
            return
        self._ours.restore(known.state["ours"])
        for name, state in known.state["gauges"].items():
            if name in self._mappings:
                self._gauge(name).restore(state)
        self._companions.restore(known.state["companions"])
        self._open_hour = known.state["open_hour"]
        # A clock that was ahead then and has been set right since shows as one that went back.
        self._latest_seconds = self.open_until_seconds or 0.0

    def ingest(
        self,
        target: str,
        page: str,
        now_seconds: float,
        interval_seconds: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Intake:
        """Take in a target's page as it stood at `now_seconds`; broken lines are skipped.

        `interval_seconds` is how often this target is read, where that is not as all others are.
        `labels` are what its group says of it, such as its cluster; never a part of a key.
        """
        parser = self._parsers.setdefault(target, PageParser())
        broken_before = parser.broken_line_count
        readings = parser.parse(page)
        interval = interval_seconds or self._interval_seconds
        if self._open_hour is None:
            self._open_hour = int(now_seconds // SECONDS_PER_HOUR)
        self._look_at_clock(now_seconds)
        told_labels = labels or {}
        names = {reading.name for reading in readings}
        if any(name.startswith(PREFIX) for name in names):
            self._ours.feed(
                target,
                now_seconds,
                readings,
                interval_seconds=interval,
                cluster=told_labels.get("cluster", ""),
                is_whole_page=True,
            )
        self._feed_gauges(target, names, now_seconds, readings, interval)
        self._companions.feed(target, now_seconds, readings, interval, told_labels)
        return Intake(
            len(readings),
            parser.broken_line_count - broken_before,
            self._companions.engines.unattached.get(target, ()),
        )

    def _feed_gauges(
        self,
        target: str,
        names: Iterable[str],
        now_seconds: float,
        readings: Sequence[Reading],
        interval_seconds: float,
    ) -> None:
        upper_names = {name.upper() for name in names}
        for mapping, known in self._known_names.items():
            if not known.isdisjoint(upper_names):
                mapper = self._gauge(mapping)
                mapper.feed(now_seconds, readings, lambda _: interval_seconds, target)

    def _gauge(self, name: str) -> GaugeMapper:
        mapper = self._gauges.get(name)
        if mapper is None:
            mapper = GaugeMapper(self._mappings[name])
            found = {**self._gauges, name: mapper}
            order = sorted(found, key=lambda each: (-SOURCE_PRECEDENCE.get(each, 0), each))
            self._gauges = {each: found[each] for each in order}
        return mapper

    def forget(self, target: str) -> None:
        """Drop what is remembered of the page of a target that is scraped no more."""
        self._parsers.pop(target, None)
        self._ours.forget(target)
        self._companions.forget(target)

    def _look_at_clock(self, now_seconds: float) -> None:
        """Start over when the clock was set back, instead of waiting until it has caught up."""
        if now_seconds < self._latest_seconds - CLOCK_STEP_SECONDS and self._open_hour is not None:
            log.warning(
                "the clock went back by %.0f s; readings start over",
                self._latest_seconds - now_seconds,
            )
            self._ours.start_over(now_seconds)
            for mapper in self._gauges.values():
                mapper.start_over(now_seconds)
            self._companions.start_over(now_seconds)
            self._open_hour = min(self._open_hour, int(now_seconds // SECONDS_PER_HOUR))
            self._latest_seconds = now_seconds
        self._latest_seconds = max(self._latest_seconds, now_seconds)

    @property
    def open_until_seconds(self) -> float | None:
        """The latest reading of any target so far, from before a restart too; None without one."""
        seen = [seconds for table in self._tables for seconds in table.last_seen.values()]
        return max(seen, default=None)

    @property
    def _tables(self) -> list[HourTable]:
        """The hours of whole cards, ours first."""
        return [self._ours.table, *(mapper.table for mapper in self._gauges.values())]

    def flush(self, now_seconds: float) -> None:
        """Write what changed and all state in one transaction. Raises LedgerError.

        Nothing is forgotten before it is written.
        """
        if self._open_hour is None:
            return
        closing_hour = max(self._closing_hour(now_seconds), self._open_hour)
        age_together(self._tables)
        for hour in range(self._open_hour, closing_hour):
            for table in self._tables:
                table.carry(hour)
        last_hour = int(now_seconds // SECONDS_PER_HOUR)
        state = FeederState(
            datetime.fromtimestamp(closing_hour * SECONDS_PER_HOUR, UTC),
            {
                "version": STATE_VERSION,
                "ours": self._ours.state(closing_hour),
                "gauges": {
                    name: mapper.state(closing_hour) for name, mapper in self._gauges.items()
                },
                "companions": self._companions.state(closing_hour),
                "open_hour": closing_hour,
            },
        )
        batch = self._batch(last_hour, now_seconds)
        self._ledger.replace_hours(batch, FEEDER, state)
        self._last_written = next(reversed(self._turn()), "")
        self._open_hour, self._written_hour = closing_hour, last_hour
        self._forget(closing_hour, now_seconds)

    def _forget(self, closing_hour: int, now_seconds: float) -> None:
        """Drop what is written, and closed or gone."""
        self._ours.written()
        self._companions.written()
        self._companions.forget_before(closing_hour)
        self._ours.tables.forget_before(closing_hour)
        self._ours.forget_departed(now_seconds)
        for mapper in self._gauges.values():
            mapper.table.written()
            mapper.forget_before(closing_hour)
            mapper.forget_departed(now_seconds)

    def _batch(self, last_hour: int, now_seconds: float) -> Batch:
        """Give hours that are over as a whole, once, and what changed of others.

        Of the hour that has begun, a large fleet's cards take turns: the state has all of them.
        """
        open_hours = range(self._open_hour or 0, last_hour + 1)
        fresh = [hour for hour in open_hours if self._written_hour <= hour < last_hour]
        others = [hour for hour in open_hours if hour < self._written_hour or hour == last_hour]
        tables, turn = self._tables, self._turn()
        for hour in others:  # a row is made of what all sources tell of its card
            changed = set().union(*(table.changed.get(hour, ()) for table in tables))
            for table in tables:
                table.changed[hour] = set(turn) if hour == last_hour else changed
        parts = (
            self._rows(others, now_seconds, changed_only=True),
            self._rows(fresh, now_seconds, changed_only=False),
        )
        batch = Batch(
            cards=[row for part in parts for row in part.cards],
            slices=[row for part in parts for row in part.slices],
            workloads=[row for part in parts for row in part.workloads],
            ports=[row for part in parts for row in part.ports],
            ooms=[row for part in parts for row in part.ooms],
            attributes=named_anew(tables),
            workload_attributes=self._ours.workloads.rows(),
            port_attributes=self._ours.ports.rows(),
        )
        return self._companions.complete(batch, open_hours, last_hour)

    def _turn(self) -> list[str]:
        """Give the cards whose row of the current hour is to be written next."""
        uuids = sorted(set().union(*(table.first_seen for table in self._tables)))
        begin = bisect_right(uuids, self._last_written)
        return [*uuids[begin:], *uuids[:begin]][:CARDS_PER_FLUSH]

    def _rows(self, hours: Sequence[int], until_seconds: float, *, changed_only: bool) -> Batch:
        ours = self._ours.rows(hours, until_seconds, changed_only=changed_only)
        return merge_all(
            ours,
            (
                mapper.hours(hours, until_seconds, changed_only=changed_only)
                for mapper in self._gauges.values()
            ),
        )

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
