"""Fills the ledger from a Prometheus, day by day: ours and dcgm-exporter's metrics alike."""

import json
import logging
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, TypeVar

from rightslice.contract.metrics import BUILD_INFO
from rightslice.feeders import dcgm_page, rightslice_page
from rightslice.feeders.builder import HourTable
from rightslice.feeders.dcgm_page import DcgmMapper
from rightslice.feeders.hours import SECONDS_PER_HOUR
from rightslice.feeders.merge import merge
from rightslice.feeders.prometheus_answer import Samples
from rightslice.feeders.prometheus_client import PrometheusClient
from rightslice.feeders.readings import Reading
from rightslice.feeders.rightslice_page import (
    COUNTER_NAMES,
    GAUGE_NAMES,
    RESET_NAME,
    RightsliceMapper,
)
from rightslice.ledger.ledger import Batch, FeederState, Ledger

log = logging.getLogger(__name__)

# One query's share of the cards: 20 cards with six fields at 15 s are 700,000 samples a day.
CARDS_PER_QUERY = 20
# Readings before the window's start give the first hour its first difference.
LEAD_SECONDS = 600.0
# A reset, or a scrape that came late, is looked for this many intervals around an hour's edge.
EDGE_INTERVALS = 2.5
DEFAULT_INTERVAL_SECONDS = 60.0

# One query's share of our targets: 20 nodes of eight cards are 100,000 samples around an edge.
TARGETS_PER_QUERY = 20
OUR_NAMES = "|".join((*COUNTER_NAMES, *GAUGE_NAMES, RESET_NAME))

Progress = Callable[[int, int], None]
TargetKey = tuple[str, ...]
Item = TypeVar("Item")


class Source(StrEnum):
    """Whose metrics to read."""

    AUTO = "auto"
    RIGHTSLICE = "rightslice"
    DCGM = "dcgm"


@dataclass(slots=True)
class PullResult:
    """What a pull found; counts are shown to the user. No days when nothing was due."""

    day_count: int = 0
    series_count: int = 0
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
    # The labels that tell our targets apart, and each target by their values.
    target_labels: tuple[str, ...] = ()
    our_targets: tuple[TargetKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A target of ours in a span: when its readings are, and in which hours they are uneven."""

    key: TargetKey
    margin_seconds: float
    uneven_hours: frozenset[int]


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
        self._dcgm.learn_again(state["dcgm_labels"])

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
        result.day_count = len(days)
        result.series_count = len(found.dcgm_label_sets) + len(found.our_targets)
        result.card_count = len({*self._ours.table.first_seen, *self._dcgm.table.first_seen})
        result.rejected_count = self._ours.rejected_count + self._dcgm.rejected_count
        return result

    def _find(self, start_hour: int, end_hour: int) -> Found:
        # To the present: what has begun since the last whole hour is to be known of.
        end_seconds = float(end_hour * SECONDS_PER_HOUR + 2 * SECONDS_PER_HOUR)
        span = (float(start_hour * SECONDS_PER_HOUR), end_seconds)
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
            label_sets = self._client.label_sets(BUILD_INFO.name, *span)
            own = {"__name__", *BUILD_INFO.labels}
            found.target_labels = tuple(sorted({name for row in label_sets for name in row} - own))
            keys = {_target_key(labels, found.target_labels) for labels in label_sets}
            found.our_targets = tuple(sorted(keys))
        return found

    def _read_day(self, found: Found, day_hour: int, until_hour: int) -> None:
        start_seconds = day_hour * SECONDS_PER_HOUR - LEAD_SECONDS
        # Beyond the last edge lies the reading that straddles it.
        end_seconds = until_hour * SECONDS_PER_HOUR + LEAD_SECONDS
        for label, all_uuids in found.dcgm_uuids.items():
            for uuids in _batches(all_uuids, CARDS_PER_QUERY):
                matcher = f"{label}=~{_any_of(uuids)}"
                self._read_dcgm(found.dcgm_names, matcher, start_seconds, end_seconds)
        processes = self._processes(found, start_seconds, float(until_hour * SECONDS_PER_HOUR))
        for edge_hour in range(day_hour, until_hour + 1):
            self._read_edge(found, processes, edge_hour)
        self._read_peaks(day_hour, until_hour)

    def _read_dcgm(
        self, names: Iterable[str], matcher: str, start_seconds: float, end_seconds: float
    ) -> None:
        selector = f'{{__name__=~"{"|".join(names)}", {matcher}}}'
        series = list(self._client.raw(selector, start_seconds, end_seconds))
        by_card: dict[str, list[Samples]] = defaultdict(list)
        for one in series:
            by_card[one.labels.get("UUID") or one.labels.get("uuid") or ""].append(one)
        intervals = {uuid: _usual_interval(told) for uuid, told in by_card.items()}
        for now_seconds, readings in sorted(_scrapes(series).items()):
            self._dcgm.feed(now_seconds, readings, intervals.__getitem__)

    def _processes(self, found: Found, start_seconds: float, end_seconds: float) -> list[Process]:
        """Look up when each target was read and restarted in a span."""
        stamps: dict[TargetKey, list[Samples]] = defaultdict(list)
        # Where the start time is not stored, resets show as falls; the readings' times still do.
        for name in (RESET_NAME, BUILD_INFO.name):
            missing = [key for key in found.our_targets if key not in stamps]
            for batch in _batches(missing, TARGETS_PER_QUERY):
                selector = f"{name}{{{_matchers(found.target_labels, batch)}}}"
                for one in self._client.raw(selector, start_seconds, end_seconds):
                    key = _target_key(one.labels, found.target_labels)
                    if key in batch:
                        stamps[key].append(one)
        processes = []
        for key, told in sorted(stamps.items()):
            margin_seconds = EDGE_INTERVALS * _usual_interval(told)
            uneven = _uneven_hours(told, (start_seconds, end_seconds), margin_seconds)
            processes.append(Process(key, margin_seconds, frozenset(uneven)))
        return processes

    def _read_edge(self, found: Found, processes: Sequence[Process], edge_hour: int) -> None:
        """Read counters around an edge, and the hour before it as a whole where it is uneven.

        All targets' readings are fed in the order of time: a card that two of them tell of is
        told once.
        """
        edge_seconds = float(edge_hour * SECONDS_PER_HOUR)
        scrapes: list[tuple[float, str, list[Reading]]] = []
        for is_uneven in (False, True):
            chosen = [one for one in processes if (edge_hour - 1 in one.uneven_hours) == is_uneven]
            for batch in _batches(chosen, TARGETS_PER_QUERY):
                margin_seconds = max(process.margin_seconds for process in batch)
                begin_seconds = edge_seconds - margin_seconds - SECONDS_PER_HOUR * is_uneven
                keys = [process.key for process in batch]
                selector = f'{{__name__=~"{OUR_NAMES}", {_matchers(found.target_labels, keys)}}}'
                series = self._client.raw(selector, begin_seconds, edge_seconds + margin_seconds)
                by_target: dict[TargetKey, list[Samples]] = defaultdict(list)
                for one in series:
                    by_target[_target_key(one.labels, found.target_labels)].append(one)
                for key in keys:
                    for now_seconds, readings in _scrapes(by_target.get(key, ())).items():
                        scrapes.append((now_seconds, " ".join(key), readings))
        for now_seconds, name, readings in sorted(scrapes, key=lambda one: one[:2]):
            self._ours.feed(name, now_seconds, readings)

    def _read_peaks(self, day_hour: int, until_hour: int) -> None:
        uuids = sorted(self._ours.table.first_seen)
        first_end, last_end = (day_hour + 1) * SECONDS_PER_HOUR, until_hour * SECONDS_PER_HOUR
        for batch in _batches(uuids, CARDS_PER_QUERY * TARGETS_PER_QUERY):
            selector = f"{rightslice_page.PEAK_NAME}{{uuid=~{_any_of(batch)}}}"
            query = f"max_over_time({selector}[1h])"
            for series in self._client.steps(query, first_end, last_end, SECONDS_PER_HOUR):
                uuid = series.labels.get("uuid", "")
                for end_seconds, value in series.samples:
                    if 0 <= value <= rightslice_page.LARGEST_VALUE:
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
            self._dcgm.table.workload_hours(hours),
            [*self._dcgm.table.attributes(day_hour), *self._ours.table.attributes(day_hour)],
        )
        for table in (self._ours.table, self._dcgm.table):
            table.forget_before(until_hour)
        self._ledger.replace_hours(batch, self._feeder, self._state(until_hour, first_hour))
        return len(cards)

    def _state(self, until_hour: int, first_hour: int) -> FeederState:
        def remembered(table: HourTable) -> dict[str, Any]:
            return {**table.state(), "hours": {}}

        return FeederState(
            datetime.fromtimestamp(until_hour * SECONDS_PER_HOUR, UTC),
            {
                "from_hour": first_hour,
                "ours": remembered(self._ours.table),
                "dcgm": remembered(self._dcgm.table),
                "dcgm_labels": self._dcgm.learnt(),
            },
        )


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
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


def _target_key(labels: Mapping[str, str], names: Iterable[str]) -> TargetKey:
    """Give what tells a series' target apart from the others."""
    return tuple(labels.get(name, "") for name in names)


def _matchers(names: Sequence[str], keys: Sequence[TargetKey]) -> str:
    """Select the series of some targets; it may select more, so results are looked through."""
    columns = zip(*keys, strict=True)
    return ", ".join(
        f"{name}=~{_any_of(sorted(set(values)))}"
        for name, values in zip(names, columns, strict=True)
    )


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
