"""Fills the ledger from a Prometheus, some hours at a time: ours and other exporters' metrics."""

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rightslice.contract.metrics import BUILD_INFO
from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_start
from rightslice.feeders.prometheus.ahead import one_ahead
from rightslice.feeders.prometheus.answer import (
    LimitError,
    PartialError,
    RetryError,
    Samples,
    SourceError,
)
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.companions import complete
from rightslice.feeders.prometheus.gauges import (
    CARDS_PER_QUERY,
    LEAD_SECONDS,
    GaugeCards,
    GaugeReader,
    find_cards,
)
from rightslice.feeders.prometheus.ours import OurHours, OurReader, our_query_size
from rightslice.feeders.prometheus.parts import QuerySize
from rightslice.feeders.prometheus.sources import Sources
from rightslice.feeders.prometheus.span import Known, SpanMapper
from rightslice.feeders.prometheus.state import PullState, restored
from rightslice.feeders.prometheus.targets import OurTargets, find_targets
from rightslice.ledger.batch import Batch
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.rows import SOURCE_RIGHTSLICE

log = logging.getLogger(__name__)

# A source may still be told something of hours that have been over for less.
DEFAULT_LATE = timedelta(hours=48)
# After so many days of which nothing could be read the rest is left for another time.
FAILED_SPANS = 2

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class PullResult:
    """What a pull found; counts are shown to the user. No days when nothing was due.

    `missing_hour_count` are hours of the window that could not be read, for which `reason` tells
    of the last: they are read by a later pull.
    """

    day_count: int = 0
    series_count: int = 0
    card_count: int = 0
    hour_count: int = 0
    rejected_count: int = 0
    missing_hour_count: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a Prometheus holds of some hours: our targets, and cards by other exporters' mapping."""

    ours: OurTargets
    gauges: Sequence[GaugeCards]

    @property
    def series_count(self) -> int:
        return self.ours.count + sum(len(told.label_sets) for told in self.gauges)

    @property
    def told_names(self) -> set[str]:
        """Name a metric of each source that tells whether it was read."""
        ours = {BUILD_INFO.name} if self.ours.count else set()
        return ours | {told.told_name for told in self.gauges} - {""}


def pull(
    client: PrometheusClient,
    ledger: Ledger,
    start: datetime,
    end: datetime,
    sources: Sources,
    progress: Progress = lambda done, total: None,
    late: timedelta = DEFAULT_LATE,
    workloads: WorkloadSettings | None = None,
) -> PullResult:
    """Put the hours of [start, end) into the ledger, from where the last pull stopped.

    `end` is cut to a whole hour that has been over for a while. Hours are read again while they
    are younger than `late` and the source has come to hold more of them. Each day is written with
    the feeder's state in one transaction. Raises SourceError where two days in a row, or all there
    is to read, could not be read, and LedgerError; days written before stay.
    """
    window = range(_hour(start), _hour(end))
    settings = workloads or WorkloadSettings()
    run = _Pull(client, ledger, sources, window, _hour(end - late), settings)
    return run.run(progress)


def _hour(moment: datetime) -> int:
    return int(moment.timestamp() // SECONDS_PER_HOUR)


class _Pull:
    """One run over a window."""

    def __init__(
        self,
        client: PrometheusClient,
        ledger: Ledger,
        sources: Sources,
        window: range,
        final_before_hour: int,
        workloads: WorkloadSettings,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._sources = sources
        self._window = window
        self._final_before_hour = final_before_hour
        self._workloads = workloads
        # Which source, and of what: what another tenant or mapping told is another's.
        self._feeder = " ".join(
            filter(None, ("prometheus", sources.name, client.url, client.tenant))
        )
        self._state: PullState = restored(ledger.feeder_state(self._feeder), window.start)
        self._known = Known(self._state.kept)
        self._mapped_until = self._state.until_hour
        self._counts: dict[str, dict[int, float]] = {}
        self._uuids: set[str] = set()
        # Batches keep the size that servers showed to be right.
        self._our_size = our_query_size()
        self._gauge_sizes: dict[str, QuerySize] = {}
        self._result = PullResult()

    def run(self, progress: Progress) -> PullResult:
        self._count(self._state.counts)
        due = self._state.due(self._window, self._counts, self._final_before_hour)
        failed_count, result = 0, self._result
        for number, hours in enumerate(due):
            progress(number, len(due))
            failure = self._span(hours)
            failed_count = 0 if failure is None else failed_count + 1
            left_count = len(self._state.missing_hours.intersection(hours))
            if left_count:
                day = hour_start(hours.start)
                log.warning(
                    "%d hours of the day from %s on are left for later: %s",
                    left_count,
                    day,
                    result.reason,
                )
            if failure is not None and failed_count in (FAILED_SPANS, len(due)):
                raise failure
        if due:
            progress(len(due), len(due))
        result.day_count, result.card_count = len(due), len(self._uuids)
        result.missing_hour_count = len(self._state.missing_hours)
        return result

    def _span(self, hours: range) -> SourceError | None:
        """Read and write some hours; what cannot be read is noted. Gives why nothing was read."""
        try:
            self._read(hours)
            return None
        except RetryError as error:
            failure: SourceError = error
        except (PartialError, LimitError) as error:
            failure = error
            if len(hours) > 1:
                middle = hours.start + len(hours) // 2
                halves = (range(hours.start, middle), range(middle, hours.stop))
                failures = [self._span(half) for half in halves]
                return failure if all(failures) else None
        self._state.failed(hours)
        self._result.reason = str(failure)
        return failure

    def _read(self, hours: range) -> None:
        found = self._find(hours)
        self._count(found.told_names - self._counts.keys())
        is_next = hours.start >= self._mapped_until
        mapper = SpanMapper(hours, self._known, self._sources.mappings, is_next=is_next)
        for told in found.gauges:
            mapper.learn(told.mapping.name, told.label_sets)
        for source, part in one_ahead(self._parts(found, hours)):
            if isinstance(part, OurHours):
                mapper.take_ours(part)
            else:
                mapper.take_gauges(source, part)
        batch = complete(
            self._client, mapper.batch(), hours, mapper.ours.workloads, self._workloads
        )
        self._write(hours, batch, mapper.keep())
        if is_next:
            self._mapped_until = hours.stop
        self._result.series_count = max(self._result.series_count, found.series_count)
        self._result.hour_count += len(batch.cards)
        self._result.rejected_count += mapper.rejected_count
        self._uuids.update(row.uuid for row in batch.cards)

    def _write(self, hours: range, batch: Batch, kept: dict[str, Any]) -> None:
        """Write rows and state at once; what is in memory follows once they are written."""
        state = copy.deepcopy(self._state)
        state.written(hours, self._counts)
        state.forget_before(self._window.start, self._final_before_hour)
        state.kept = kept
        self._ledger.replace_hours(batch, self._feeder, state.stored())
        self._state = state
        self._known.written(kept)

    def _find(self, hours: range) -> Found:
        start_seconds = hours.start * SECONDS_PER_HOUR - LEAD_SECONDS
        # To the present: what has begun since the last whole hour is to be known of.
        end_seconds = float((hours.stop + 2) * SECONDS_PER_HOUR)
        return Found(
            find_targets(self._client, start_seconds, end_seconds)
            if self._sources.has_ours
            else OurTargets(),
            find_cards(self._client, self._sources.mappings, start_seconds, end_seconds),
        )

    def _parts(self, found: Found, hours: range) -> Iterator[tuple[str, OurHours | list[Samples]]]:
        for told in found.gauges:
            size = self._gauge_sizes.setdefault(told.mapping.name, QuerySize(CARDS_PER_QUERY))
            for series in GaugeReader(self._client, told, size).read(hours.start, hours.stop):
                yield told.mapping.name, series
        for part in OurReader(self._client, found.ours, self._our_size).read(
            hours.start, hours.stop
        ):
            yield SOURCE_RIGHTSLICE, part

    def _count(self, names: Iterable[str]) -> None:
        """Look up how many samples the source holds of each of the recent hours."""
        first_hour = max(self._final_before_hour, self._state.from_hour)
        if first_hour >= self._window.stop:
            return
        for name in sorted(names):
            try:
                series = self._client.steps(
                    f"sum(count_over_time({name}[1h]))",
                    float((first_hour + 1) * SECONDS_PER_HOUR),
                    float(self._window.stop * SECONDS_PER_HOUR),
                    float(SECONDS_PER_HOUR),
                )
            except (PartialError, LimitError, RetryError) as error:
                log.warning("late hours are not looked for: %s", error)
                self._counts[name] = {}
                continue
            self._counts[name] = {
                int(end // SECONDS_PER_HOUR) - 1: value
                for one in series
                for end, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True)
            }
