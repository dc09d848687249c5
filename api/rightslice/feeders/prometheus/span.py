"""Turns what a Prometheus tells of some hours into the ledger's rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import GaugeMapping
from rightslice.feeders.hours.builder import HourTable, age_together
from rightslice.feeders.hours.card_names import named_anew
from rightslice.feeders.hours.merge import merge_all
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.ours.attributes import Remembered
from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.ours.tables import OurTables
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.ours import OurHours, Peak
from rightslice.ledger.attributes import PortAttributes, WorkloadAttributes
from rightslice.ledger.batch import Batch
from rightslice.ledger.rows import SOURCE_RIGHTSLICE

# What stood in the hours that are open: of hours read anew that is of no use.
OPEN_HOURS = "hours"
CARD_FACTS = ("first_seen", "last_seen", "names")


@dataclass(slots=True)
class Known:
    """What is known from spans before; `kept` is in a shape that JSON can hold.

    Attributes of workloads and ports are written when they change.
    """

    kept: dict[str, Any] = field(default_factory=dict)
    workloads: Remembered[WorkloadAttributes] = field(default_factory=Remembered)
    ports: Remembered[PortAttributes] = field(default_factory=Remembered)

    def written(self, kept: dict[str, Any]) -> None:
        """Note that a span is in the ledger."""
        self.kept = kept
        self.workloads.changed.clear()
        self.ports.changed.clear()


class SpanMapper:
    """Maps some hours that follow each other; each span starts from its own first edge."""

    def __init__(
        self, hours: range, known: Known, mappings: Iterable[GaugeMapping], *, is_next: bool
    ) -> None:
        """`is_next`: the hours follow those that were mapped last."""
        self._hours = hours
        self._known = known
        self._is_next = is_next
        cards = HourTable(SOURCE_RIGHTSLICE)
        kept = known.kept.get(SOURCE_RIGHTSLICE)
        if kept is not None:
            cards.restore(self._table_state(kept["table"]))
        self.ours = RightsliceMapper(
            OurTables(cards=cards), workloads=known.workloads, ports=known.ports
        )
        self.gauges: dict[str, GaugeMapper] = {}
        for mapping in mappings:
            mapper = self.gauges[mapping.name] = GaugeMapper(mapping)
            kept = known.kept.get(mapping.name)
            if kept is not None:
                mapper.restore({**kept, "table": self._table_state(kept["table"])})

    def _table_state(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is known of cards; none of those that came after these hours."""
        if self._is_next:
            return dict(kept)
        first_seconds = self._hours.start * SECONDS_PER_HOUR
        earlier = {uuid for uuid, seen in kept["first_seen"].items() if seen <= first_seconds}
        return {
            **kept,
            OPEN_HOURS: {},
            **{
                name: {uuid: told for uuid, told in kept[name].items() if uuid in earlier}
                for name in CARD_FACTS
            },
        }

    @property
    def rejected_count(self) -> int:
        return self.ours.rejected_count + sum(
            mapper.rejected_count for mapper in self.gauges.values()
        )

    def take_ours(self, told: OurHours) -> None:
        """Take in targets that belong together."""
        peaks = list(told.peaks)
        for scrape in told.scrapes:
            # A peak belongs to what was there when its hour ended.
            while peaks and (peaks[0].hour + 1) * SECONDS_PER_HOUR < scrape.now_seconds:
                self._take_peak(peaks.pop(0))
            self.ours.feed(
                scrape.target.name,
                scrape.now_seconds,
                scrape.readings,
                cluster=scrape.target.cluster,
                is_whole_page=scrape.is_whole,
            )
        for peak in peaks:
            self._take_peak(peak)
        self.ours.series.forget()

    def _take_peak(self, peak: Peak) -> None:
        self.ours.take_peak(peak.reading, peak.hour, peak.target.node or peak.target.name)

    def learn(self, source: str, label_sets: Iterable[Mapping[str, str]]) -> None:
        """See which series there are, before gauges are taken in."""
        self.gauges[source].learn(label_sets)

    def take_gauges(self, source: str, series: Sequence[Samples]) -> None:
        """Take in all series of some cards."""
        self.gauges[source].take_series(series)

    def batch(self, now_seconds: float = math.inf) -> Batch:
        """Give the rows, once everything was taken in; of the hour that is not over what passed."""
        hours = self._hours
        until_seconds = min(float(hours.stop * SECONDS_PER_HOUR), now_seconds)
        age_together(self._tables)
        for table in self._tables:
            # What lies beyond is told in full by the next span.
            table.forget_from(hours.stop)
            for hour in hours:
                table.carry(hour)
        merged = merge_all(
            self.ours.rows(hours, until_seconds),
            (mapper.hours(hours, until_seconds) for mapper in self.gauges.values()),
        )
        return replace(
            merged,
            attributes=named_anew(self._tables),
            workload_attributes=self.ours.workloads.rows(),
            port_attributes=self.ours.ports.rows(),
        )

    def keep(self) -> dict[str, Any]:
        """Give what the next span goes on from, in a shape that JSON can hold."""
        kept = dict(self._known.kept)
        told = {SOURCE_RIGHTSLICE: {"table": self._kept_table(SOURCE_RIGHTSLICE, self.ours.table)}}
        for name, mapper in self.gauges.items():
            told[name] = {
                "table": self._kept_table(name, mapper.table),
                "labels": mapper.learnt(),
            }
        return kept | told

    def _kept_table(self, source: str, table: HourTable) -> dict[str, Any]:
        table.forget_departed(self._hours.stop * SECONDS_PER_HOUR)
        found = table.state(self._hours.stop)
        known = self._known.kept.get(source)
        if self._is_next or known is None:
            return found
        # Of hours read anew only cards are news that nobody knew of.
        before = known["table"]
        return {
            **before,
            **{name: {**found[name], **before[name]} for name in CARD_FACTS},
        }

    @property
    def _tables(self) -> list[HourTable]:
        return [self.ours.table, *(mapper.table for mapper in self.gauges.values())]
