"""A card that contexts share by turns: how long each truly waits, and what a driver tells of it.

One context has the engine at a time. Those with work are served in turn, a slice each; changing
the context costs time in which nobody runs. How long each waits is known here exactly, so that an
estimate made from what the driver shows can be compared with it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from random import Random
from statistics import fmean

from rightslice.exporter.timeslice import SAMPLES_PER_SECOND, Block

SLICE_SECONDS = 0.002
SWITCH_SECONDS = 0.00005
SAMPLE_SECONDS = 1 / SAMPLES_PER_SECOND
PERCENT = 100
NOBODY = -1
ROUNDING_SECONDS = 1e-9

# What a tenant asks for: how long after the one before, and how much work.
Job = tuple[float, float]
Jobs = Iterator[Job]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A context and its traffic.

    A closed one asks again only when all was done: its gaps count from then.
    """

    traffic: Callable[[Random], Jobs]
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Instant:
    """All that had happened up to the end of a sample, by tenant; only the owner is of now."""

    owner: int
    device_busy_seconds: float
    switch_count: int
    busy_seconds: tuple[float, ...]
    wait_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a block really was, by tenant."""

    busy_ratios: tuple[float, ...]
    wait_ratios: tuple[float, ...]
    device_busy_ratio: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A time on the engine without a break."""

    tenant: int
    start_seconds: float
    end_seconds: float


class Engine:
    """Serves its tenants in turn, once.

    Arrivals are taken in when their tenant is next looked at, not when they happen: who has no
    turn costs nothing. So a tenant without work may have an arrival in the past.
    """

    def __init__(
        self,
        tenants: Sequence[Tenant],
        seed: int,
        *,
        slice_seconds: float = SLICE_SECONDS,
        switch_seconds: float = SWITCH_SECONDS,
        turns: list[Turn] | None = None,
    ) -> None:
        seeds = Random(seed)
        self._closed = [tenant.is_closed for tenant in tenants]
        self._jobs = [tenant.traffic(Random(seeds.random())) for tenant in tenants]
        self._next_at, self._next_work = map(list, zip(*map(next, self._jobs), strict=True))
        self._work = [0.0] * len(tenants)
        self._backlogged_since = [0.0] * len(tenants)
        self._backlog_seconds = [0.0] * len(tenants)
        self._busy_seconds = [0.0] * len(tenants)
        self._slice_seconds = slice_seconds
        self._switch_seconds = switch_seconds
        self._turns = turns
        self._instants: list[Instant] = []

    def run(self, total_seconds: float) -> list[Instant]:
        """Give what had happened at the end of each of the driver's samples.

        One long loop on purpose: it goes round some thousand times per simulated second.
        """
        work, next_at, next_work, jobs = self._work, self._next_at, self._next_work, self._jobs
        since, backlog, closed = self._backlogged_since, self._backlog_seconds, self._closed
        busy, turns = self._busy_seconds, self._turns
        slice_seconds, switch_seconds = self._slice_seconds, self._switch_seconds
        count = len(work)
        after = [tuple((last + 1 + step) % count for step in range(count)) for last in range(count)]
        now, device_busy, sample_at = 0.0, 0.0, SAMPLE_SECONDS
        owner, last, switch_count = NOBODY, count - 1, 0
        while now < total_seconds:
            for current in after[last]:
                if work[current] or next_at[current] <= now:
                    break
            else:
                end = min(total_seconds, *next_at)
                if sample_at <= end:
                    idle = _Segment(now, end, owner, device_busy, switch_count)
                    sample_at = self._sample(idle, NOBODY)
                now = end
                continue
            last = current
            if current != owner:
                end = now + switch_seconds
                if sample_at <= end:
                    switch = _Segment(now, end, owner, device_busy, switch_count, is_busy=True)
                    sample_at = self._sample(switch, NOBODY)
                device_busy += switch_seconds
                switch_count += 1
                owner, now = current, end
            left, arrival = work[current], next_at[current]
            if not left:
                since[current] = arrival
            limit, end = now + slice_seconds, now + left
            if (arrival <= end and arrival < limit) or not left:
                asked = next_work[current]
                left += asked
                end = now + left
                if closed[current]:
                    arrival = inf
                else:
                    for gap, asked in jobs[current]:
                        arrival += gap
                        if arrival > end or arrival >= limit:
                            break
                        left += asked
                        end = now + left
                    next_work[current] = asked
                next_at[current] = arrival
            if is_cut := end > limit:
                end = limit
            if sample_at <= end:
                work[current] = left
                turn = _Segment(now, end, owner, device_busy, switch_count, is_busy=True)
                sample_at = self._sample(turn, current)
            if turns is not None:
                turns.append(Turn(current, now, end))
            ran = end - now
            device_busy += ran
            busy[current] += ran
            now = end
            if is_cut:
                work[current] = left - ran
                continue
            work[current] = 0.0
            backlog[current] += end - since[current]
            if closed[current]:
                gap, next_work[current] = next(jobs[current])
                next_at[current] = end + gap
        return self._instants

    def _sample(self, segment: "_Segment", running: int) -> float:
        """Note all instants in a segment; gives when the next one is due."""
        due = (len(self._instants) + 1) * SAMPLE_SECONDS
        while due <= segment.end:
            self._instants.append(self._instant(due, segment, running))
            due = (len(self._instants) + 1) * SAMPLE_SECONDS
        return due

    def _instant(self, at: float, segment: "_Segment", running: int) -> Instant:
        passed = at - segment.start
        busy = list(self._busy_seconds)
        if running != NOBODY:
            busy[running] += passed
        backlog = (
            done + max(0.0, at - (since if work else arrival))
            for done, since, work, arrival in zip(
                self._backlog_seconds,
                self._backlogged_since,
                self._work,
                self._next_at,
                strict=True,
            )
        )
        return Instant(
            owner=segment.owner,
            device_busy_seconds=segment.device_busy + passed * segment.is_busy,
            switch_count=segment.switch_count,
            busy_seconds=tuple(busy),
            wait_seconds=tuple(wanted - had for wanted, had in zip(backlog, busy, strict=True)),
        )


@dataclass(frozen=True, slots=True)
class _Segment:
    """A time in which nothing changes: idle, a switch or a turn; the sums are of its start."""

    start: float
    end: float
    owner: int
    device_busy: float
    switch_count: int
    is_busy: bool = False


# What the driver would tell.


def observed(
    instants: Sequence[Instant], block_seconds: float
) -> Iterator[tuple[Block[int], Truth]]:
    """Cut a run into blocks: what the driver tells of each, and what it really was.

    The first is left out: nobody had any work at its start.
    """
    length = round(block_seconds / SAMPLE_SECONDS)
    for start in range(length, len(instants) - length + 1, length):
        part = instants[start - 1 : start + length]
        yield _block(part), _truth(part)


def _block(part: Sequence[Instant]) -> Block[int]:
    """Credit the card's busy value of each sample to whose context is on the engine at its end.

    A context stays there while nobody has work. What the driver tells are whole percents.
    """
    device = [
        _whole_percent((after.device_busy_seconds - before.device_busy_seconds) / SAMPLE_SECONDS)
        for before, after in pairwise(part)
    ]
    credited = [0.0] * len(part[0].busy_seconds)
    for busy, instant in zip(device, part[1:], strict=True):
        if instant.owner != NOBODY:
            credited[instant.owner] += busy
    switch_count = part[-1].switch_count - part[0].switch_count
    return Block(
        busy_ratios={
            tenant: _whole_percent(busy / len(device)) for tenant, busy in enumerate(credited)
        },
        device_busy_ratio=fmean(device),
        sample_count=sum(busy > 0 for busy in device),
        device_samples=device,
        switches_per_second=switch_count / len(device) / SAMPLE_SECONDS,
    )


def _truth(part: Sequence[Instant]) -> Truth:
    first, last, seconds = part[0], part[-1], (len(part) - 1) * SAMPLE_SECONDS
    return Truth(
        busy_ratios=_ratios(first.busy_seconds, last.busy_seconds, seconds),
        wait_ratios=_ratios(first.wait_seconds, last.wait_seconds, seconds),
        device_busy_ratio=(last.device_busy_seconds - first.device_busy_seconds) / seconds,
    )


def _ratios(before: Sequence[float], after: Sequence[float], seconds: float) -> tuple[float, ...]:
    return tuple((new - old) / seconds for old, new in zip(before, after, strict=True))


def _whole_percent(ratio: float) -> float:
    return min(PERCENT, round(ratio * PERCENT)) / PERCENT


def response_seconds(jobs: Sequence[Job], turns: Iterable[Turn]) -> list[float]:
    """Tell how long each request of a tenant took from asking to its end, given its own turns."""
    asked_at, done_seconds, wanted_seconds = 0.0, 0.0, 0.0
    responses: list[float] = []
    rest = iter(turns)
    turn = Turn(NOBODY, 0.0, 0.0)
    for gap, work in jobs:
        asked_at += gap
        wanted_seconds += work
        while done_seconds < wanted_seconds - ROUNDING_SECONDS:
            turn = next(rest, Turn(NOBODY, inf, inf))
            if turn.start_seconds == inf:
                return responses
            done_seconds += turn.end_seconds - turn.start_seconds
        responses.append(turn.end_seconds - (done_seconds - wanted_seconds) - asked_at)
    return responses
