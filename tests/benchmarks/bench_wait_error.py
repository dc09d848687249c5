"""How far the estimate of time-slice wait is from the truth: the tables of docs/timeslice-wait.md.

A plain script: `./run bench`. Simulated cards and fixed seeds, so that the numbers are the same in
each run. Traces that may not be published are read from the folder in RIGHTSLICE_SHARED.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from support.timeslice import Engine, Job, Turn, response_seconds
from support.timeslice_error import (
    HEAD,
    Run,
    Settings,
    counted,
    error,
    error_rows,
    plain,
    reserved_points,
    runs,
)
from support.timeslice_scenarios import (
    Regime,
    Scenario,
    from_traces,
    inside_the_model,
    outside_the_model,
    reserved,
)
from support.timeslice_traffic import always, greedy, noted, open_traffic

QUICK = "--quick" in sys.argv
SETTINGS = Settings(120.0, (1,)) if QUICK else Settings(240.0, (1, 2, 3, 4))
# Enough for a difference of slices, which is large.
SLICE_SETTINGS = replace(SETTINGS, total_seconds=60.0, seeds=SETTINGS.seeds[:1])
SLICES_SECONDS = (0.001, 0.002, 0.006)
BLOCKS_PER_MINUTE = 12
SERVICE_LOAD_RATIO, SERVICE_KERNEL_SECONDS = 0.10, 0.005
BUSY_NEIGHBOUR_COUNTS = (0, 1, 2, 3, 5, 7)
LATENCY_SECONDS, LATENCY_SEED = (60.0 if QUICK else 960.0), 11
MILLISECONDS_PER_SECOND = 1000


def table(title: str, head: Sequence[str], rows: Iterable[str]) -> None:
    print(f"\n### {title}\n")
    print("\n".join((*head, *rows)), flush=True)


def head(*cells: str) -> tuple[str, str]:
    return row(*cells), row(*["---"] * len(cells))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rows_of(scenarios: Iterable[Scenario]) -> Iterator[str]:
    done = runs(scenarios, SETTINGS)
    return error_rows([point for run in done for point in run.points()])


def rows_by_span(done: Sequence[Run]) -> Iterator[str]:
    """Tell the mean error of single blocks, of minutes and of whole runs."""
    for name, length in (("one block", 1), ("a minute", BLOCKS_PER_MINUTE), ("a whole run", None)):
        points = [
            point
            for run in done
            for part in parts(run, length or len(run.looks))
            for point in part.points()
        ]
        yield row(name, *(f"{error(points, estimate).mean:.3f}" for estimate in (plain, counted)))


def parts(run: Run, length: int) -> Iterator[Run]:
    for start in range(0, len(run.looks) - length + 1, length):
        yield Run(run.scenario, run.looks[start : start + length])


def bound_rows(done: Sequence[Run]) -> Iterator[str]:
    """Tell how often the true wait was above the bound, from true and from sampled shares."""
    looks = [look for run in done for look in run.looks]
    waited = [
        (wait, look.truth.device_busy_ratio - busy, look.plain[tenant].upper_bound_ratio)
        for look in looks
        for tenant, (busy, wait) in enumerate(
            zip(look.truth.busy_ratios, look.truth.wait_ratios, strict=True)
        )
    ]
    true_count = sum(wait > bound + 1e-9 for wait, bound, _ in waited)
    sampled_count = sum(wait > bound + 1e-9 for wait, _, bound in waited)
    yield row("true shares", f"{true_count} of {len(waited)}")
    yield row("sampled shares, single blocks", f"{sampled_count / len(waited):.1%}")
    excess = [
        point.true_ratio - fmean(look.plain[point.tenant].upper_bound_ratio for look in run.looks)
        for run in done
        for point in run.points()
    ]
    part = fmean(above > 0 for above in excess)
    yield row("sampled shares, means of whole runs", f"{part:.1%}, by {max(excess):.3f} at most")


def mark_rows(done: Sequence[Run]) -> Iterator[str]:
    """Tell how many blocks of whom have the mark."""
    for regime in Regime:
        for has_heavy in (False, True):
            chosen = [
                run
                for run in done
                if run.scenario.regime is regime and run.scenario.has_heavy is has_heavy
            ]
            marks = [
                wait.may_be_low
                for run in chosen
                for look in run.looks
                for tenant, wait in look.plain.items()
                if tenant or not has_heavy
            ]
            if marks:
                who = "light beside heavy" if has_heavy else "equals"
                yield row(regime.value, who, f"{fmean(marks):.0%}")


def slice_rows() -> Iterator[str]:
    """Tell what a wrong belief about the slice costs."""
    for true_seconds in SLICES_SECONDS:
        for assumed_seconds in sorted({0.002, true_seconds}):
            settings = replace(
                SLICE_SETTINGS, slice_seconds=true_seconds, assumed_slice_seconds=assumed_seconds
            )
            done = runs(inside_the_model(), settings)
            points = [point for run in done for point in run.points()]
            beside = [point for point in points if point.regime is Regime.BESIDE]
            cells = [
                f"{found.mean:.3f} / {found.estimate_per_truth:.2f}"
                for chosen in (beside, points)
                for found in (error(chosen, plain), error(chosen, counted))
            ]
            yield row(milliseconds(true_seconds, 0), milliseconds(assumed_seconds, 0), *cells)


def latency_rows() -> Iterator[str]:
    """Tell how long a small service's requests take beside always busy neighbours."""
    alone: tuple[float, float] | None = None
    for neighbour_count in BUSY_NEIGHBOUR_COUNTS:
        jobs: list[Job] = []
        turns: list[Turn] = []
        service = open_traffic(SERVICE_LOAD_RATIO, SERVICE_KERNEL_SECONDS, kernels=always)
        tenants = [noted(service, jobs), *[greedy()] * neighbour_count]
        instants = Engine(tenants, LATENCY_SEED, turns=turns).run(LATENCY_SECONDS)
        took = sorted(response_seconds(jobs, (turn for turn in turns if turn.tenant == 0)))
        p50, p99 = (took[int(part * len(took))] for part in (0.50, 0.99))
        alone = alone or (p50, p99)
        yield row(
            str(neighbour_count),
            milliseconds(p50),
            milliseconds(p99),
            f"{p50 / alone[0]:.1f}",
            f"{p99 / alone[1]:.1f}",
            f"{instants[-1].wait_seconds[0] / LATENCY_SECONDS:.2f}",
        )


def milliseconds(seconds: float, digits: int = 1) -> str:
    return f"{seconds * MILLISECONDS_PER_SECOND:.{digits}f} ms"


def main() -> None:
    print(
        f"Simulated cards, {SETTINGS.total_seconds:.0f} s each, "
        f"seeds {', '.join(map(str, SETTINGS.seeds))}; errors in seconds of wait per second"
    )
    done = list(runs(inside_the_model(), SETTINGS))
    points = [point for run in done for point in run.points()]
    points += reserved_points(reserved(), SETTINGS)
    table("Error by regime", HEAD, error_rows(points))
    table("Traffic outside the model", HEAD, rows_of(outside_the_model()))
    shared = os.environ.get("RIGHTSLICE_SHARED")
    if shared:
        table(
            "Traffic with the rhythm of traces", HEAD, rows_of(from_traces(Path(shared, "traces")))
        )
    else:
        print("\nNOT RUN: traffic from traces; give their folder in RIGHTSLICE_SHARED")
    table("Mean error by span", head("span", "without counter", "with"), rows_by_span(done))
    table("True wait above the bound", head("bound from", "tenants and blocks"), bound_rows(done))
    table("Blocks marked may_be_low", head("neighbours", "who", "marked"), mark_rows(done))
    slices = head(
        "slice",
        "assumed",
        "short beside long: error / ratio without counter",
        "with",
        "all: without counter",
        "with",
    )
    table("If the slice is another than assumed", slices, slice_rows())
    latency = head("busy neighbours", "p50", "p99", "p50, times", "p99, times", "wait, s/s")
    table("A service with requests of 5 ms, busy for a tenth of the time", latency, latency_rows())


if __name__ == "__main__":
    main()
