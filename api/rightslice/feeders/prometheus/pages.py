"""Puts series back together into the pages that they were scraped from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from sys import intern

import numpy as np
from numpy.typing import NDArray

from rightslice.contract.workload_metrics import WORKLOAD_INFO
from rightslice.feeders.gauges.sightings import Floats
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.ours.mapper import OF_WORKLOADS
from rightslice.feeders.ours.metrics import COUNTER_NAMES, RESET_NAME
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.rhythm import Rhythm
from rightslice.feeders.prometheus.selectors import TargetKey, target_key
from rightslice.feeders.prometheus.targets import OurTarget, own_labels
from rightslice.feeders.readings import Reading

COUNTERS = frozenset(COUNTER_NAMES)
NOTHING = np.zeros(0, dtype=np.bool_)

# Readings of each stream, by an edge or by the time of a page.
Pages = dict[TargetKey, dict[float, list[Reading]]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """A page as it stood at a time, or, where it is not whole, some metrics of it."""

    target: OurTarget
    now_seconds: float
    readings: Sequence[Reading]
    is_whole: bool


class OurPages:
    """What was asked of some streams in some hours, as pages."""

    def __init__(self, label_names: Sequence[str], rhythms: Iterable[Rhythm], hours: range) -> None:
        self._label_names = label_names
        self._keys = {rhythm.key for rhythm in rhythms}
        self._hours = hours
        self._edges: Pages = _no_pages()
        self._after: Pages = _no_pages()
        self._raw: Pages = _no_pages()
        self._fallen: dict[TargetKey, set[int]] = defaultdict(set)
        # Where the last series' samples went: series of one target share their stamps.
        self._stamps: Floats = np.empty(0)
        self._seconds: float | None = None
        self._places: list[float] = []

    def take_edges(self, series: Iterable[Samples]) -> None:
        """Take in the last values before edges."""
        for key, name, one in self._own(series):
            restarted = _restarted(name, one.values)
            if restarted.any():
                ends = one.stamps[1:][restarted] // SECONDS_PER_HOUR
                self._fallen[key].update(int(end) - 1 for end in ends)
            self._put(self._edges[key], name, one, SECONDS_PER_HOUR)

    def take_after(self, series: Iterable[Samples]) -> None:
        """Take in the first values after edges."""
        for key, name, one in self._own(series):
            self._put(self._after[key], name, one, SECONDS_PER_HOUR)

    def take_raw(self, keys: Iterable[TargetKey], series: Iterable[Samples]) -> None:
        """Take in all samples of a time; pages of it that are known are replaced."""
        pages, wanted = _no_pages(), set(keys)
        for key, name, one in self._own(series):
            if key in wanted:
                self._put(pages[key], name, one, None)
        for key, found in pages.items():
            self._raw[key].update(found)

    def fallen(self, key: TargetKey) -> set[int]:
        """Give the hours in which a counter fell or the process was started anew."""
        return self._fallen[key]

    def scrapes(self, rhythm: Rhythm, target: OurTarget) -> Iterator[Scrape]:
        """Give a stream's pages; where samples were read, they stand for the edges too."""
        for seconds, readings in self._raw[rhythm.key].items():
            yield Scrape(target, seconds, readings, is_whole=True)
        edges, after = self._edges[rhythm.key], self._after[rhythm.key]
        both_ends = (self._hours.start, self._hours.stop)
        for edge in range(self._hours.start, self._hours.stop + 1):
            hour = max(edge - 1, self._hours.start)
            if hour not in rhythm.uneven_hours and edge in rhythm.before and edge in edges:
                yield Scrape(target, rhythm.before[edge], edges[edge], is_whole=True)
            if rhythm.uneven_hours.isdisjoint((edge - 1, edge)) and rhythm.is_told(edge):
                readings = after.get(edge, [])
                yield Scrape(
                    target,
                    rhythm.after[edge],
                    _living(readings, edges.get(edge, ())),
                    is_whole=edge in both_ends,
                )

    def _own(self, series: Iterable[Samples]) -> Iterator[tuple[TargetKey, str, Samples]]:
        """Give the series of the chosen streams, their labels as the exporter wrote them."""
        for one in series:
            key = target_key(one.labels, self._label_names)
            if key in self._keys:
                name = intern(one.labels.get("__name__", ""))
                yield key, name, Samples(own_labels(one.labels), one.stamps, one.values)

    def _put(
        self, pages: dict[float, list[Reading]], name: str, one: Samples, seconds: float | None
    ) -> None:
        if one.stamps is not self._stamps or seconds != self._seconds:
            stamps = one.stamps if seconds is None else one.stamps // seconds
            self._stamps, self._seconds, self._places = one.stamps, seconds, stamps.tolist()
        told = map(Reading._make, zip(repeat(name), repeat(one.labels), one.values.tolist()))
        for place, reading in zip(self._places, told, strict=True):
            pages[place].append(reading)


def _restarted(name: str, values: Floats) -> NDArray[np.bool_]:
    """Tell before which values but the first a counter fell or a process was started anew."""
    if name in COUNTERS:
        return values[1:] < values[:-1]
    return np.diff(values) != 0 if name == RESET_NAME else NOTHING


def _no_pages() -> Pages:
    return defaultdict(lambda: defaultdict(list))


def _living(after: Sequence[Reading], before: Iterable[Reading]) -> Sequence[Reading]:
    """Leave out what stands still of workloads that have ended: their counters stay for a while.

    Where a page names workloads, it is known which of them are there.
    """
    if any(reading.name == WORKLOAD_INFO.name for reading in after):
        return after
    known = {_series(reading): reading.value for reading in before if reading.name in OF_WORKLOADS}
    return [
        reading
        for reading in after
        if reading.name not in OF_WORKLOADS or known.get(_series(reading)) != reading.value
    ]


def _series(reading: Reading) -> tuple[str, frozenset[tuple[str, str]]]:
    return reading.name, frozenset(reading.labels.items())
