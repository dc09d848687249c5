"""Turns readings into series: counters, histograms, minute means, trailing peaks, gauges."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rightslice.contract.sampling import SpanMean
from rightslice.contract.spec import Kind, MetricSpec, Sample
from rightslice.exporter.lives import Labels, Lives, subjects_of

Key = tuple[MetricSpec, Labels]


@dataclass(slots=True)
class HistogramState:
    """Bin counts of one series (not cumulative; one bin above the last edge) and its sum."""

    bins: list[int]
    value_sum: float = 0.0

    def observe(self, edges: tuple[float, ...], value: float) -> None:
        self.bins[bisect_left(edges, value)] += 1
        self.value_sum += value


@dataclass(slots=True)
class PeakState:
    """Samples of a trailing window that may still be its maximum, in falling order.

    Seconds are of a clock that never goes back nor jumps: a node's clock that is set forward must
    not take the peaks of the last minutes along.
    """

    samples: deque[tuple[float, float]] = field(default_factory=deque)
    subject: str = ""

    def add(self, now_seconds: float, value: float, subject: str = "") -> None:
        if subject != self.subject:
            self.samples.clear()
            self.subject = subject
        while self.samples and self.samples[-1][1] <= value:
            self.samples.pop()
        self.samples.append((now_seconds, value))

    def peak(self, now_seconds: float, window_seconds: float) -> float | None:
        """Give the window's maximum; None when it holds no sample."""
        while self.samples and self.samples[0][0] < now_seconds - window_seconds:
            self.samples.popleft()
        return self.samples[0][1] if self.samples else None


@dataclass(frozen=True, slots=True)
class Series:
    """One series ready to render: `value` for gauges and counters, `histogram` for histograms."""

    spec: MetricSpec
    labels: Labels
    value: float = 0.0
    histogram: HistogramState | None = None


class Aggregate:
    """All series of this process. Not thread-safe: its owner guards it."""

    def __init__(self) -> None:
        self._gauges: dict[str, dict[Key, float]] = {}
        self._counters: dict[Key, float] = {}
        self._histograms: dict[Key, HistogramState] = {}
        self._means: dict[Key, SpanMean] = {}
        self._peaks: dict[Key, PeakState] = {}
        # Of each source's running total the value last seen, and what it was a total of.
        self._totals: dict[Key, tuple[str, float]] = {}
        self._lives = Lives()

    def apply(
        self,
        owner: str,
        samples: Iterable[Sample],
        wall_seconds: float,
        monotonic_seconds: float,
        *,
        keep: bool = False,
    ) -> None:
        """Take in one reading of `owner`; its gauges of before are gone, its counters stay.

        `keep` leaves the gauges as they are: the reading is none, only its counters count. Minutes
        are those of the wall clock.
        """
        gauges: dict[Key, float] = {}
        for sample in samples:
            key = (sample.spec, sample.labels)
            if sample.is_register:
                gauges[key] = sample.value
            elif sample.spec.kind is Kind.COUNTER:
                if sample.is_total:
                    growth = self._growth(key, sample)
                else:
                    # We count by ourselves: what a total grows meanwhile would count twice.
                    self._totals.pop(key, None)
                    growth = sample.value
                self._counters[key] = self._counters.get(key, 0.0) + growth
            elif sample.spec.kind is Kind.HISTOGRAM:
                self._observe(key, sample, wall_seconds)
            elif sample.spec.peak_window_seconds:
                peaks = self._peaks.setdefault(key, PeakState())
                peaks.add(monotonic_seconds, sample.value, sample.subject)
            else:
                gauges[key] = sample.value
        if not keep:
            self._gauges[owner] = gauges

    def _growth(self, key: Key, sample: Sample) -> float:
        """Tell how much a source's running total grew; what it held when first seen is not ours."""
        subject, before = self._totals.get(key, ("", None))
        self._totals[key] = (sample.subject, sample.value)
        if before is None or subject != sample.subject:
            return 0.0
        return sample.value - before if sample.value >= before else sample.value

    def tell_subjects(
        self, owner: str, samples: Iterable[Sample], monotonic_seconds: float
    ) -> None:
        """Take in which subjects a whole reading tells; what it tells no more has ended."""
        subjects = subjects_of((each.spec.subject_label_count, each.labels) for each in samples)
        ended = self._lives.told(owner, subjects, monotonic_seconds)
        if ended:
            _drop_subjects(self._peaks, ended)
            for gauges in self._gauges.values():
                _drop_subjects(gauges, ended)

    def scraped(self) -> None:
        """Count a page that was read to its end."""
        self._lives.scraped()

    def forget_ended(self, monotonic_seconds: float) -> None:
        """Drop what is left of subjects that ended long enough ago."""
        forgotten = self._lives.take_forgotten(monotonic_seconds)
        if forgotten:
            for rows in self._tables():
                _drop_subjects(rows, forgotten)

    def drop_owner(self, owner: str) -> None:
        """Drop an owner's gauges: nobody reads them any more."""
        self._gauges.pop(owner, None)

    def end_owner(self, owner: str, monotonic_seconds: float) -> None:
        """Drop an owner's gauges, and end the subjects that it told: it is gone for good."""
        self.drop_owner(owner)
        self.tell_subjects(owner, (), monotonic_seconds)

    def drop_label(self, value: str) -> None:
        """Drop every series that bears this label value, counters included: its thing is gone."""
        self._lives.drop_label(value)
        for rows in self._tables():
            for key in [key for key in rows if value in key[1]]:
                del rows[key]

    def _tables(self) -> tuple[dict[Key, Any], ...]:
        """Give every table that is kept by series."""
        return (
            self._counters,
            self._histograms,
            self._means,
            self._peaks,
            self._totals,
            *self._gauges.values(),
        )

    def _observe(self, key: Key, sample: Sample, wall_seconds: float) -> None:
        spec = sample.spec
        histogram = self._histograms.get(key)
        if histogram is None:  # the series exists, at zero, from the first reading on
            histogram = self._histograms[key] = HistogramState([0] * (len(spec.buckets) + 1))
        if sample.covered_seconds <= 0:
            return
        if not spec.mean_seconds:
            histogram.observe(spec.buckets, sample.value)
            return
        mean = self._means.get(key)
        if mean is None:
            mean = self._means[key] = SpanMean(spec.mean_seconds)
        finished = mean.add(wall_seconds, sample.value, sample.covered_seconds)
        if finished is not None:
            histogram.observe(spec.buckets, finished.mean)

    def series(self, monotonic_seconds: float) -> Iterator[Series]:
        """Give every series, ordered by metric and labels."""
        rows = [
            Series(spec, labels, value)
            for gauges in self._gauges.values()
            for (spec, labels), value in gauges.items()
        ]
        rows += [Series(spec, labels, value) for (spec, labels), value in self._counters.items()]
        rows += [
            Series(spec, labels, histogram=state)
            for (spec, labels), state in self._histograms.items()
        ]
        for (spec, labels), peaks in self._peaks.items():
            peak = peaks.peak(monotonic_seconds, spec.peak_window_seconds)
            if peak is not None:
                rows.append(Series(spec, labels, peak))
        yield from sorted(rows, key=lambda row: (row.spec.name, row.labels))


def _drop_subjects(rows: dict[Key, Any], subjects: frozenset[Labels]) -> None:
    """Drop the series of subjects from one table."""
    for key in [
        (spec, labels)
        for spec, labels in rows
        if spec.subject_label_count and labels[: spec.subject_label_count] in subjects
    ]:
        del rows[key]
