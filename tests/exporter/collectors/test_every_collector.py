"""What holds for each collector on each simulated node that ships."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from support.lanes import in_threads
from support.simulated import IDENTITY, Shipped, SimulatedNode

from rightslice.contract.spec import Kind, Sample, Unit
from rightslice.exporter.collector import AnyCollector
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.scenario import scenario_names

# Long enough for what happens in any scenario, and for each collector to read twice after it.
ROUNDS, STEP_SECONDS = 52, 5.0
# The largest value of each unit that anything on one node may have; ratios may pass 1 (MIG).
MOST = {
    Unit.NONE: 1_000_000.0,
    Unit.SECONDS: 4e9,
    Unit.BYTES: 2.0**60,
    Unit.RATIO: 10.0,
    Unit.WATTS: 20_000.0,
    Unit.JOULES: 1e12,
    Unit.CELSIUS: 150.0,
}
COLDEST_CELSIUS = -40.0
# Of registers of network cards, which count packets by the billion, and of rates in bytes.
MOST_REGISTER = 2.0**64
MOST_BYTES_PER_SECOND = 1e11
# Twice the longest pause between two readings, of those that are read once a minute.
MOST_COVERED_SECONDS = 120.0


# No simulated kubelet has a list of pods.
SILENT = {"kubelet_pods"}

Run = tuple[str, list[Sample]]


def watched(name: str, runs: list[Run]) -> AnyCollector:
    """Give a collector whose runs are noted, each with what it yielded."""
    collector = load(name)

    def collect(device: object, covered_seconds: float) -> Iterable[Sample]:
        samples: list[Sample] = []
        runs.append((name, samples))
        for sample in collector.collect(device, covered_seconds):
            samples.append(sample)
            yield sample

    return replace(collector, collect=collect)


def runs_of(node: SimulatedNode) -> list[Run]:
    """Sample a node for some minutes with every collector."""
    runs: list[Run] = []
    read = in_threads()
    collectors = {name: watched(name, runs) for name in ENABLED}
    sampler = Sampler(node.host, collectors, node.clock.clock(), IDENTITY, STEP_SECONDS)
    for _ in range(ROUNDS):
        sampler.sample(read)
        node.clock.advance(STEP_SECONDS)
    return runs


def wrong_shapes(runs: list[Run]) -> Iterator[tuple[str, str]]:
    """Find samples that their collector does not declare, or that lack labels."""
    for name, samples in runs:
        for sample in samples:
            has_every_label = len(sample.labels) == len(sample.spec.labels)
            if sample.spec not in load(name).specs or not has_every_label:
                yield name, sample.spec.name


def wild_values(runs: list[Run]) -> Iterator[tuple[str, float]]:
    """Find values that nothing on a node has."""
    for sample in (sample for _, samples in runs for sample in samples):
        spec, value = sample.spec, sample.value
        least = COLDEST_CELSIUS if spec.unit is Unit.CELSIUS else 0.0
        if not math.isfinite(value) or not least <= value <= _most(sample):
            yield spec.name, value
        if not 0 <= sample.covered_seconds <= MOST_COVERED_SECONDS:
            yield f"{spec.name}, covered", sample.covered_seconds


def _most(sample: Sample) -> float:
    if sample.is_register:
        return MOST_REGISTER
    if sample.spec.name.endswith("_bytes_per_second"):
        return MOST_BYTES_PER_SECOND
    return MOST[sample.spec.unit]


def wrong_kinds(runs: list[Run]) -> Iterator[str]:
    """Find running totals that are no counters, and shares of time that are no histograms."""
    for sample in (sample for _, samples in runs for sample in samples):
        is_wrong_total = sample.is_total and sample.spec.kind is not Kind.COUNTER
        is_wrong_span = sample.covered_seconds > 0 and sample.spec.kind is not Kind.HISTOGRAM
        if is_wrong_total or is_wrong_span:
            yield sample.spec.name


def told_twice(runs: list[Run]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find gauges to which one run gave two values."""
    for _, samples in runs:
        gauges = [(row.spec.name, row.labels) for row in samples if row.spec.kind is Kind.GAUGE]
        yield from (gauge for gauge, count in Counter(gauges).items() if count > 1)


@pytest.mark.parametrize("name", scenario_names())
def test_every_collector_yields_what_it_declares_and_nothing_wild(
    name: str, shipped: Shipped
) -> None:
    runs = runs_of(shipped(name))

    assert {collector for collector, samples in runs if samples}
    assert set(wrong_shapes(runs)) == set()
    assert set(wild_values(runs)) == set()
    assert set(wrong_kinds(runs)) == set()
    assert set(told_twice(runs)) == set()


def test_each_collector_tells_something_on_some_node(shipped: Shipped) -> None:
    names = ("nvlink-job", "mig-two-ci", "vgpu-host", "five-tenants", "mixed-nics", "nccl-on-tcp")
    nodes = [runs_of(shipped(name)) for name in names]

    assert {name for runs in nodes for name, samples in runs if samples} == set(ENABLED) - SILENT
