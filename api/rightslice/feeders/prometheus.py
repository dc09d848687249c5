"""Fills the ledger from a Prometheus, day by day: ours and dcgm-exporter's metrics alike."""

import json
import logging
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from rightslice.contract.spec import PREFIX
from rightslice.feeders import dcgm_page, rightslice_page
from rightslice.feeders.builder import HourTable
from rightslice.feeders.dcgm_page import DcgmMapper
from rightslice.feeders.hours import SECONDS_PER_HOUR
from rightslice.feeders.merge import merge
from rightslice.feeders.prometheus_answer import Samples
from rightslice.feeders.prometheus_client import PrometheusClient
from rightslice.feeders.readings import Reading
from rightslice.feeders.rightslice_page import RightsliceMapper
from rightslice.ledger.ledger import Batch, FeederState, Ledger

log = logging.getLogger(__name__)

SECONDS_PER_DAY = 86_400
# One query's share of the cards: 20 cards with six fields at 15 s are 700,000 samples a day.
CARDS_PER_QUERY = 20
# Readings before the window's start give the first hour its first difference.
LEAD_SECONDS = 600.0
# A reset, or a scrape that came late, is looked for this many intervals around an hour's edge.
EDGE_INTERVALS = 2.5
DEFAULT_INTERVAL_SECONDS = 60.0

Progress = Callable[[int, int], None]


class Source(StrEnum):
    """Whose metrics to read."""

    AUTO = "auto"
    RIGHTSLICE = "rightslice"
    DCGM = "dcgm"


@dataclass(slots=True)
class PullResult:
    """What a pull found; counts are shown to the user."""

    card_count: int = 0
    hour_count: int = 0
    rejected_count: int = 0


@dataclass(slots=True)
class Found:
    """The series that a Prometheus holds in a window."""

    dcgm_names: tuple[str, ...] = ()
    # Pipelines differ in how they spell the label; its spelling, and the cards told by it.
    dcgm_uuids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dcgm_label_sets: list[dict[str, str]] = field(default_factory=list)
    our_targets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A target of ours, how to select its series, and the start times that it told."""

    name: str
    matchers: str
    starts: list[Samples]

    @property
    def start_seconds(self) -> float:
        """Give the earliest start time told; later than any for a target that told none."""
        return min((value for one in self.starts for _, value in one.samples), default=math.inf)


def pull(
    client: PrometheusClient,
    ledger: Ledger,
    start: datetime,
    end: datetime,
    source: Source = Source.AUTO,
    progress: Progress = lambda done, total: None,
) -> PullResult:
    """Put the hours of [start, end) into the ledger, from where the last pull stopped.

    `end` is cut to a whole hour that has been over for a while. Pulling an hour again replaces
    it. Each day is written with the feeder's state in one transaction. Raises SourceError and
    LedgerError; days written before stay.
    """
    feeder = f"prometheus {source} {client.url}"
    known = ledger.feeder_state(feeder)
    start_hour = _hour(start)
    run = _Pull(client, ledger, feeder, source)
    if known is not None and known.state["from_hour"] <= start_hour <= _hour(known.complete_until):
        start_hour = _hour(known.complete_until)
        run.restore(known.state)
    return run.days(start_hour, _hour(end), progress)


def _hour(moment: datetime) -> int:
    return int(moment.timestamp() // SECONDS_PER_HOUR)


class _Pull:
    """One run over a window; holds the mappers from day to day."""

    def __init__(
        self, client: PrometheusClient, ledger: Ledger, feeder: str, source: Source
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._feeder = feeder
        self._source = source
        self._ours = RightsliceMapper()
        self._dcgm = DcgmMapper()
        self._from_hour: int | None = None

    def restore(self, state: Mapping[str, Any]) -> None:
        self._from_hour = state["from_hour"]
        for table, key in ((self._ours.table, "ours"), (self._dcgm.table, "dcgm")):
            table.restore(state[key])

    def days(self, start_hour: int, end_hour: int, progress: Progress) -> PullResult:
        result = PullResult()
        if end_hour <= start_hour:
            return result
        found = self._find(start_hour, end_hour)
        self._dcgm.learn(found.dcgm_label_sets)
        first_hour = start_hour if self._from_hour is None else min(self._from_hour, start_hour)
        days = list(range(start_hour, end_hour, 24))
        for number, day_hour in enumerate(days):
            progress(number, len(days))
            until_hour = min(day_hour + 24, end_hour)
            self._read_day(found, day_hour, until_hour)
            result.hour_count += self._write(day_hour, until_hour, first_hour)
        progress(len(days), len(days))
        result.card_count = len({*self._ours.table.first_seen, *self._dcgm.table.first_seen})
        result.rejected_count = self._ours.rejected_count + self._dcgm.rejected_count
        return result

    def _find(self, start_hour: int, end_hour: int) -> Found:
        span = (float(start_hour * SECONDS_PER_HOUR), float(end_hour * SECONDS_PER_HOUR))
        found = Found()
        if self._source is not Source.RIGHTSLICE:
            names = "|".join([*dcgm_page.FIELDS, *(name.lower() for name in dcgm_page.FIELDS)])
            label_sets = self._client.label_sets(f'{{__name__=~"{names}"}}', *span)
            found.dcgm_label_sets = label_sets
            found.dcgm_names = tuple(sorted({labels["__name__"] for labels in label_sets}))
            for label in ("UUID", "uuid"):
                uuids = {labels.get(label, "") for labels in label_sets} - {""}
                found.dcgm_uuids[label] = tuple(sorted(uuids))
        if self._source is not Source.DCGM:
            label_sets = self._client.label_sets(f"{PREFIX}build_info", *span)
            found.our_targets = tuple(
                sorted({(row.get("job", ""), row.get("instance", "")) for row in label_sets})
            )
        return found

    def _read_day(self, found: Found, day_hour: int, until_hour: int) -> None:
        start_seconds = day_hour * SECONDS_PER_HOUR - LEAD_SECONDS
        end_seconds = float(until_hour * SECONDS_PER_HOUR)
        for label, all_uuids in found.dcgm_uuids.items():
            for uuids in _batches(all_uuids, CARDS_PER_QUERY):
                matcher = f"{label}=~{_any_of(uuids)}"
                self._read_dcgm(found.dcgm_names, matcher, start_seconds, end_seconds)
        span = (start_seconds, end_seconds)
        processes = [self._process(job, instance, span) for job, instance in found.our_targets]
        # Older processes first: one that was started later, at another address, takes its cards
        # over from them.
        for process in sorted(processes, key=lambda one: one.start_seconds):
            if process.starts:
                self._read_ours(process, day_hour, until_hour)

    def _read_dcgm(
        self, names: Iterable[str], matcher: str, start_seconds: float, end_seconds: float
    ) -> None:
        selector = f'{{__name__=~"{"|".join(names)}", {matcher}}}'
        series = list(self._client.raw(selector, start_seconds, end_seconds))
        interval_seconds = _usual_interval(series)
        for now_seconds, readings in sorted(_scrapes(series).items()):
            self._dcgm.feed(now_seconds, readings, interval_seconds)

    def _process(self, job: str, instance: str, span: tuple[float, float]) -> Process:
        """Look up when a target's process was started, over a span."""
        matchers = f"job={_quoted(job)}, instance={_quoted(instance)}"
        selector = f"{rightslice_page.RESET_NAME}{{{matchers}}}"
        return Process(f"{job} {instance}", matchers, list(self._client.raw(selector, *span)))

    def _read_ours(self, process: Process, day_hour: int, until_hour: int) -> None:
        """Read counters around the edges of hours, and uneven hours as a whole."""
        margin_seconds = EDGE_INTERVALS * _usual_interval(process.starts)
        span = (day_hour * SECONDS_PER_HOUR - LEAD_SECONDS, float(until_hour * SECONDS_PER_HOUR))
        uneven_hours = _uneven_hours(process.starts, span, margin_seconds)
        names = "|".join(
            (
                *rightslice_page.COUNTER_NAMES,
                *rightslice_page.GAUGE_NAMES,
                rightslice_page.RESET_NAME,
            )
        )
        selector = f'{{__name__=~"{names}", {process.matchers}}}'
        pieces = []
        for edge_hour in range(day_hour, until_hour + 1):
            edge_seconds = float(edge_hour * SECONDS_PER_HOUR)
            begin_seconds = edge_seconds - margin_seconds
            if edge_hour - 1 in uneven_hours:
                begin_seconds = edge_seconds - SECONDS_PER_HOUR - margin_seconds
            pieces.append((begin_seconds, edge_seconds + margin_seconds))
        scrapes: dict[float, list[Reading]] = {}
        for begin_seconds, end_seconds in _joined(pieces):
            series = list(self._client.raw(selector, begin_seconds, end_seconds))
            scrapes |= _scrapes(series)
        for now_seconds, readings in sorted(scrapes.items()):
            self._ours.feed(process.name, now_seconds, readings)
        self._read_peaks(process.matchers, day_hour, until_hour)

    def _read_peaks(self, matchers: str, day_hour: int, until_hour: int) -> None:
        query = f"max_over_time({rightslice_page.PEAK_NAME}{{{matchers}}}[1h])"
        first_end, last_end = (day_hour + 1) * SECONDS_PER_HOUR, until_hour * SECONDS_PER_HOUR
        for series in self._client.steps(query, first_end, last_end, SECONDS_PER_HOUR):
            uuid = series.labels.get("uuid", "")
            if uuid not in self._ours.table.first_seen:
                continue
            for end_seconds, value in series.samples:
                hour = int(end_seconds // SECONDS_PER_HOUR) - 1
                self._ours.table.card(uuid, hour).see_peak(value)

    def _write(self, day_hour: int, until_hour: int, first_hour: int) -> int:
        hours = range(day_hour, until_hour)
        until_seconds = float(until_hour * SECONDS_PER_HOUR)
        rows = []
        for table in (self._ours.table, self._dcgm.table):
            for hour in hours:
                table.carry(hour)
            rows.append(table.card_hours(hours, until_seconds))
        cards = merge(*rows)
        batch = Batch(
            cards,
            self._workloads(hours),
            [*self._dcgm.table.attributes(day_hour), *self._ours.table.attributes(day_hour)],
        )
        for table in (self._ours.table, self._dcgm.table):
            table.forget_before(until_hour)
        self._ledger.replace_hours(batch, self._feeder, self._state(until_hour, first_hour))
        return len(cards)

    def _workloads(self, hours: Iterable[int]) -> list[Any]:
        return self._dcgm.table.workload_hours(hours)

    def _state(self, until_hour: int, first_hour: int) -> FeederState:
        def remembered(table: HourTable) -> dict[str, Any]:
            return {**table.state(), "hours": {}}

        return FeederState(
            datetime.fromtimestamp(until_hour * SECONDS_PER_HOUR, UTC),
            {
                "from_hour": first_hour,
                "ours": remembered(self._ours.table),
                "dcgm": remembered(self._dcgm.table),
            },
        )


def _batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _quoted(value: str) -> str:
    """Quote a label value for PromQL, whose strings are written as JSON writes them."""
    return json.dumps(value)


def _any_of(values: Iterable[str]) -> str:
    """Write a matcher for any of some literal values."""
    escaped = (
        "".join(f"\\{c}" if not c.isalnum() and c not in "-_" else c for c in value)
        for value in values
    )
    return _quoted("|".join(escaped))


def _usual_interval(series: Iterable[Samples]) -> float:
    """Give the usual time between two samples, over the best-filled series."""
    fullest = max(series, key=lambda one: len(one.samples), default=None)
    if fullest is None or len(fullest.samples) < 2:
        return DEFAULT_INTERVAL_SECONDS
    stamps = [seconds for seconds, _ in fullest.samples]
    return statistics.median(after - before for before, after in pairwise(stamps))


def _scrapes(series: Iterable[Samples]) -> dict[float, list[Reading]]:
    """Put samples of one target back together into the scrapes that they came from."""
    scrapes: dict[float, list[Reading]] = defaultdict(list)
    for one in series:
        name = one.labels.get("__name__", "")
        for seconds, value in one.samples:
            scrapes[seconds].append(Reading(name, one.labels, value))
    return scrapes


def _uneven_hours(
    starts: Iterable[Samples], span: tuple[float, float], margin_seconds: float
) -> set[int]:
    """Give the hours of a span in which a target came, went, fell silent or was restarted.

    There, readings around the edges do not tell what lies between.
    """
    stamped = sorted(row for one in starts for row in one.samples)
    ends = [(span[0], stamped[0][1]), *stamped, (span[1], stamped[-1][1])]
    return {
        int(seconds // SECONDS_PER_HOUR)
        for (before_seconds, before), (after_seconds, after) in pairwise(ends)
        if after != before or after_seconds - before_seconds > margin_seconds
        for seconds in (before_seconds, after_seconds)
    }


def _joined(pieces: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans that touch, so that no sample is fetched twice."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(pieces):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
