"""Sums a block of sightings into hours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rightslice.contract.histogram import BIN_COUNT, RATIO_EDGES
from rightslice.contract.sampling import MEAN_SECONDS
from rightslice.feeders.gauges.block import NOBODY, SOMEBODY, UNKNOWN, Block
from rightslice.feeders.gauges.hour_sums import Covered, heads_of, hours_of
from rightslice.feeders.gauges.mapping import Field
from rightslice.feeders.gauges.minute_means import MinuteMeans
from rightslice.feeders.gauges.sightings import Flags, Floats, Numbers
from rightslice.feeders.hours.spread import spread

# A kernel that runs keeps at least one multiprocessor at work: an SM activity of exactly 0 beside
# a busy card is a profiling counter that hangs, and no reading.
STUCK_BUSY_RATIO = 0.5
# More than any card draws: an energy counter that grew faster was set, not counted.
HIGHEST_WATTS = 5000.0

OBSERVED, ALLOCATION_OBSERVED, ALLOCATED = (
    "observed_seconds",
    "allocation_observed_seconds",
    "allocated_seconds",
)
BUSY_OBSERVED, BUSY, UNREQUESTED = (
    "busy_observed_seconds",
    "busy_seconds",
    "unrequested_busy_seconds",
)
SM_OBSERVED, SM, DRAM = "sm_observed_seconds", "sm_active_seconds", "dram_active_seconds"


@dataclass(slots=True)
class GaugeMemory:
    """What is kept from one batch to the next, by card or instance."""

    last_seconds: dict[str, float] = field(default_factory=dict)
    last_joules: dict[str, float] = field(default_factory=dict)
    busy_means: MinuteMeans = field(default_factory=MinuteMeans)
    sm_means: MinuteMeans = field(default_factory=MinuteMeans)

    def forget(self, name: str) -> None:
        """Drop what is kept of one thing."""
        for kept in (
            self.last_seconds,
            self.last_joules,
            self.busy_means.open,
            self.sm_means.open,
        ):
            kept.pop(name, None)

    def remember(self, block: Block) -> None:
        """Note when each thing of a block was last told of."""
        heads = heads_of(block.owner)
        ends = np.append(heads[1:], len(block.owner)) - 1
        owners, stamps = block.owner[ends].tolist(), block.stamps[ends].tolist()
        for owner, stamp in zip(owners, stamps, strict=True):
            self.last_seconds[block.names[owner]] = stamp

    def state(self) -> dict[str, Any]:
        """Give what to go on from, in a shape that JSON can hold.

        The minute that is being formed is left out: it is dropped as one with a gap.
        """
        return {"last_seconds": self.last_seconds, "last_joules": self.last_joules}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self.last_seconds = dict(state["last_seconds"])
        self.last_joules = dict(state["last_joules"])

    def clear(self) -> None:
        """Forget when things were read."""
        self.last_seconds.clear()
        self.last_joules.clear()
        self.busy_means.open.clear()
        self.sm_means.open.clear()


@dataclass(frozen=True, slots=True)
class Counts:
    """How many observations of a thing in an hour fell into each bin of a histogram."""

    name: str
    hour: int
    bins: list[float]
    interval_seconds: float

    def add_to(self, bins: list[float]) -> None:
        """Add to counts so far, or to an empty list."""
        known = bins or [0.0] * BIN_COUNT
        bins[:] = [old + new for old, new in zip(known, self.bins, strict=True)]


@dataclass(frozen=True, slots=True)
class LastTold:
    """What stood at the last sightings of an hour; None where nothing did."""

    name: str
    hour: int
    first_seconds: float
    last_seconds: float
    memory_used_peak_bytes: float | None
    memory_total_bytes: float | None
    busy_metric: int | None
    is_cut: bool
    is_stuck: bool


def stuck(block: Block) -> Flags:
    """Tell where the counter of multiprocessors' activity hangs."""
    hangs: Flags = block.values[Field.SM_ACTIVE] == 0
    return hangs & (block.values[Field.BUSY] >= STUCK_BUSY_RATIO)


def sm_active(block: Block) -> Floats:
    """Give multiprocessors' activity where it was read."""
    return np.where(stuck(block), np.nan, block.values[Field.SM_ACTIVE])


def whole_busy(block: Block) -> Floats:
    """Give busy; an instance's activity says nothing of the whole card."""
    return np.where(block.is_cut, np.nan, block.values[Field.BUSY])


def card_seconds(seen: Covered) -> dict[str, Floats]:
    """Sum the seconds of cards, by name of the row's field."""
    block, busy, active = seen.block, whole_busy(seen.block), sm_active(seen.block)
    nobodys = np.where(block.held == NOBODY, busy, np.nan)
    return {
        OBSERVED: seen.total(_told(block.values[Field.MEMORY_USED])),
        ALLOCATION_OBSERVED: seen.total(1.0 * (block.held != UNKNOWN)),
        ALLOCATED: seen.total(1.0 * (block.held == SOMEBODY)),
        BUSY_OBSERVED: seen.total(_told(busy)),
        BUSY: seen.total(busy),
        UNREQUESTED: seen.total(nobodys),
        SM_OBSERVED: seen.total(_told(active)),
        SM: seen.total(active),
        DRAM: seen.total(block.values[Field.DRAM_ACTIVE] * _told(active)),
    }


def instance_seconds(seen: Covered) -> dict[str, Floats]:
    """Sum the seconds of instances; busy are those of their multiprocessors' activity."""
    block, active = seen.block, sm_active(seen.block)
    nobodys = np.where(block.held == NOBODY, active, np.nan)
    return {
        OBSERVED: seen.total(_told(block.values[Field.MEMORY_USED])),
        ALLOCATION_OBSERVED: seen.total(1.0 * (block.held != UNKNOWN)),
        ALLOCATED: seen.total(1.0 * (block.held == SOMEBODY)),
        BUSY_OBSERVED: seen.total(_told(active)),
        BUSY: seen.total(active),
        UNREQUESTED: seen.total(nobodys),
    }


def _told(values: Floats) -> Floats:
    return 1.0 * ~np.isnan(values)


def each_hour(seen: Covered, sums: Mapping[str, Floats]) -> Iterator[tuple[str, int, list[float]]]:
    """Give the hours for which anything was summed: name, hour and each sum in order."""
    touched = np.flatnonzero(seen.total(np.ones(len(seen.block.stamps))))
    rows = np.array([sums[name][touched] for name in sums]).T.tolist()
    for place, row in zip(touched.tolist(), rows, strict=True):
        if not any(row):
            continue
        owner, hour = divmod(place, seen.hour_count)
        yield seen.block.names[owner], hour + seen.first_hour, row


def last_told(seen: Covered) -> list[LastTold]:
    """Give, by thing and hour of the sightings, what is no sum; by time, as it was told."""
    block, hours = seen.block, hours_of(seen.block.stamps)
    heads = heads_of(block.owner, hours)
    ends = np.append(heads[1:], len(hours)) - 1
    total = block.memory_total
    sized = ~np.isnan(total) & (total > 0)
    busy = ~np.isnan(whole_busy(block)) & (seen.covered > 0)
    total_at, busy_at = _last_where(sized, heads), _last_where(busy, heads)
    made = [
        LastTold(
            name=block.names[owner],
            hour=hour,
            first_seconds=first,
            last_seconds=last,
            memory_used_peak_bytes=None if peak != peak else peak,  # NaN
            memory_total_bytes=None if sized_at < 0 else float(total[sized_at]),
            busy_metric=None if told_at < 0 else int(block.busy_metric[told_at]),
            is_cut=is_cut,
            is_stuck=is_stuck,
        )
        for owner, hour, first, last, peak, sized_at, told_at, is_cut, is_stuck in zip(
            block.owner[heads].tolist(),
            hours[heads].tolist(),
            block.stamps[heads].tolist(),
            block.stamps[ends].tolist(),
            np.fmax.reduceat(block.values[Field.MEMORY_USED], heads).tolist(),
            total_at.tolist(),
            busy_at.tolist(),
            np.logical_or.reduceat(block.is_cut, heads).tolist(),
            np.logical_or.reduceat(stuck(block), heads).tolist(),
            strict=True,
        )
    ]
    return sorted(made, key=lambda one: one.last_seconds)


def _last_where(flags: Flags, heads: Numbers) -> Numbers:
    """Give the place of the last true flag of each run; -1 for none."""
    return np.maximum.reduceat(np.where(flags, np.arange(len(flags)), -1), heads)


def memory_counts(seen: Covered) -> list[Counts]:
    """Count each sighting's share of memory."""
    block = seen.block
    used, total = block.values[Field.MEMORY_USED], block.memory_total
    rows = np.flatnonzero((total > 0) & ~np.isnan(used) & (seen.covered > 0))
    ratio = np.minimum(used[rows] / total[rows], 1.0)
    return _counts(
        block.names, block.owner[rows], hours_of(block.stamps[rows]), ratio, block.intervals[rows]
    )


def mean_counts(seen: Covered, ratio: Floats, means: MinuteMeans) -> list[Counts]:
    """Count means: the reading's own where it spans a minute or more, else the minute's."""
    block = seen.block
    told = ~np.isnan(ratio) & (seen.covered > 0)
    is_long = block.intervals >= MEAN_SECONDS
    rows = np.flatnonzero(told & is_long)
    counts = _counts(
        block.names,
        block.owner[rows],
        hours_of(block.stamps[rows]),
        ratio[rows],
        block.intervals[rows],
    )
    rows = np.flatnonzero(told & ~is_long)
    owner, ends, mean = means.add(
        block.names, block.owner[rows], block.stamps[rows], ratio[rows], seen.covered[rows]
    )
    lengths = np.full(len(owner), MEAN_SECONDS)
    return [*counts, *_counts(block.names, owner, hours_of(ends), mean, lengths)]


def _counts(
    names: Sequence[str], owner: Numbers, hours: Numbers, ratio: Floats, intervals: Floats
) -> list[Counts]:
    if not len(owner):
        return []
    heads = heads_of(owner, hours)
    run = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(owner)))
    keys = run * BIN_COUNT + np.searchsorted(RATIO_EDGES, ratio, side="left")
    bins = np.bincount(keys, minlength=len(heads) * BIN_COUNT).reshape(-1, BIN_COUNT)
    return [
        Counts(names[one], hour, counts, interval)
        for one, hour, counts, interval in zip(
            owner[heads].tolist(),
            hours[heads].tolist(),
            bins.astype(np.float64).tolist(),
            intervals[heads].tolist(),
            strict=True,
        )
    ]


def energy(seen: Covered, memory: GaugeMemory, add: Callable[[str, int, float], None]) -> None:
    """Add joules by thing and hour: what the counter grew by, across gaps too, else power times
    the seconds covered."""
    block, counter = seen.block, seen.block.values[Field.ENERGY]
    heads = heads_of(block.owner)
    before = np.empty(len(counter))
    before[1:] = counter[:-1]
    before[heads] = [memory.last_joules.get(block.names[n], np.nan) for n in block.owner[heads]]
    grown = counter - before
    counted = (grown >= 0) & (grown <= HIGHEST_WATTS * seen.gaps)
    across_gap = counted & (seen.gaps > seen.covered)
    with np.errstate(invalid="ignore", divide="ignore"):
        watts = np.where(counted, grown / seen.gaps, block.values[Field.POWER])
    watts[across_gap] = np.nan
    known = seen.total(_told(watts))
    joules = seen.total(watts)
    for place in np.flatnonzero(known).tolist():
        owner, hour = divmod(place, seen.hour_count)
        add(block.names[owner], hour + seen.first_hour, float(joules[place]))
    for row in np.flatnonzero(across_gap).tolist():
        end_seconds = float(block.stamps[row])
        for hour, part in spread(end_seconds - seen.gaps[row], end_seconds, float(grown[row])):
            add(block.names[block.owner[row]], hour, part)
    ends = np.append(heads[1:], len(counter)) - 1
    for owner, joules_at in zip(block.owner[ends].tolist(), counter[ends].tolist(), strict=True):
        if joules_at == joules_at:  # not NaN
            memory.last_joules[block.names[owner]] = joules_at
        else:
            memory.last_joules.pop(block.names[owner], None)
