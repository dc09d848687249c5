"""What tenants of a simulated card ask of it: kernels of some length, at times of some kind."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, repeat
from math import inf, log, sqrt
from random import Random
from statistics import fmean

from .timeslice import Job, Jobs, Tenant

# Draws of lengths or gaps, given their mean in seconds.
Draw = Callable[[float, Random], Iterator[float]]
# How long a phase lasts, and how fast a tenant's clock goes in it: 0 is off, 2 asks twice as often.
Phase = tuple[float, float]
Phases = Callable[[Random], Iterator[Phase]]

# Below 2 the variance is infinite.
PARETO_SHAPE = 1.5
LOG_NORMAL_DEVIATION_PER_MEAN = 2
DRAWS_AT_ONCE = 64


def exponential(mean: float, rng: Random) -> Iterator[float]:
    """Draw by hand and some at a time: most of a run's time goes here."""
    return chain.from_iterable(_exponential_draws(mean, rng))


def _exponential_draws(mean: float, rng: Random) -> Iterator[list[float]]:
    uniform = rng.random
    while True:
        yield [-log(1.0 - uniform()) * mean for _ in range(DRAWS_AT_ONCE)]


def always(mean: float, rng: Random) -> Iterator[float]:
    return repeat(mean)


def log_normal(mean: float, rng: Random) -> Iterator[float]:
    variance = log(1 + LOG_NORMAL_DEVIATION_PER_MEAN**2)
    while True:
        yield rng.lognormvariate(log(mean) - variance / 2, sqrt(variance))


def pareto(mean: float, rng: Random) -> Iterator[float]:
    least = mean * (PARETO_SHAPE - 1) / PARETO_SHAPE
    while True:
        yield least * rng.paretovariate(PARETO_SHAPE)


def recorded(lengths: Sequence[float]) -> Draw:
    """Take lengths of a trace in their order, stretched to the mean, from a random one on."""
    recorded_mean = fmean(lengths)

    def draw(mean: float, rng: Random) -> Iterator[float]:
        start = rng.randrange(len(lengths))
        scale = mean / recorded_mean
        return cycle([length * scale for length in (*lengths[start:], *lengths[:start])])

    return draw


def open_traffic(
    load_ratio: float,
    kernel_seconds: float,
    *,
    kernels: Draw = exponential,
    gaps: Draw = exponential,
) -> Tenant:
    """Ask whatever the state of what was asked before, as many users together do."""
    gap_seconds = kernel_seconds / load_ratio
    return Tenant(
        lambda rng: zip(gaps(gap_seconds, rng), kernels(kernel_seconds, rng), strict=False)
    )


def closed_traffic(load_ratio: float, kernel_seconds: float) -> Tenant:
    """Ask, wait for the end, think, and ask again; alone it gives this load."""
    think_seconds = kernel_seconds * (1 - load_ratio) / load_ratio
    return replace(open_traffic(1.0, kernel_seconds, gaps=_of(think_seconds)), is_closed=True)


def _of(seconds: float) -> Draw:
    return lambda mean, rng: exponential(seconds, rng)


def greedy() -> Tenant:
    """Always have work, as a training run has."""
    return Tenant(lambda rng: iter([(0.0, inf), (inf, 0.0)]))


def noted(tenant: Tenant, jobs: list[Job]) -> Tenant:
    """Keep what a tenant asks for."""

    def traffic(rng: Random) -> Jobs:
        for job in tenant.traffic(rng):
            jobs.append(job)
            yield job

    return replace(tenant, traffic=traffic)


def modulated(tenant: Tenant, phases: Phases) -> Tenant:
    """Let a tenant's clock go as fast as the phase says."""
    return replace(tenant, traffic=lambda rng: _warped(tenant.traffic(rng), phases(rng)))


def _warped(jobs: Jobs, phases: Iterator[Phase]) -> Jobs:
    left_seconds, speed = next(phases)
    for own_gap, work in jobs:
        gap = 0.0
        while own_gap > left_seconds * speed:
            own_gap -= left_seconds * speed
            gap += left_seconds
            left_seconds, speed = next(phases)
        if speed:
            gap += own_gap / speed
            left_seconds -= own_gap / speed
        yield gap, work


def on_off(
    on_seconds: float,
    off_seconds: float,
    *,
    on_lengths: Draw = exponential,
    off_lengths: Draw = exponential,
) -> Phases:
    """Be on and off in turn at random, and when on so fast that the mean load stays."""
    speed = (on_seconds + off_seconds) / on_seconds

    def phases(rng: Random) -> Iterator[Phase]:
        on, off = on_lengths(on_seconds, rng), off_lengths(off_seconds, rng)
        if rng.random() > 1 / speed:
            yield next(off), 0.0
        while True:
            yield next(on), speed
            yield next(off), 0.0

    return phases


def by_the_clock(on_seconds: float, off_seconds: float, *, starts_on: bool = True) -> Phases:
    """Be on and off at the same times as all tenants with these numbers."""
    speed = (on_seconds + off_seconds) / on_seconds
    pair = [(on_seconds, speed), (off_seconds, 0.0)]
    return lambda rng: cycle(pair if starts_on else pair[::-1])


def by_rates(rates: Sequence[float], step_seconds: float) -> Phases:
    """Ask as often as a trace says, each of its rates for so long, from a random one on."""
    mean = fmean(rates)

    def phases(rng: Random) -> Iterator[Phase]:
        start = rng.randrange(len(rates))
        return cycle([(step_seconds, rate / mean) for rate in (*rates[start:], *rates[:start])])

    return phases


def in_common(phases: Phases, seed: int) -> Phases:
    """Give all tenants the same phases, as the users of one site would."""
    return lambda rng: phases(Random(seed))
