"""What the exporter costs: run it by hand, from the repository's root.

PYTHONPATH=exporter:tests python tests/benchmarks/bench_exporter.py
"""

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from support.pages import from_text
from support.simulated import START_SECONDS, SimulatedNode, simulated_card, simulated_scenario

from rightslice.exporter.exposition import Renderer
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.library import installed

CARD_COUNT = 8
WARM_UP_ROUNDS, ROUNDS, PAGES = 130, 600, 60
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


def median_seconds(run: Callable[[], object]) -> float:
    """Time single runs, and give the middle one."""
    times = []
    for _ in range(PAGES):
        started_seconds = time.perf_counter()
        run()
        times.append(time.perf_counter() - started_seconds)
    return median(times)


def page_lines(sampler: Sampler) -> Iterator[str]:
    page, _ = sampler.page()
    registry = CollectorRegistry()
    registry.register(SameFamilies(page))
    series_count = len(from_text(page))
    rows, renderer = list(sampler._aggregate.series(START_SECONDS)), Renderer()
    yield f"{CARD_COUNT} cards, {series_count} series, {len(page)} bytes a page"
    for name, run in (
        ("our renderer", lambda: renderer.render(rows)),
        ("our whole page", sampler.page),
        ("prometheus_client", lambda: generate_latest(registry)),
    ):
        per_series = median_seconds(run) / series_count * MICROSECONDS_PER_SECOND
        yield f"{name:20}{per_series:8.2f} us per series"


def sampling_lines(node: SimulatedNode, sampler: Sampler) -> Iterator[str]:
    asked_count, started_seconds = node.library.call_count, time.perf_counter()
    node.sample_rounds(sampler, ROUNDS)
    per_round = (time.perf_counter() - started_seconds) / ROUNDS / CARD_COUNT
    calls = (node.library.call_count - asked_count) / ROUNDS / CARD_COUNT
    yield f"{'NVML':20}{calls:8.2f} calls per card and second"
    yield f"{'sampling':20}{per_round * MICROSECONDS_PER_SECOND:8.2f} us per card and round"


def main() -> None:
    clock = ManualClock(START_SECONDS)
    scenario = simulated_scenario(*(simulated_card(number + 1) for number in range(CARD_COUNT)))
    with installed(scenario, clock.now_seconds) as library:
        node = SimulatedNode(clock, library, Host("node-a"))
        sampler = node.sampler()
        node.sample_rounds(sampler, WARM_UP_ROUNDS)
        lines = [*page_lines(sampler), *sampling_lines(node, sampler)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
