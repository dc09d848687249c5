"""Reads our exporters' metrics of some hours out of a Prometheus: counters at the hours' edges.

Each hour takes a value of each series at its edges, and of the few that money rests on the value
after them too, so that the interval across the edge is split by time. Only hours that hold a
restart, a gap, or what came and went are read sample by sample.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rightslice.contract.metrics import (
    BUILD_INFO,
    GPU_INFO,
    MIG_INSTANCE_INFO,
    VGPU_INSTANCE_INFO,
)
from rightslice.contract.workload_metrics import WORKLOAD_ALLOCATED_SECONDS_TOTAL
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.ours.metrics import (
    COUNTER_NAMES,
    GAUGE_NAMES,
    PEAK_NAMES,
    RESET_NAME,
    SECONDS_NAMES,
)
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pages import OurPages, Scrape
from rightslice.feeders.prometheus.parts import QuerySize, ask_in_parts
from rightslice.feeders.prometheus.rhythm import Rhythm, rhythms, take_after
from rightslice.feeders.prometheus.selectors import (
    METRIC_LABEL,
    TargetKey,
    highest_of_hours,
    last_over,
    of_names,
    target_key,
    target_matchers,
)
from rightslice.feeders.prometheus.targets import OurTarget, OurTargets, own_labels
from rightslice.feeders.readings import Reading

# Of six nodes of eight cards a day's edges are some 150,000 samples; answers tell it better. While
# these are mapped, the next are fetched.
TARGETS_PER_QUERY = 6
SAMPLES_PER_QUERY = 150_000

STEP_SECONDS = float(SECONDS_PER_HOUR)

# Writes a query for the series that some matchers choose.
Query = Callable[[str], str]
AFTER_NAMES = (*SECONDS_NAMES, *GAUGE_NAMES, RESET_NAME)
EDGE_NAMES = (*COUNTER_NAMES, *GAUGE_NAMES, RESET_NAME)
SAMPLE_NAMES = (*EDGE_NAMES, *PEAK_NAMES)
# What a card is, and how it is cut: an hour in which one of these comes or goes is uneven.
LAYOUT_NAMES = (GPU_INFO.name, MIG_INSTANCE_INFO.name, VGPU_INSTANCE_INFO.name)


def our_query_size() -> QuerySize:
    return QuerySize(TARGETS_PER_QUERY, SAMPLES_PER_QUERY)


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest reading of an hour that a target told."""

    target: OurTarget
    reading: Reading
    hour: int


@dataclass(frozen=True, slots=True)
class OurHours:
    """What targets that belong together tell of some hours, in the order of time."""

    scrapes: Sequence[Scrape]
    peaks: Sequence[Peak]


@dataclass(slots=True)
class OurReader:
    """Reads our targets of one Prometheus, several in a query."""

    client: PrometheusClient
    targets: OurTargets
    size: QuerySize = field(default_factory=our_query_size)

    def read(self, begin_hour: int, until_hour: int) -> Iterator[OurHours]:
        """Give the readings of [begin, until), group by group. Raises SourceError."""
        for groups in self.size.batches(self.targets.groups):
            targets = [target for group in groups for target in group]
            if targets:
                yield _Batch(self, targets, range(begin_hour, until_hour)).read()


class _Batch:
    """Some targets in some hours."""

    def __init__(self, reader: OurReader, targets: Sequence[OurTarget], hours: range) -> None:
        self._client = reader.client
        self._size = reader.size
        self._label_names = reader.targets.label_names
        self._hours = hours
        self._targets = {key: target for target in targets for key in target.streams}
        self._first_seconds = float(hours.start * SECONDS_PER_HOUR)
        self._last_seconds = float(hours.stop * SECONDS_PER_HOUR)

    def read(self) -> OurHours:
        found = self._rhythms()
        if not found:
            return OurHours((), ())
        keys = [rhythm.key for rhythm in found]
        for window_seconds, chosen in _by_window(found).items():
            stamps = self._steps(
                chosen, lambda m: f"timestamp({BUILD_INFO.name}{{{m}}})", window_seconds
            )
            for rhythm in chosen:
                take_after(rhythm, self._label_names, stamps)
        pages = OurPages(self._label_names, found, self._hours)
        edges = self._ask(keys, partial(_last_of, EDGE_NAMES, STEP_SECONDS))
        self._size.saw(len(keys), sum(len(one.stamps) for one in edges))
        pages.take_edges(edges)
        for rhythm in found:
            rhythm.note_gaps(self._hours)
        self._note_changes(keys, found, pages)
        for window_seconds, chosen in _by_window(found).items():
            self._read_after(pages, chosen, window_seconds)
        self._read_uneven(pages, found)
        return OurHours(
            sorted(
                (
                    scrape
                    for rhythm in found
                    for scrape in pages.scrapes(rhythm, self._targets[rhythm.key])
                ),
                key=lambda one: (one.now_seconds, one.target.name),
            ),
            sorted(self._peaks(found), key=lambda one: one.hour),
        )

    def _rhythms(self) -> list[Rhythm]:
        """Look up when the targets were read; of a target's replicas only the fullest is."""
        keys = list(self._targets)
        counts = self._ask(
            keys,
            lambda m: f"count_over_time({BUILD_INFO.name}{{{m}}}[1h])",
            self._first_seconds + STEP_SECONDS,
        )
        before = self._ask(keys, lambda m: f"timestamp({BUILD_INFO.name}{{{m}}})")
        fullest: dict[str, Rhythm] = {}
        for rhythm in rhythms(self._label_names, keys, counts, before):
            name = self._targets[rhythm.key].name
            known = fullest.get(name)
            if known is None or _fullness(rhythm) > _fullness(known):
                fullest[name] = rhythm
        return list(fullest.values())

    def _note_changes(
        self, keys: Sequence[TargetKey], found: Sequence[Rhythm], pages: OurPages
    ) -> None:
        """Find hours in which something came or went, or counted anew."""
        first_end = self._first_seconds + STEP_SECONDS
        # From the reading before the hour on: it may have been the last.
        margin_seconds = max(rhythm.margin_seconds for rhythm in found)
        across = round(STEP_SECONDS + margin_seconds)
        resets = self._ask(
            keys,
            lambda m: f"resets({WORKLOAD_ALLOCATED_SECONDS_TOTAL.name}{{{m}}}[{across}s]) > 0",
            first_end,
        )
        layout = self._ask(
            keys, lambda m: f"count_over_time({of_names(LAYOUT_NAMES, m)}[1h])", first_end
        )
        by_key = {rhythm.key: rhythm for rhythm in found}
        for series, is_count in ((resets, False), (layout, True)):
            for one in series:
                rhythm = by_key.get(target_key(one.labels, self._label_names))
                if rhythm is None:
                    continue
                for end, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
                    hour = int(end // SECONDS_PER_HOUR) - 1
                    if not is_count or value < rhythm.counts.get(hour, 0.0):
                        rhythm.uneven_hours.add(hour)
        for rhythm in by_key.values():
            rhythm.uneven_hours |= pages.fallen(rhythm.key)

    def _read_after(self, pages: OurPages, chosen: Sequence[Rhythm], window_seconds: float) -> None:
        """Read what stood after the edges: all of it at both ends, between them the seconds."""
        first, last = self._first_seconds, self._last_seconds
        parts = [(EDGE_NAMES, first, last, last - first)]
        if len(self._hours) > 1:
            parts.append((AFTER_NAMES, first + STEP_SECONDS, last - STEP_SECONDS, STEP_SECONDS))
        for names, begin, end, step in parts:
            series = self._ask(
                [rhythm.key for rhythm in chosen],
                partial(_last_of, names, window_seconds),
                begin + window_seconds,
                end + window_seconds,
                step,
            )
            pages.take_after(series)

    def _read_uneven(self, pages: OurPages, found: Iterable[Rhythm]) -> None:
        by_hour: dict[int, list[Rhythm]] = defaultdict(list)
        for rhythm in found:
            for hour in rhythm.uneven_hours:
                if hour in self._hours:
                    by_hour[hour].append(rhythm)
        for hour, chosen in sorted(by_hour.items()):
            margin_seconds = max(rhythm.margin_seconds for rhythm in chosen)
            begin_seconds = hour * SECONDS_PER_HOUR - margin_seconds
            end_seconds = (hour + 1) * SECONDS_PER_HOUR + margin_seconds
            # These are all samples, not one for each hour: another size.
            series = ask_in_parts(
                self._samples,
                [rhythm.key for rhythm in chosen],
                begin_seconds,
                end_seconds,
                QuerySize(TARGETS_PER_QUERY),
            )
            pages.take_raw({rhythm.key for rhythm in chosen}, series)

    def _samples(
        self, keys: Sequence[TargetKey], begin_seconds: float, end_seconds: float
    ) -> list[Samples]:
        matchers = target_matchers(self._label_names, keys)
        return self._client.raw(of_names(SAMPLE_NAMES, matchers), begin_seconds, end_seconds)

    def _peaks(self, found: Iterable[Rhythm]) -> Iterator[Peak]:
        """Give the highest readings of hours that were not read sample by sample."""
        by_key = {rhythm.key: rhythm for rhythm in found}
        for one in self._ask(
            list(by_key),
            lambda m: highest_of_hours(PEAK_NAMES, m),
            self._first_seconds + STEP_SECONDS,
        ):
            rhythm = by_key.get(target_key(one.labels, self._label_names))
            if rhythm is None:
                continue
            labels = own_labels(one.labels)
            name = labels.get(METRIC_LABEL, "")
            for end, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
                hour = int(end // SECONDS_PER_HOUR) - 1
                if hour not in rhythm.uneven_hours:
                    yield Peak(self._targets[rhythm.key], Reading(name, labels, value), hour)

    def _steps(
        self, chosen: Sequence[Rhythm], query: Query, window_seconds: float
    ) -> list[Samples]:
        """Evaluate a query a window after each edge."""
        return self._ask(
            [rhythm.key for rhythm in chosen],
            query,
            self._first_seconds + window_seconds,
            self._last_seconds + window_seconds,
        )

    def _ask(
        self,
        keys: Sequence[TargetKey],
        query: Query,
        begin_seconds: float | None = None,
        end_seconds: float | None = None,
        step_seconds: float = STEP_SECONDS,
    ) -> list[Samples]:
        """Evaluate a query at each edge, or from one time to another."""
        names = self._label_names
        return ask_in_parts(
            lambda some, begin, end: self._client.steps(
                query(target_matchers(names, some)), begin, end, step_seconds
            ),
            keys,
            self._first_seconds if begin_seconds is None else begin_seconds,
            self._last_seconds if end_seconds is None else end_seconds,
            self._size,
            step_seconds,
        )


def _last_of(names: Sequence[str], seconds: float, matchers: str) -> str:
    return last_over(of_names(names, matchers), seconds)


def _by_window(found: Iterable[Rhythm]) -> Mapping[float, list[Rhythm]]:
    windows: dict[float, list[Rhythm]] = defaultdict(list)
    for rhythm in found:
        windows[rhythm.window_seconds].append(rhythm)
    return windows


def _fullness(rhythm: Rhythm) -> float:
    return sum(rhythm.counts.values())
