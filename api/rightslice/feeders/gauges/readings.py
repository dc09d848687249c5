"""Samples of gauges as they come, series by series: stored ones, and those of scraped pages."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import numpy as np

from rightslice.feeders.gauges.labels import INSTANCE, Told, read_labels
from rightslice.feeders.gauges.mapping import GaugeMapping
from rightslice.feeders.gauges.sightings import Floats, GaugeSeries
from rightslice.feeders.readings import Reading

# A fleet's series repeat at each scrape; the labels of this many are remembered.
REMEMBERED_SERIES = 200_000


class Samples(Protocol):
    """One stored series: seconds since the epoch, in the order of time, and values."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def stamps(self) -> Floats: ...

    @property
    def values(self) -> Floats: ...


def numbers_of(
    mapping: GaugeMapping, told: Told, number: int, stamps: Floats, values: Floats
) -> GaugeSeries:
    """Give the samples that are numbers and plausible, in base units."""
    metric = mapping.metrics[number]
    good = (values >= 0) & (values <= metric.highest)  # NaN is neither
    for blank in mapping.blanks:
        if blank <= metric.highest:
            good &= values != blank
    if not good.all():
        stamps, values = stamps[good], values[good]
    scaled = values * float(metric.scale.numerator) / float(metric.scale.denominator)
    return GaugeSeries(told, number, stamps, scaled)


@dataclass(slots=True)
class _Series:
    """Readings of one series that have not been summed yet."""

    told: Told
    metric: int
    stamps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


@dataclass(slots=True)
class WaitingReadings:
    """The readings since they were last taken, in base units.

    A page's parser gives the same series the same labels each time; they are kept here, so that
    no others have the same identity.
    """

    mapping: GaugeMapping
    count: int = 0
    _series: dict[tuple[int, int], _Series] = field(default_factory=dict)
    _told: dict[int, tuple[Mapping[str, str], Told]] = field(default_factory=dict)

    def told_of(self, labels: Mapping[str, str], target: str) -> Told:
        """Read a series' labels, or remember what they say. `target` is who was scraped."""
        known = self._told.get(id(labels))
        if known is not None and known[0] is labels:
            return known[1]
        # A Prometheus names a target by host and port, too.
        instance = urlsplit(target).netloc or target
        told = read_labels(self.mapping, {INSTANCE: instance, **labels} if target else labels)
        self._told[id(labels)] = (labels, told)
        return told

    def is_number(self, metric: int, value: float) -> bool:
        """Tell a value from one that no reading can have."""
        return 0 <= value <= self.mapping.metrics[metric].highest and (
            value not in self.mapping.blanks
        )

    def add(self, told: Told, metric: int, now_seconds: float, reading: Reading) -> None:
        """Keep a reading, whose labels were read by `told_of`."""
        key = (id(reading.labels), metric)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(told, metric)
        scale = self.mapping.metrics[metric].scale
        series.stamps.append(now_seconds)
        series.values.append(reading.value * scale.numerator / scale.denominator)
        self.count += 1

    def take(self) -> dict[str, list[GaugeSeries]]:
        """Hand over everything, by card."""
        by_card: dict[str, list[GaugeSeries]] = defaultdict(list)
        for one in self._series.values():
            by_card[one.told.uuid].append(
                GaugeSeries(one.told, one.metric, np.array(one.stamps), np.array(one.values))
            )
        self._series.clear()
        self.count = 0
        if len(self._told) > REMEMBERED_SERIES:
            self._told.clear()
        return by_card
