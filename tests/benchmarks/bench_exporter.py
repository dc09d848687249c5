"""What the exporter asks of the driver and puts on its page: calls, series, rendering.

A plain script: `./run bench`. Simulated seconds, so that the counts are the same in each run.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from support.counted_library import CountedLibrary, counted
from support.measured_node import (
    A100,
    CARD_COUNT,
    H100,
    PROCESS_IDS,
    PROCESSES_PER_CARD,
    write_scenario,
)
from support.pages import from_text
from support.simulated import START_SECONDS, SimulatedNode

from rightslice.exporter.exposition import Renderer
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import load_scenario

# So many rounds that the rarest collector has run some times.
WARM_UP_ROUNDS, ROUNDS, PAGES = 130, 600, 200
TOP = 10
MICROSECONDS_PER_SECOND = 1e6


class SameFamilies(Collector):
    """Hands the families of a page to the other client's encoder."""

    def __init__(self, page: bytes) -> None:
        families: dict[str, Metric] = {}
        for name, labels, value in from_text(page):
            families.setdefault(name, Metric(name, "Help.", "gauge")).add_sample(
                name, labels, value
            )
        self._families = list(families.values())

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def median_seconds(*runs: Callable[[], object]) -> list[float]:
    """Time single runs, in turn, and give the middle one of each."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(PAGES):
        for run, took in zip(runs, times, strict=True):
            started_seconds = time.perf_counter()
            run()
            took.append(time.perf_counter() - started_seconds)
    return [median(took) for took in times]


def page_lines(sampler: Sampler) -> Iterator[str]:
    page, _ = sampler.page()
    registry = CollectorRegistry()
    registry.register(SameFamilies(page))
    series_count = len(from_text(page))
    rows, renderer = list(sampler._store._aggregate.series(START_SECONDS)), Renderer()
    yield f"rendering {series_count} series, {len(page)} bytes; microseconds per series"
    ours, whole, theirs = (
        seconds / series_count * MICROSECONDS_PER_SECOND
        for seconds in median_seconds(
            lambda: renderer.render(rows), sampler.page, lambda: generate_latest(registry)
        )
    )
    yield f"    {'our renderer':48}{ours:8.2f}"
    yield f"    {'our whole page (aim: at most 2)':48}{whole:8.2f}"
    times = f"{theirs / ours:.1f} x our renderer, {theirs / whole:.1f} x our whole page"
    yield f"    {'prometheus_client, encoder alone':48}{theirs:8.2f}   ({times})"


def sampling_lines(node: SimulatedNode, sampler: Sampler, counter: CountedLibrary) -> Iterator[str]:
    calls_before, library_before_seconds = counter.totals()
    started_seconds = time.process_time()
    node.sample_rounds(sampler, ROUNDS)
    cpu_seconds = time.process_time() - started_seconds
    calls, library_seconds = counter.totals()
    calls -= calls_before
    own_seconds = cpu_seconds - (library_seconds - library_before_seconds)
    per_round = 1 / ROUNDS / CARD_COUNT
    total = calls.total() * per_round
    yield f"    {'NVML calls per card and second (aim: at most 8)':48}{total:8.2f}"
    for name, count in calls.most_common(TOP):
        yield f"        {name:44}{count * per_round:8.2f}"
    own_us = own_seconds * per_round * MICROSECONDS_PER_SECOND
    yield f"    {'our CPU per card and round, microseconds':48}{own_us:8.1f}"


def series_lines(sampler: Sampler) -> Iterator[str]:
    samples = from_text(sampler.page()[0])
    uuids = {card.id for card in sampler._host.gpus}
    assert len(uuids) == CARD_COUNT
    of_cards = sum(not uuids.isdisjoint(labels.values()) for _, labels, _ in samples)
    yield f"    {'series per card (aim: at most 170)':48}{of_cards / CARD_COUNT:8.1f}"
    yield f"    {'series of the node':48}{len(samples) - of_cards:8}"


def bench(card: dict[str, Any], scenario: Path) -> None:
    write_scenario(scenario, card, PROCESS_IDS)
    clock = ManualClock(START_SECONDS)
    with (
        installed(load_scenario(str(scenario)), clock.now_seconds) as library,
        counted(library) as counter,
    ):
        node = SimulatedNode(clock, library, Host("node-a", NOWHERE, clock.clock()))
        sampler = node.sampler()
        node.sample_rounds(sampler, WARM_UP_ROUNDS)
        print(f"\n{CARD_COUNT} {card['name']}, {PROCESSES_PER_CARD} processes on each, {ROUNDS} s")
        for line in (
            *sampling_lines(node, sampler, counter),
            *series_lines(sampler),
            *page_lines(sampler),
        ):
            print(line, flush=True)


def main() -> None:
    with TemporaryDirectory() as folder:
        for card in (A100, H100):
            bench(card, Path(folder) / "node.yaml")


if __name__ == "__main__":
    main()
