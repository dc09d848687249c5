"""From any exporter's gauges to hours, as a mapping says, of live pages and of stored series.

One card is one card, whatever its labels say: the same value stands there once for each sharing
pod and each replica, instances share their parent's UUID, and blanks come as huge numbers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rightslice.feeders.gauges.cards import take_cards
from rightslice.feeders.gauges.hours import GaugeMemory
from rightslice.feeders.gauges.labels import Learnt, Teller, Told, read_labels
from rightslice.feeders.gauges.mapping import GaugeMapping
from rightslice.feeders.gauges.readings import Samples, WaitingReadings, numbers_of
from rightslice.feeders.gauges.sightings import (
    CardSightings,
    Floats,
    GaugeSeries,
    on_grid,
    put_together,
)
from rightslice.feeders.gauges.slices import GaugeSlices
from rightslice.feeders.hours.builder import HourTable
from rightslice.feeders.hours.card_hours import close_cut_cards
from rightslice.feeders.hours.slice_hours import slice_hours
from rightslice.feeders.hours.workload_hours import workload_hours
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import CardHour, SliceHour, WorkloadHour

DEFAULT_INTERVAL_SECONDS = 60.0
# With fewer samples than this a usual interval that is known is believed over theirs.
ENOUGH_SAMPLES = 10
# So many sightings are summed at once; more take more memory and no less time.
SIGHTINGS_AT_ONCE = 200_000
# So many readings wait at most to be summed.
WAITING_READINGS = 1_000_000
INFO = -1
NEVER = -np.inf


class GaugeMapper:
    """Takes in samples in the order of time; those not newer than the last are ignored."""

    def __init__(self, mapping: GaugeMapping) -> None:
        self.mapping = mapping
        self.rejected_count = 0
        self.slices = GaugeSlices()
        self._table = HourTable(mapping.name)
        self._learnt = Learnt()
        self._memory = GaugeMemory()
        self._intervals: dict[str, float] = {}
        self._newest: dict[str, dict[Teller, float]] = {}
        self._leaders: dict[str, Teller] = {}
        # Of cards that several read: samples of a step that is not over.
        self._open_steps: dict[str, list[GaugeSeries]] = {}
        self._waiting = WaitingReadings(mapping)
        self._metrics = {
            spelling.upper(): number
            for number, name in (
                *((INFO, name) for name in mapping.info_metrics),
                *((number, metric.name) for number, metric in enumerate(mapping.metrics)),
            )
            for spelling in mapping.spellings(name)
        }

    @property
    def table(self) -> HourTable:
        """The hours so far, everything that was fed included."""
        self.settle()
        return self._table

    def knows(self, metric_name: str) -> bool:
        """Tell whether a metric is one of this exporter's, in any spelling."""
        return metric_name.upper() in self._metrics

    def learn(self, label_sets: Iterable[Mapping[str, str]]) -> None:
        """See, before reading, how each target tells of workloads and who tells of each card."""
        self._learn((read_labels(self.mapping, labels), 0.0) for labels in label_sets)

    def _learn(self, all_told: Iterable[tuple[Told, float]]) -> None:
        # Whether plain labels are the exporter's own shows in the others.
        for told, since_seconds in sorted(all_told, key=lambda one: one[0].is_plain):
            self._learnt.learn(told, since_seconds)

    def learnt(self) -> dict[str, Any]:
        """Give what was learnt, in a shape that JSON can hold."""
        return self._learnt.state()

    def learn_again(self, learnt: Mapping[str, Any]) -> None:
        """Take up what `learnt` gave."""
        self._learnt.restore(learnt)

    def take_series(self, series: Iterable[Samples]) -> None:
        """Take in all series of some cards for a span. Spans come in time's order, may overlap."""
        valid: dict[str, list[GaugeSeries]] = defaultdict(list)
        fullest: dict[str, Floats] = {}
        newest: list[tuple[Told, float]] = []
        for one in series:
            metric = self._metrics.get(one.labels.get("__name__", "").upper())
            if metric is None or not len(one.stamps):
                continue
            told = read_labels(self.mapping, one.labels)
            if metric == INFO:
                self._learn([(told, float(one.stamps[0]))])
                continue
            if not told.uuid:
                self.rejected_count += len(one.stamps)
                continue
            if len(one.stamps) > len(fullest.get(told.uuid, ())):
                fullest[told.uuid] = one.stamps
            newest.append((told, float(one.stamps[-1])))
            kept = self._valid(told, metric, one)
            if kept is not None:
                valid[told.uuid].append(kept)
        for uuid, stamps in fullest.items():
            self._see_interval(uuid, stamps)
        for told, seconds in newest:
            self._note_newest(told, seconds)
        self._take(valid, own_timestamps=self.mapping.own_timestamps)

    def _see_interval(self, uuid: str, stamps: Floats) -> None:
        if len(stamps) >= ENOUGH_SAMPLES or (uuid not in self._intervals and len(stamps) > 1):
            self._intervals[uuid] = float(np.median(np.diff(stamps)))

    def _valid(self, told: Told, number: int, samples: Samples) -> GaugeSeries | None:
        """Give the samples of a series that are new and numbers; None for none."""
        first = int(np.searchsorted(samples.stamps, self._newest_of(told), side="right"))
        stamps, values = samples.stamps[first:], samples.values[first:]
        series = numbers_of(self.mapping, told, number, stamps, values)
        self.rejected_count += len(values) - len(series.values)
        return series if len(series.values) else None

    def feed(
        self,
        now_seconds: float,
        readings: Iterable[Reading],
        interval_of: Callable[[str], float],
        target: str = "",
    ) -> None:
        """Take in one scrape of a page; it is summed with others at the next `settle`.

        `interval_of` gives the usual seconds between two of a card's scrapes, `target` names who
        was scraped.
        """
        seen: dict[tuple[str, Teller], Told] = {}
        for reading in readings:
            number = self._metrics.get(reading.name.upper())
            if number is None:
                continue
            told = self._waiting.told_of(reading.labels, target)
            if number == INFO:
                self._learn([(told, now_seconds)])
            elif not told.uuid or not self._waiting.is_number(number, reading.value):
                self.rejected_count += 1
            elif now_seconds > self._newest_of(told):
                seen[told.uuid, told.teller] = told
                self._waiting.add(told, number, now_seconds, reading)
        for (uuid, _), told in seen.items():
            self._note_newest(told, now_seconds)
            self._intervals[uuid] = interval_of(uuid)
        if self._waiting.count >= WAITING_READINGS:
            self.settle()

    def _newest_of(self, told: Told) -> float:
        known = self._newest.get(told.uuid, {}).get(told.teller)
        return self._memory.last_seconds.get(told.uuid, NEVER) if known is None else known

    def _note_newest(self, told: Told, seconds: float) -> None:
        newest = self._newest.setdefault(told.uuid, {})
        newest[told.teller] = max(newest.get(told.teller, NEVER), seconds)

    def settle(self) -> None:
        """Sum what was fed."""
        if self._waiting.count:
            self._take(self._waiting.take(), own_timestamps=False)

    def _take(self, by_card: Mapping[str, Sequence[GaugeSeries]], *, own_timestamps: bool) -> None:
        self._learn(
            (one.told, float(one.stamps[0])) for series in by_card.values() for one in series
        )
        cards: list[CardSightings] = []
        count = 0
        for uuid, series in sorted(by_card.items()):
            card = self._sightings(uuid, series, own_timestamps)
            if card is None:
                continue
            cards.append(card)
            count += len(card.stamps)
            if count >= SIGHTINGS_AT_ONCE:
                self._fold(cards)
                cards, count = [], 0
        self._fold(cards)

    def _sightings(
        self, uuid: str, series: Sequence[GaugeSeries], own_timestamps: bool
    ) -> CardSightings | None:
        """Put a card's series together; None where nothing is new, or no step is over yet."""
        interval_seconds = self._intervals.get(uuid, DEFAULT_INTERVAL_SECONDS)
        if own_timestamps or self._learnt.is_told_often(uuid):
            step_seconds = max(1.0, float(round(interval_seconds)))
            series = self._over([*self._open_steps.pop(uuid, ()), *series], uuid, step_seconds)
        last_seconds = self._memory.last_seconds.get(uuid, NEVER)
        series = [kept for one in series if (kept := one.after(last_seconds)) is not None]
        if not series:
            return None
        card = put_together(
            uuid,
            series,
            interval_seconds,
            self._learnt.exporting_targets,
            self._leaders.get(uuid, ()),
        )
        self._leaders[uuid] = card.leader
        if last_seconds is not NEVER:
            card.before_seconds = last_seconds
        return card

    def _over(
        self, series: Sequence[GaugeSeries], uuid: str, step_seconds: float
    ) -> list[GaugeSeries]:
        """Give the samples of steps that are over, and keep those of the last one."""
        newest = max(float(one.stamps[-1]) for one in series)
        edge_seconds = float(np.floor(newest / step_seconds) * step_seconds)
        later = [one.after(edge_seconds) for one in series]
        self._open_steps[uuid] = [one for one in later if one is not None]
        until = [one.until(edge_seconds) for one in series]
        return [on_grid(one, step_seconds) for one in until if one is not None]

    def _fold(self, cards: Sequence[CardSightings]) -> None:
        if cards:
            for card in cards:
                self.slices.see(card, self._learnt)
            take_cards(self._table, cards, self.mapping, self._learnt, self._memory)
            self.slices.take(cards, self.mapping, self._learnt)

    def hours(
        self, hours: Iterable[int], until_seconds: float, *, changed_only: bool = False
    ) -> tuple[list[CardHour], list[SliceHour], list[WorkloadHour]]:
        """Give the rows of some hours, those of cards that are cut closed by their instances.

        With `changed_only`, of cards that were told something since they were last written.
        """
        hours, table = list(hours), self.table
        cards = table.card_hours(hours, until_seconds, changed_only=changed_only)
        slices = slice_hours(self.slices.layout, self.slices.table, cards, until_seconds)
        workloads = [
            *table.workload_hours(hours, changed_only=changed_only),
            *workload_hours(self.slices.workloads, cards),
        ]
        return close_cut_cards(cards, slices), slices, workloads

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.table.forget_before(hour)
        self.slices.forget_before(hour)

    def forget_departed(self, now_seconds: float) -> None:
        """Drop what is kept of cards that have left."""
        departed = self.table.forget_departed(now_seconds)
        for uuid in departed:
            self._memory.forget(uuid)
            self._learnt.forget(uuid)
            for kept in (self._intervals, self._newest, self._leaders, self._open_steps):
                kept.pop(uuid, None)
        self.slices.forget_cards(departed)

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self.settle()
        self._memory.clear()
        for kept in (self._newest, self._leaders, self._open_steps):
            kept.clear()
        self._table.start_over(now_seconds)
        self.slices.start_over(now_seconds)

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold."""
        return {
            "table": self.table.state(from_hour),
            "slices": self.slices.state(from_hour),
            "memory": self._memory.state(),
            "labels": self.learnt(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave; what an older version wrote is taken up as far as it goes."""
        self._table.restore(state["table"])
        self.learn_again(state["labels"])
        if "memory" in state:
            self._memory.restore(state["memory"])
            self.slices.restore(state["slices"])
