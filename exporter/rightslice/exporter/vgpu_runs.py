"""From the runs of a vGPU host's scheduler to who had the engine, and who waited for it.

Two things are known of a runlist's wait for certain. It has waited while others had their turns
after it used up a whole slice. And it cannot have waited for longer than others had the engine.
The estimate is held between these two.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Generic, TypeVar

from rightslice.exporter.host.nvml.vgpu_schedule import LogPart, Run
from rightslice.exporter.timeslice import SLICE_SECONDS, Block, Wait, waits

K = TypeVar("K", bound=Hashable)
J = TypeVar("J", bound=Hashable)

# A pause between two runs up to this long is taken for a change of contexts, of which one takes
# tens of microseconds; a longer one for an idle engine.
LONGEST_SWITCH_SECONDS = 0.0002
# So near to a whole number of slices a run was ended by the scheduler.
WHOLE_SLICE_TOLERANCE = 0.01
FILLED_RATIO = 0.9
# Who waits comes after one slice of each other. Gaps longer than so many rounds are of one that
# wanted nothing for a while.
LONGEST_WAIT_ROUNDS = 1.5
# Below this share of a block, what the log still held says too little of the rest.
LEAST_KNOWN_RATIO = 0.05

# For telling which runlist is whose. The driver tells whole percents, so less is no load.
LEAST_LOAD_RATIO = 0.01
MATCHING_SECONDS = 60.0
FEWEST_READINGS = 3
# A match is clear when the next best is so many times and so much further off.
CLEAR_TIMES, CLEAR_RATIO = 2.0, 0.01


@dataclass(frozen=True, slots=True)
class LoggedBlock:
    """What the log told of a block, by runlist, as shares of the block's time.

    `certain_wait_ratios` are what they waited at least. `held_ratio` is the share for which the
    engine was held, with the time for changes. `known_ratio` is the share of which the log still
    told: the rest is taken to be like it.
    """

    busy_ratios: Mapping[int, float]
    certain_wait_ratios: Mapping[int, float]
    held_ratio: float
    known_ratio: float
    switches_per_second: float
    slice_seconds: float


@dataclass(frozen=True, slots=True)
class _LastRun:
    """Where a runlist's gap begins, how long the engine had been held by then, and how it ended."""

    end_seconds: float
    held_seconds: float
    is_whole: bool


@dataclass(slots=True)
class _Sums:
    """What was added up since the block began."""

    busy_seconds: dict[int, float] = field(default_factory=dict)
    certain_wait_seconds: dict[int, float] = field(default_factory=dict)
    held_seconds: float = 0.0
    lost_seconds: float = 0.0
    switch_count: float = 0.0
    slice_seconds: float = 0.0


class RunMeter:
    """Adds up one card's runs. Gaps go on over the ends of readings and blocks."""

    def __init__(self) -> None:
        self._sums = _Sums()
        self._last: dict[int, _LastRun] = {}
        self._held_seconds = 0.0
        self._newest: Run | None = None

    def add(self, part: LogPart, covered_seconds: float) -> None:
        """Take in a reading that stands for so much time.

        What was lost is taken to be like what is left: each reading counts for its own time, so
        that times with many short runs, of which more is lost, count as much as others.
        """
        if part.is_overrun or part.since_seconds is None:
            self._last.clear()
            self._newest = None
        if not part.runs:
            return
        runs, weight = part.runs, 1.0
        other_count = len({run.runlist for run in runs} | self._last.keys()) - 1
        if part.is_overrun:
            # From the end of a run to the end of another, so that pauses have their share.
            self._newest, runs = runs[0], runs[1:]
            known_seconds = part.runs[-1].end_seconds - self._newest.end_seconds
            self._sums.lost_seconds += max(0.0, covered_seconds - known_seconds)
            weight = max(1.0, covered_seconds / known_seconds) if known_seconds > 0 else 0.0
        for run in runs:
            self._add_run(run, weight, other_count)

    def _add_run(self, run: Run, weight: float, other_count: int) -> None:
        sums, last, newest = self._sums, self._last.get(run.runlist), self._newest
        switching_seconds = 0.0
        if newest is not None and newest.runlist != run.runlist:
            sums.switch_count += weight
            pause_seconds = run.start_seconds - newest.end_seconds
            if 0 < pause_seconds <= LONGEST_SWITCH_SECONDS:
                switching_seconds = pause_seconds
        self._held_seconds += switching_seconds
        if last is not None and last.is_whole:
            gap_seconds = run.start_seconds - last.end_seconds
            filled_seconds = self._held_seconds - last.held_seconds
            longest_seconds = LONGEST_WAIT_ROUNDS * other_count * run.slice_seconds
            if filled_seconds >= FILLED_RATIO * gap_seconds and gap_seconds <= longest_seconds:
                _add(sums.certain_wait_seconds, run.runlist, weight * gap_seconds)
        self._held_seconds += run.ran_seconds
        sums.held_seconds += weight * (switching_seconds + run.ran_seconds)
        sums.slice_seconds = max(sums.slice_seconds, run.slice_seconds)
        _add(sums.busy_seconds, run.runlist, weight * run.ran_seconds)
        self._last[run.runlist] = _LastRun(run.end_seconds, self._held_seconds, _is_whole(run))
        self._newest = run

    def take(self, seconds: float) -> LoggedBlock | None:
        """End a block that lasted so long; None if that is no time."""
        sums, self._sums = self._sums, _Sums()
        if seconds <= 0:
            return None
        # A run counts when it ends, with what of it was in the block before.
        scale = 1 / max(seconds, sums.held_seconds)
        return LoggedBlock(
            {runlist: each * scale for runlist, each in sums.busy_seconds.items()},
            {runlist: each * scale for runlist, each in sums.certain_wait_seconds.items()},
            sums.held_seconds * scale,
            max(0.0, 1 - sums.lost_seconds / seconds),
            sums.switch_count * scale,
            sums.slice_seconds or SLICE_SECONDS,
        )


def _is_whole(run: Run) -> bool:
    """Tell whether a run took whole slices to the end, so that more was wanted."""
    if run.slice_seconds <= 0:
        return False
    slices = run.ran_seconds / run.slice_seconds
    return round(slices) >= 1 and abs(slices - round(slices)) <= WHOLE_SLICE_TOLERANCE


def _add(sums: dict[K, float], key: K, seconds: float) -> None:
    sums[key] = sums.get(key, 0.0) + seconds


def logged_waits(block: LoggedBlock, device_samples: Sequence[float] = ()) -> dict[int, Wait]:
    """Estimate the wait of each runlist, and hold it within what the log says for certain.

    The log also counts the switches, and its shares are no samples that need correcting.
    """
    estimates = waits(
        Block(
            block.busy_ratios,
            block.held_ratio,
            sample_count=0,
            device_samples=device_samples,
            switches_per_second=block.switches_per_second,
        ),
        block.slice_seconds,
    )
    return {
        runlist: _clamped(wait, block.certain_wait_ratios.get(runlist, 0.0))
        for runlist, wait in estimates.items()
    }


def _clamped(wait: Wait, least_ratio: float) -> Wait:
    return replace(wait, wait_ratio=min(max(wait.wait_ratio, least_ratio), wait.upper_bound_ratio))


@dataclass(frozen=True, slots=True)
class _Reading(Generic[K]):
    """Shares of the time of one block, by runlist and by vGPU."""

    seconds: float
    by_runlist: Mapping[int, float]
    by_vgpu: Mapping[K, float]


class RunlistOwners(Generic[K]):
    """Finds out which runlist is which vGPU's: no call tells it, but each has the same load.

    What was found is kept until vGPUs or runlists come or go. Two with the same load all the time
    cannot be told apart.
    """

    def __init__(self) -> None:
        self._readings: deque[_Reading[K]] = deque()
        self._vgpus: frozenset[K] = frozenset()
        self._runlists: frozenset[int] = frozenset()
        self._owners: dict[int, K] = {}

    def note(
        self, seconds: float, by_runlist: Mapping[int, float], by_vgpu: Mapping[K, float]
    ) -> None:
        """Take in the shares of a block's time that the log and the driver told."""
        if frozenset(by_vgpu) != self._vgpus:  # a number may have gone to another
            self._readings.clear()
            self._vgpus, self._runlists = frozenset(by_vgpu), frozenset()
            self._owners = {}
        if not self._runlists >= by_runlist.keys():
            self._runlists |= by_runlist.keys()
            self._owners = {}
        self._readings.append(_Reading(seconds, by_runlist, by_vgpu))
        while sum(each.seconds for each in self._readings) - self._readings[0].seconds >= (
            MATCHING_SECONDS
        ):
            self._readings.popleft()
        if len(self._readings) >= FEWEST_READINGS:
            self._match()

    def owners(
        self, by_runlist: Mapping[int, float], by_vgpu: Mapping[K, float]
    ) -> dict[int, K] | None:
        """Give whose each runlist is; None while the owner of a load, or of a run, is not known."""
        loaded = {vgpu for vgpu, ratio in by_vgpu.items() if ratio > LEAST_LOAD_RATIO}
        running = {each for each, ratio in by_runlist.items() if ratio > LEAST_LOAD_RATIO}
        is_known = running <= self._owners.keys() and loaded <= set(self._owners.values())
        return dict(self._owners) if is_known else None

    def _match(self) -> None:
        """Find pairs of which each is the other's clear match, among those without one."""
        loads_of_runlists = {
            runlist: [each.by_runlist.get(runlist, 0.0) for each in self._readings]
            for runlist in self._runlists - self._owners.keys()
        }
        loads_of_vgpus = {
            vgpu: [each.by_vgpu[vgpu] for each in self._readings]
            for vgpu in self._vgpus - set(self._owners.values())
        }
        matches = _clear_matches(loads_of_runlists, loads_of_vgpus)
        back = _clear_matches(loads_of_vgpus, loads_of_runlists)
        for runlist, vgpu in matches.items():
            if back.get(vgpu) == runlist:
                self._owners[runlist] = vgpu


def _clear_matches(
    sought: Mapping[J, Sequence[float]], found: Mapping[K, Sequence[float]]
) -> dict[J, K]:
    """Give the nearest of the others for each, if it is much nearer than the next and than none."""
    matches = {}
    for key, loads in sought.items():
        distances = {other: _distance(loads, theirs) for other, theirs in found.items()}
        if not distances:
            continue
        best = min(distances, key=distances.__getitem__)
        rivals = [each for other, each in distances.items() if other != best]
        next_best = min((*rivals, fmean(loads)))
        if next_best >= CLEAR_TIMES * distances[best] + CLEAR_RATIO:
            matches[key] = best
    return matches


def _distance(loads: Sequence[float], others: Sequence[float]) -> float:
    return fmean(abs(load - other) for load, other in zip(loads, others, strict=True))
