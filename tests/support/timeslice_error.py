"""How far the estimate of wait is from the truth, by kind of neighbours."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rightslice.exporter.timeslice import Block, Wait, block_seconds, reserved_slot_wait, waits

from . import timeslice
from .timeslice import Engine, Truth, observed
from .timeslice_reserved import reserved_slots
from .timeslice_scenarios import Regime, Scenario

P95 = 0.95


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how often to run each scenario, on what card, and what is assumed of it."""

    total_seconds: float
    seeds: Sequence[int]
    slice_seconds: float = timeslice.SLICE_SECONDS
    assumed_slice_seconds: float = timeslice.SLICE_SECONDS


@dataclass(frozen=True, slots=True)
class Look:
    """One block of a run, and what is made of it without and with the counter of switches."""

    truth: Truth
    plain: dict[int, Wait]
    counted: dict[int, Wait]


@dataclass(frozen=True, slots=True)
class Run:
    scenario: Scenario
    looks: Sequence[Look]

    def points(self) -> Iterator["Point"]:
        """Give the tenants' means over the run."""
        for tenant in range(len(self.scenario.tenants)):
            yield Point(
                self.scenario.regime,
                tenant,
                fmean(look.truth.wait_ratios[tenant] for look in self.looks),
                fmean(look.plain[tenant].wait_ratio for look in self.looks),
                fmean(look.counted[tenant].wait_ratio for look in self.looks),
            )


@dataclass(frozen=True, slots=True)
class Point:
    """One tenant of one run."""

    regime: Regime
    tenant: int
    true_ratio: float
    plain_ratio: float
    counted_ratio: float


@dataclass(frozen=True, slots=True)
class Error:
    """How far some estimates are from what was true, in seconds of wait per second."""

    mean: float
    p95: float
    estimate_per_truth: float


def runs(scenarios: Iterable[Scenario], settings: Settings) -> Iterator[Run]:
    """Run each scenario with each seed; runs of the same place and seed are the same."""
    for number, scenario in enumerate(scenarios):
        for seed in settings.seeds:
            engine = Engine(
                scenario.tenants, _own_seed(seed, number), slice_seconds=settings.slice_seconds
            )
            seconds = block_seconds(len(scenario.tenants))
            blocks = observed(engine.run(settings.total_seconds), seconds)
            yield Run(scenario, [_look(block, truth, settings) for block, truth in blocks])


def _look(block: Block[int], truth: Truth, settings: Settings) -> Look:
    before_hopper = replace(block, switches_per_second=None)
    assumed_seconds = settings.assumed_slice_seconds
    return Look(truth, waits(before_hopper, assumed_seconds), waits(block, assumed_seconds))


def reserved_points(scenarios: Iterable[Scenario], settings: Settings) -> Iterator[Point]:
    """Do the same for slots that are kept; there the busy time is that of the vGPU and exact."""
    for number, scenario in enumerate(scenarios):
        count = len(scenario.tenants)
        for seed in settings.seeds:
            truths = reserved_slots(
                scenario.tenants,
                _own_seed(seed, number),
                settings.total_seconds,
                block_seconds(count),
            )
            for tenant in range(count):
                true_ratio = fmean(truth.wait_ratios[tenant] for truth in truths)
                estimate = fmean(
                    reserved_slot_wait(round(truth.busy_ratios[tenant], 2), 1 / count)
                    for truth in truths
                )
                yield Point(scenario.regime, tenant, true_ratio, estimate, estimate)


def _own_seed(seed: int, number: int) -> int:
    return 1000 * seed + number


def error(points: Sequence[Point], estimate: Callable[[Point], float]) -> Error:
    distances = sorted(abs(estimate(point) - point.true_ratio) for point in points)
    return Error(
        mean=fmean(distances),
        p95=distances[int(P95 * len(distances))],
        estimate_per_truth=sum(map(estimate, points)) / sum(point.true_ratio for point in points),
    )


def plain(point: Point) -> float:
    return point.plain_ratio


def counted(point: Point) -> float:
    return point.counted_ratio


# Markdown, as docs/timeslice-wait.md has it.

HEAD = (
    "| neighbours | contexts | true wait, mean | error, mean | p95 | estimate / truth "
    "| with counter: error, mean | p95 | estimate / truth |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def error_rows(points: Sequence[Point]) -> Iterator[str]:
    """Print a row for each regime, in their order, and one of all."""
    for regime in Regime:
        own = [point for point in points if point.regime is regime]
        if own:
            yield error_row(regime.value, own)
    yield error_row("all", points)


def error_row(name: str, points: Sequence[Point]) -> str:
    cells = [name, str(len(points)), f"{fmean(point.true_ratio for point in points):.3f}"]
    for estimate in (plain, counted):
        found = error(points, estimate)
        cells += [f"{found.mean:.3f}", f"{found.p95:.3f}", f"{found.estimate_per_truth:.2f}"]
    return f"| {' | '.join(cells)} |"
