"""From serving engines' pages to hours: peaks of gauges, differences of counters."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rightslice.feeders.counter_state import restore_targets, targets_state
from rightslice.feeders.counters import Target, open_scrape
from rightslice.feeders.engines.mapping import (
    GROWING,
    HISTOGRAMS,
    EngineMapping,
    EngineMetric,
    Fact,
    shipped_engine_mappings,
)
from rightslice.feeders.engines.page import EnginePage, Told
from rightslice.feeders.engines.places import EnginePlaces
from rightslice.feeders.engines.rows import MODEL, engine_hours
from rightslice.feeders.hours.facts import PART, FactTable
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_of, spread
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import EngineHour

RESET_NAME = "process_start_time_seconds"
# A page that was not read for so long starts anew.
KEPT_SECONDS = 6 * SECONDS_PER_HOUR
PEAKS = (Fact.MEMORY_SHARE, Fact.RUNNING, Fact.WAITING, Fact.REQUEST_P99, Fact.FIRST_TOKEN_P99)


@dataclass(slots=True)
class EngineMapper:
    """Takes in pages of engines, in the order of time per target.

    Series that differ in a label of `copies` are read from the same page by several. `unattached`
    are targets whose engines belong to no workload that is known, and which engines
    these are: they get no hours.
    """

    mappings: Sequence[EngineMapping] = field(default_factory=shipped_engine_mappings)
    places: EnginePlaces = field(default_factory=EnginePlaces)
    copies: frozenset[str] = frozenset()
    table: FactTable = field(default_factory=FactTable)
    targets: dict[str, Target] = field(default_factory=dict)
    unattached: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rejected_count: int = 0
    _by_series: dict[str, list[tuple[EngineMapping, int, EngineMetric]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        for mapping in self.mappings:
            for rank, metric in enumerate(mapping.metrics):
                self._by_series[metric.series_name].append((mapping, rank, metric))

    def knows(self, names: Iterable[str]) -> bool:
        """Tell whether a page of these metrics is an engine's."""
        return not self._by_series.keys().isdisjoint(names)

    def feed(
        self,
        target_name: str,
        now_seconds: float,
        readings: Sequence[Reading],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Take in one page; one that is not newer than the target's last is ignored.

        `labels` are what is told of the target, such as its namespace and pod. The target's name is
        its URL, or whatever tells it apart.
        """
        starts = [one.value for one in readings if one.name == RESET_NAME]
        target = self.targets.setdefault(target_name, Target())
        scrape = open_scrape(target, now_seconds, starts[0] if len(starts) == 1 else None)
        if scrape is None:
            return
        page, told_labels = EnginePage(copies=self.copies), labels or {}
        page.take(
            self._by_series,
            readings,
            lambda own: self.places.find(own, told_labels, target_name),
            scrape,
        )
        self.rejected_count += page.rejected_count
        self.unattached.pop(target_name, None)
        if page.unattached:
            self.unattached[target_name] = tuple(sorted(page.unattached))
        for (place, engine), told in page.told.items():
            self._deliver((*place, engine), hour_of(now_seconds), told)

    def _deliver(self, entity: tuple[str, ...], hour: int, told: Told) -> None:
        facts = self.table.at(entity, hour)
        for model in told.models:
            facts.put(MODEL + PART + model, 1.0)
        for fact in PEAKS:
            value = told.value(fact)
            if value is not None:
                facts.see_peak(fact, value)
        ratio = _kv_cache_ratio(told)
        if ratio is not None:
            facts.see_peak(Fact.KV_CACHE, ratio)
        tokens = _kv_cache_tokens(told)
        if tokens is not None:
            facts.put(Fact.KV_TOKENS, tokens)
        for fact in GROWING:
            for model, edge, growth in told.grown(fact):
                name = fact + PART + model + (PART + edge if fact in HISTOGRAMS else "")
                span = (growth.start_seconds, growth.end_seconds)
                for at, amount in spread(*span, growth.amount):
                    self.table.at(entity, at).add(name, amount)

    def rows(self, hours: Iterable[int]) -> list[EngineHour]:
        """Give the hours of all engines that told anything in them."""
        nested = frozenset(mapping.name for mapping in self.mappings if mapping.is_nested)
        return engine_hours(self.table, hours, nested)

    def written(self) -> None:
        """Note that all there was to write is written."""
        self.table.changed.clear()

    def forget(self, target_name: str) -> None:
        """Drop what is remembered of a target that is read no more."""
        self.targets.pop(target_name, None)
        self.unattached.pop(target_name, None)

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed, and pages that were not read for long."""
        self.table.forget_before(hour)
        kept_seconds = hour * SECONDS_PER_HOUR - KEPT_SECONDS
        for name in [name for name, one in self.targets.items() if _last(one) < kept_seconds]:
            self.forget(name)

    def start_over(self, now_seconds: float) -> None:
        """Take back what was told of the time after now: the clock was set back."""
        self.table.forget_from(int(now_seconds // SECONDS_PER_HOUR) + 1)
        self.targets.clear()

    def state(self, from_hour: int) -> dict[str, Any]:
        """Give everything, hours from one on, in a shape that JSON can hold."""
        return {"table": self.table.state(from_hour), "targets": targets_state(self.targets)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.table.restore(state["table"])
        self.targets = restore_targets(state["targets"])


def _last(target: Target) -> float:
    return target.last_seconds or 0.0


def _kv_cache_ratio(told: Told) -> float | None:
    """Give the share of the cache in use: as told, else of its blocks."""
    ratio = told.value(Fact.KV_CACHE)
    used, blocks = told.value(Fact.KV_BLOCKS_USED), told.value(Fact.KV_BLOCKS)
    if ratio is None and used is not None and blocks:
        return min(used / blocks, 1.0)
    return ratio


def _kv_cache_tokens(told: Told) -> float | None:
    """Give how many tokens the cache holds: as told, else its blocks times their size."""
    tokens = told.value(Fact.KV_TOKENS)
    blocks, size = told.value(Fact.KV_BLOCKS), told.value(Fact.KV_BLOCK_TOKENS)
    if tokens is None and blocks is not None and size is not None:
        return blocks * size
    return tokens
