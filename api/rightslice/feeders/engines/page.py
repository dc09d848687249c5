"""What one page tells of the serving engines on it, put together per workload."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rightslice.feeders.counters import Growth, Scrape
from rightslice.feeders.engines.mapping import (
    ADDED,
    GROWING,
    HIGHEST,
    HIGHEST_RATIO,
    HISTOGRAMS,
    RATIOS,
    EngineMapping,
    EngineMetric,
    Fact,
)
from rightslice.feeders.engines.places import Place
from rightslice.feeders.gauges.mapping import first_label
from rightslice.feeders.readings import Reading, is_blank

# Nothing tells how fast an engine may answer: what fits into any time is believed.
SECONDS_PER_REQUEST = 0.0
EDGE = "le"

Labels = tuple[tuple[str, str], ...]
V = TypeVar("V")
PlaceOf = Callable[[Mapping[str, str]], Place | None]


@dataclass(slots=True)
class Told:
    """What an engine of one workload told on a page: values, and growth by model and edge.

    The first metric of a fact that was told is the one at the lowest rank.
    """

    values: dict[tuple[Fact, int], dict[Labels, float]] = field(default_factory=dict)
    growths: dict[tuple[Fact, int], dict[Labels, tuple[str, str, Growth]]] = field(
        default_factory=dict
    )
    models: set[str] = field(default_factory=set)

    def value(self, fact: Fact) -> float | None:
        """Give a value: added over an engine's parts, or the highest of them."""
        parts = _first(self.values, fact)
        if not parts:
            return None
        return sum(parts.values()) if fact in ADDED else max(parts.values())

    def grown(self, fact: Fact) -> Iterable[tuple[str, str, Growth]]:
        """Give how much each part of a counter or histogram grew: model, edge, growth."""
        return (_first(self.growths, fact) or {}).values()


def _first(told: Mapping[tuple[Fact, int], V], fact: Fact) -> V | None:
    ranks = [rank for known, rank in told if known is fact]
    return told[fact, min(ranks)] if ranks else None


@dataclass(slots=True)
class EnginePage:
    """All engines on one page, by workload and mapping."""

    told: dict[tuple[Place, str], Told] = field(default_factory=dict)
    rejected_count: int = 0
    # The engines of series that name no workload.
    unattached: set[str] = field(default_factory=set)
    # Labels beside a mapping's own of which every value tells the same.
    copies: frozenset[str] = frozenset()

    def take(
        self,
        mappings: Mapping[str, Sequence[tuple[EngineMapping, int, EngineMetric]]],
        readings: Iterable[Reading],
        place_of: PlaceOf,
        scrape: Scrape,
    ) -> None:
        """Take in the readings that `mappings`, by the names of their series, know."""
        for reading in readings:
            for mapping, rank, metric in mappings.get(reading.name, ()):
                if not metric.counts(reading.labels):
                    continue
                value = self._value(metric, reading)
                if value is None:
                    continue
                # What nobody's engine counted is not to be counted later, when it is somebody's.
                growth = _grown(mapping, metric, reading, value, scrape)
                place = place_of(reading.labels)
                if place is None:
                    self.unattached.add(mapping.name)
                    continue
                told = self.told.setdefault((place, mapping.name), Told())
                self._take(told, mapping, rank, metric, reading, value, growth)

    def _value(self, metric: EngineMetric, reading: Reading) -> float | None:
        """Read a value in base units; None for none, and for what is no plausible one."""
        value = reading.value
        if metric.label:
            try:
                value = float(reading.labels.get(metric.label, ""))
            except ValueError:  # "None", before it is known
                return None
        if is_blank(value):
            return None
        # The edges of a histogram have a unit; what it counts has none.
        value *= 1 if metric.fact in HISTOGRAMS else metric.scale
        if not 0 <= value <= (HIGHEST_RATIO if metric.fact in RATIOS else HIGHEST):
            self.rejected_count += 1
            return None
        return min(value, 1.0) if metric.fact in RATIOS else value

    def _take(
        self,
        told: Told,
        mapping: EngineMapping,
        rank: int,
        metric: EngineMetric,
        reading: Reading,
        value: float,
        growth: Growth | None,
    ) -> None:
        labels, copies = reading.labels, mapping.copies | self.copies
        model = first_label(labels, mapping.model)
        if model:
            told.models.add(model)
        part = tuple(sorted(item for item in labels.items() if item[0] not in copies))
        if metric.fact not in GROWING:
            values = told.values.setdefault((metric.fact, rank), {})
            values[part] = max(value, values.get(part, value))
            return
        edge = _edge(labels, metric) if metric.fact in HISTOGRAMS else ""
        if growth is None or edge is None:
            return
        growths = told.growths.setdefault((metric.fact, rank), {})
        known = growths.get(part)
        if known is None or growth.amount > known[2].amount:
            growths[part] = (model, edge, growth)


def _grown(
    mapping: EngineMapping, metric: EngineMetric, reading: Reading, value: float, scrape: Scrape
) -> Growth | None:
    if metric.fact not in GROWING:
        return None
    labels = (text for item in sorted(reading.labels.items()) for text in item)
    key = (mapping.name, str(metric.fact), reading.name, *labels)
    return scrape.grow(key, value, SECONDS_PER_REQUEST)


def _edge(labels: Mapping[str, str], metric: EngineMetric) -> str | None:
    """Give a bucket's edge in seconds; None where it has none."""
    try:
        return repr(float(labels.get(EDGE, "")) * metric.scale)
    except ValueError:
        return None
