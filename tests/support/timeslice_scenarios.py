"""Who shares a simulated card: the regimes over which the error of the estimate is told."""

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

from .timeslice import Tenant
from .timeslice_traffic import (
    Draw,
    Phases,
    by_rates,
    by_the_clock,
    closed_traffic,
    exponential,
    greedy,
    in_common,
    log_normal,
    modulated,
    on_off,
    open_traffic,
    pareto,
    recorded,
)

LONG_SECONDS, ONE_SLICE_SECONDS, SHORT_SECONDS = 0.020, 0.002, 0.0002
USUAL_SECONDS = 0.005
COUNTS = (2, 4, 8)
COMMON_SEED = 7


class Regime(Enum):
    """What kind of neighbours they are; its value is the row in the table."""

    LONG = "kernels of a slice or more"
    SHORT = "kernels of a tenth of a slice, the same for all"
    BESIDE = "short kernels beside long ones"
    MIXED = "unequal neighbours, other lengths"
    CLOSED = "closed loops of launch and think"
    FULL = "all always have work"
    BURSTY = "on and off"
    RESERVED = "vGPU with reserved slots"
    PARETO = "on and off, heavy-tailed"
    COMMON_FAST = "on and off together, each 0.5 s on average"
    COMMON_SLOW = "on and off together, each 10 s on average"
    ARRIVALS = "gaps between creations, alibaba-dlrm-v2025"
    RATES = "request rates, alibaba-gentd26"
    RUNTIMES = "on and off for as long as jobs ran, philly"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Tenants of one card. Where one is heavy, it is the first."""

    regime: Regime
    tenants: Sequence[Tenant]
    has_heavy: bool = False


def inside_the_model() -> Iterator[Scenario]:
    """Give traffic as the model of the estimate has it, and where that is known to fail."""
    yield from _equal()
    yield from _unequal()
    for count in COUNTS:
        loops = [closed_traffic(0.4, USUAL_SECONDS)] * count
        yield Scenario(Regime.CLOSED, loops)
        yield Scenario(Regime.FULL, [greedy()] * count)
    yield from _bursts()


def reserved() -> Iterator[Scenario]:
    for count in (2, 4):
        yield Scenario(Regime.RESERVED, _same(count, 0.5, LONG_SECONDS))


def _equal() -> Iterator[Scenario]:
    for count in COUNTS:
        for load in (0.3, 0.6, 0.9):
            yield Scenario(Regime.LONG, _same(count, load, LONG_SECONDS))
            yield Scenario(Regime.LONG, _same(count, load, ONE_SLICE_SECONDS))
            yield Scenario(Regime.SHORT, _same(count, load, SHORT_SECONDS))
        log_normals = _same(count, 0.6, LONG_SECONDS, kernels=log_normal)
        yield Scenario(Regime.LONG, log_normals)


def _unequal() -> Iterator[Scenario]:
    for count in COUNTS:
        for load in (0.6, 0.9):
            for regime, share, heavy_seconds, light_seconds in (
                (Regime.LONG, 0.7, LONG_SECONDS, LONG_SECONDS),
                (Regime.BESIDE, 0.7, LONG_SECONDS, SHORT_SECONDS),
                (Regime.MIXED, 0.5, LONG_SECONDS, SHORT_SECONDS),
                (Regime.MIXED, 0.7, ONE_SLICE_SECONDS, 0.0005),
                (Regime.MIXED, 0.7, SHORT_SECONDS, SHORT_SECONDS),
            ):
                heavy = open_traffic(load * share, heavy_seconds)
                rest = _same(count - 1, load * (1 - share), light_seconds)
                yield Scenario(regime, [heavy, *rest], has_heavy=share * count > 1)
        services = _same(count - 1, 0.2, 0.001)
        yield Scenario(Regime.MIXED, [greedy(), *services], has_heavy=True)
    for count in (2, 4):
        services = [open_traffic(0.05, 0.0005)] * (count - 1)
        yield Scenario(Regime.BESIDE, [greedy(), *services], has_heavy=True)


def _bursts() -> Iterator[Scenario]:
    for count in (2, 4):
        tenants = _same(count, 0.5, USUAL_SECONDS)
        yield Scenario(Regime.BURSTY, _all_in(on_off(2.0, 4.0), tenants))
        yield Scenario(Regime.BURSTY, _all_in(by_the_clock(3.0, 3.0), tenants))
    one = open_traffic(0.25, USUAL_SECONDS)
    phases = by_the_clock(3.0, 3.0), by_the_clock(3.0, 3.0, starts_on=False)
    yield Scenario(Regime.BURSTY, [modulated(one, phase) for phase in phases])


def outside_the_model() -> Iterator[Scenario]:
    """Give traffic that breaks the model: heavy tails, and tenants with the same users."""
    heavy_tailed = on_off(1.0, 2.0, on_lengths=pareto, off_lengths=pareto)
    for regime, phases in (
        (Regime.PARETO, heavy_tailed),
        (Regime.COMMON_FAST, in_common(on_off(0.5, 0.5), COMMON_SEED)),
        (Regime.COMMON_SLOW, in_common(on_off(10.0, 10.0), COMMON_SEED)),
    ):
        yield from _with_loads(regime, phases)


def from_traces(folder: Path) -> Iterator[Scenario]:
    """Give traffic with the rhythm of traces, made faster to fit into minutes."""
    gaps = recorded(_creation_gaps(folder / "alibaba-dlrm-v2025"))
    for count in (2, 4):
        for load in (0.4, 0.7):
            tenants = _same(count, load, USUAL_SECONDS, gaps=gaps)
            yield Scenario(Regime.ARRIVALS, tenants)
    rates = _request_rates(folder / "alibaba-gentd26-gpu")
    yield from _with_loads(Regime.RATES, by_rates(rates, step_seconds=1.0))
    runtimes = recorded(_runtimes(folder / "alibaba-gpu-v2020-spec"))
    as_jobs_ran = on_off(10.0, 10.0, on_lengths=runtimes, off_lengths=runtimes)
    yield from _with_loads(Regime.RUNTIMES, as_jobs_ran)


def _creation_gaps(folder: Path) -> list[float]:
    rows = _rows(folder / "disaggregated_DLRM_trace.csv.gz")
    created = sorted(float(row["creation_time"]) for row in rows if row["creation_time"])
    return [after - before for before, after in pairwise(created)]


def _request_rates(folder: Path) -> list[float]:
    """Give the rate of the whole site at each of the trace's times."""
    rates: dict[float, float] = {}
    for row in _rows(folder / "qps.csv.gz"):
        at = float(row["timestamp_anon"])
        rates[at] = rates.get(at, 0.0) + float(row["value"])
    return [rates[at] for at in sorted(rates)]


def _runtimes(folder: Path) -> list[float]:
    runtimes = (float(row["runtime"]) for row in _rows(folder / "philly_runtime.csv.gz"))
    return [runtime for runtime in runtimes if runtime > 0]


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _with_loads(regime: Regime, phases: Phases) -> Iterator[Scenario]:
    for count in (2, 4):
        for load in (0.4, 0.7):
            yield Scenario(regime, _all_in(phases, _same(count, load, USUAL_SECONDS)))


def _same(
    count: int,
    load_ratio: float,
    kernel_seconds: float,
    *,
    kernels: Draw = exponential,
    gaps: Draw = exponential,
) -> list[Tenant]:
    """Divide a load among equal tenants."""
    return [open_traffic(load_ratio / count, kernel_seconds, kernels=kernels, gaps=gaps)] * count


def _all_in(phases: Phases, tenants: Sequence[Tenant]) -> list[Tenant]:
    return [modulated(tenant, phases) for tenant in tenants]
