"""Asks a Prometheus for what serving engines told, hour by hour."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rightslice.contract.workload_metrics import NODE_WORKLOAD_LABELS
from rightslice.feeders.engines.mapper import EngineMapper
from rightslice.feeders.engines.mapping import (
    ADDED,
    GROWING,
    EngineMapping,
    EngineMetric,
    shipped_engine_mappings,
)
from rightslice.feeders.engines.places import EnginePlaces, Place
from rightslice.feeders.gauges.labels import INSTANCE
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.selectors import any_of, last_over, quoted
from rightslice.feeders.prometheus.targets import REPLICA_LABELS
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import EngineHour

log = logging.getLogger(__name__)

# A page that several jobs or Prometheus replicas scrape is one page.
COPIES = frozenset(("job", "service", "endpoint", "prometheus", *REPLICA_LABELS))
# A reset between the last reading before an hour and the first in it is the hour's.
RESET_WINDOW_SECONDS = SECONDS_PER_HOUR + 600
TARGETS_PER_QUERY = 50

Labels = frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Series:
    """Which series of engines there are: of each metric, and whose."""

    mappings: Sequence[EngineMapping]
    places: EnginePlaces
    found: set[str] = field(default_factory=set)
    instances: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Instances of which several series of one metric are added up, reading by reading.
    added: set[str] = field(default_factory=set)
    unattached: set[str] = field(default_factory=set)

    def metrics(self) -> Iterator[EngineMetric]:
        """Give the metrics that are there."""
        for mapping in self.mappings:
            for metric in mapping.metrics:
                if metric.series_name in self.found:
                    yield metric

    def place(self, labels: Mapping[str, str]) -> Place | None:
        return self.places.find(labels, {}, labels.get(INSTANCE, ""))

    def look(self, label_sets: Iterable[Mapping[str, str]]) -> None:
        """Sort series by whose they are."""
        by_name: dict[str, list[tuple[EngineMapping, EngineMetric]]] = defaultdict(list)
        for known in self.mappings:
            for one in known.metrics:
                by_name[one.series_name].append((known, one))
        parts: dict[tuple[Place, EngineMetric], set[Labels]] = defaultdict(set)
        for labels in label_sets:
            name, place = labels.get("__name__", ""), self.place(labels)
            self.found.add(name)
            if place is None:
                self.unattached.add(labels.get(INSTANCE, ""))
                continue
            self.instances[place].add(labels.get(INSTANCE, ""))
            for mapping, metric in by_name[name]:
                if metric.fact in ADDED and not metric.label and metric.counts(labels):
                    copies = COPIES | mapping.copies
                    own = frozenset(one for one in labels.items() if one[0] not in copies)
                    parts[place, metric].add(own)
        for (place, _), several in parts.items():
            if len(several) > 1:
                self.added |= self.instances[place]


@dataclass(slots=True)
class _Pages:
    """What was told of each workload, by time."""

    series: _Series
    told: dict[Place, dict[float, list[Reading]]] = field(default_factory=dict)

    def add(self, name: str, found: Iterable[Samples]) -> None:
        """Take in series of one metric, whose name functions over a range drop."""
        for one in found:
            place = self.series.place(one.labels)
            if place is None:
                continue
            told = self.told.setdefault(place, defaultdict(list))
            for now_seconds, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
                told[now_seconds].append(Reading(name, one.labels, value))

    def drop(self, name: str) -> None:
        """Take back a metric of the workloads of which it is to be read otherwise."""
        for place, told in self.told.items():
            if self.series.instances[place] <= self.series.added:
                for now_seconds, readings in told.items():
                    told[now_seconds] = [one for one in readings if one.name != name]


def read_engines(
    client: PrometheusClient,
    start_hour: int,
    end_hour: int,
    places: EnginePlaces,
    mappings: Sequence[EngineMapping] | None = None,
) -> list[EngineHour]:
    """Give the engines' hours of [start, end), which count from the Unix epoch.

    `places` tells where workloads are, for series that do not say it in their labels. Raises
    SourceError.
    """
    mappings = shipped_engine_mappings() if mappings is None else mappings
    span = (float(start_hour * SECONDS_PER_HOUR), float(end_hour * SECONDS_PER_HOUR))
    names = "|".join(sorted({name for one in mappings for name in one.series_names}))
    series = _Series(mappings, places)
    series.look(client.label_sets(f'{{__name__=~"{names}"}}', *span))
    if series.unattached:
        log.warning(
            "%d engines belong to no workload that is known, such as %s; give their targets the "
            "labels namespace and pod",
            len(series.unattached),
            min(series.unattached),
        )
    if not series.instances:
        return []
    mapper = EngineMapper(mappings, places, copies=COPIES)
    pages = _pages(client, series, span)
    for place in sorted(series.instances):
        told = pages.told.get(place, {})
        labels = dict(zip(NODE_WORKLOAD_LABELS, place, strict=True))
        # An hour without a reading is told too: what is there after it was not there before.
        edges = {float(hour * SECONDS_PER_HOUR) for hour in range(start_hour, end_hour + 1)}
        for now_seconds in sorted(edges | told.keys()):
            mapper.feed("/".join(place), now_seconds, told.get(now_seconds, []), labels)
    return mapper.rows(range(start_hour, end_hour))


def _pages(client: PrometheusClient, series: _Series, span: tuple[float, float]) -> _Pages:
    """Put together what was told around the edges of hours, and in between where it matters."""
    pages = _Pages(series)
    metrics = list(series.metrics())
    growing = sorted({one.series_name for one in metrics if one.fact in GROWING})
    start_seconds, end_seconds = span
    first_end_seconds = start_seconds + SECONDS_PER_HOUR
    for name in growing:
        query = last_over(name_selector(name), SECONDS_PER_HOUR)
        pages.add(name, client.steps(query, start_seconds, end_seconds, SECONDS_PER_HOUR))
    gauges = {(one.name, one.where, bool(one.label)) for one in metrics if one.fact not in GROWING}
    for name, where, is_label in sorted(gauges):
        selector = name_selector(name, where)
        query = _last_configured(selector) if is_label else f"max_over_time({selector}[1h])"
        pages.add(name, client.steps(query, first_end_seconds, end_seconds, SECONDS_PER_HOUR))
    for name, hour, instances in _restarted(client, series, growing, span):
        for selector in _of_instances(name, instances):
            end = float((hour + 1) * SECONDS_PER_HOUR)
            # The edges themselves are told already.
            pages.add(name, client.raw(selector, end - SECONDS_PER_HOUR, end - 0.001))
    _replace_sums(client, series, metrics, span, pages)
    return pages


def _last_configured(selector: str) -> str:
    """Ask for what labels tell at an hour's end, or told last of what ended before.

    Of a configuration that changed in the hour there are two series; the last one counts.
    """
    return f"{selector} or (last_over_time({selector}[1h]) unless on ({INSTANCE}) {selector})"


def name_selector(name: str, where: Iterable[tuple[str, str]] = ()) -> str:
    """Select a metric by its name, whatever signs are in it."""
    matchers = ", ".join([f"__name__={quoted(name)}", *(f"{k}={quoted(v)}" for k, v in where)])
    return f"{{{matchers}}}"


def _of_instances(name: str, instances: Iterable[str]) -> Iterator[str]:
    ordered = sorted(instances)
    for start in range(0, len(ordered), TARGETS_PER_QUERY):
        matcher = any_of(ordered[start : start + TARGETS_PER_QUERY])
        yield f"{{__name__={quoted(name)}, {INSTANCE}=~{matcher}}}"


def _restarted(
    client: PrometheusClient, series: _Series, growing: Sequence[str], span: tuple[float, float]
) -> Iterator[tuple[str, int, set[str]]]:
    """Find the hours in which an engine was started anew: the edges do not tell all of them."""
    hours: dict[int, set[str]] = defaultdict(set)
    start_seconds, end_seconds = span[0] + SECONDS_PER_HOUR, span[1]
    for name in growing:
        query = f"resets({name_selector(name)}[{RESET_WINDOW_SECONDS}s]) > 0"
        for one in client.steps(query, start_seconds, end_seconds, SECONDS_PER_HOUR):
            place = series.place(one.labels)
            if place is not None:
                for seconds in one.stamps.tolist():
                    hours[int(seconds // SECONDS_PER_HOUR) - 1] |= series.instances[place]
    for hour, instances in sorted(hours.items()):
        for name in growing:
            yield name, hour, instances


def _replace_sums(
    client: PrometheusClient,
    series: _Series,
    metrics: Iterable[EngineMetric],
    span: tuple[float, float],
    pages: _Pages,
) -> None:
    """Read what is added up of several series as it was: their highest were at different times."""
    if not series.added:
        return
    for name in sorted({one.name for one in metrics if one.fact in ADDED and not one.label}):
        pages.drop(name)
        for selector in _of_instances(name, series.added):
            pages.add(name, client.raw(selector, *span))
