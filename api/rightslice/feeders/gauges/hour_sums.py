"""What sightings stand for in time: seconds covered, spread over hours and summed."""

from dataclasses import dataclass

import numpy as np

from rightslice.contract.sampling import COVERED_INTERVALS
from rightslice.feeders.gauges.block import Block
from rightslice.feeders.gauges.sightings import Floats, Numbers
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Parts:
    """Spans of time cut at the hours: which span, in which hour, and how many seconds of it."""

    row: Numbers
    hour: Numbers
    seconds: Floats


def hours_of(stamps: Floats) -> Numbers:
    """Give the hours that end at or after readings' times, counted from the Unix epoch."""
    return np.ceil(stamps / SECONDS_PER_HOUR).astype(np.int64) - 1


def cut_at_hours(ends: Floats, lengths: Floats) -> Parts:
    """Cut the spans (end - length, end] at the hours; one without length is in its end's hour."""
    starts, last = ends - lengths, hours_of(ends)
    first = np.floor(starts / SECONDS_PER_HOUR).astype(np.int64)
    counts = np.maximum(last - first, 0) + 1
    counts[lengths <= 0] = 1
    if np.all(counts == 1):
        return Parts(np.arange(len(ends)), last, lengths)
    row = np.repeat(np.arange(len(ends)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    whole = counts[row] == 1
    hour = np.where(whole, last[row], first[row] + place)
    begin = np.maximum(starts[row], hour * SECONDS_PER_HOUR)
    end = np.minimum(ends[row], (hour + 1) * SECONDS_PER_HOUR)
    return Parts(row, hour, np.where(whole, lengths[row], end - begin))


@dataclass(slots=True)
class Covered:
    """The seconds that each sighting of a block stands for.

    `gaps` are the seconds since the one before, NaN for the first ever; `covered` no more than two
    intervals of them.
    """

    block: Block
    gaps: Floats
    covered: Floats
    parts: Parts
    first_hour: int
    hour_count: int

    @classmethod
    def of(cls, block: Block) -> "Covered":
        """Cover the time between the sightings of a block."""
        gaps = block.stamps - block.before
        known = np.where(np.isnan(gaps), 0.0, gaps)
        covered = np.minimum(known, COVERED_INTERVALS * block.intervals)
        parts = cut_at_hours(block.stamps, covered)
        first_hour = int(parts.hour.min())
        return cls(block, gaps, covered, parts, first_hour, int(parts.hour.max()) - first_hour + 1)

    def total(self, share: Floats) -> Floats:
        """Sum the covered seconds times a share of them, by thing and hour; NaN is none."""
        return self.total_of(self.parts, np.where(np.isnan(share), 0.0, share))

    def total_of(self, parts: Parts, rate: Floats) -> Floats:
        """Sum a rate over parts of time, by thing and hour."""
        place = self.block.owner[parts.row] * self.hour_count + (parts.hour - self.first_hour)
        size = len(self.block.names) * self.hour_count
        summed = np.bincount(place, parts.seconds * rate[parts.row], minlength=size)
        return summed.astype(np.float64, copy=False)


def heads_of(*keys: Numbers) -> Numbers:
    """Give where runs of equal keys begin."""
    changes = np.zeros(len(keys[0]), dtype=bool)
    changes[:1] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changes)
