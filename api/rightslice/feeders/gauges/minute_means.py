"""Means over wall-clock minutes, of many readings at once.

The same rule as the exporter's `SpanMean`: a reading tells of the time before it, so it belongs to
the minute of its middle; a minute of which less than three quarters is covered is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rightslice.contract.sampling import MEAN_SECONDS, SPAN_COVERED_RATIO
from rightslice.feeders.gauges.sightings import Floats, Numbers

OpenMinute = tuple[int, float, float]


@dataclass(slots=True)
class MinuteMeans:
    """The minute that is being formed of each thing: (minute, weighted sum, covered seconds)."""

    open: dict[str, OpenMinute] = field(default_factory=dict)

    def add(
        self, names: Sequence[str], owner: Numbers, stamps: Floats, values: Floats, covered: Floats
    ) -> tuple[Numbers, Floats, Floats]:
        """Take in readings, by owner and in the order of time, each of which covers some time.

        Gives the minutes that were finished: their owner, end and mean.
        """
        if not len(owner):
            return owner, stamps, values
        minute = ((stamps - covered / 2) // MEAN_SECONDS).astype(np.int64)
        weighted, seconds = values * covered, covered.copy()
        first_of_owner = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        earlier = self._join(names, owner, minute, weighted, seconds, first_of_owner)
        begins = np.append(True, (owner[1:] != owner[:-1]) | (minute[1:] != minute[:-1]))
        run = np.cumsum(begins) - 1
        sums, covers = np.bincount(run, weighted), np.bincount(run, seconds)
        heads = np.flatnonzero(begins)
        run_owner, run_minute = owner[heads], minute[heads]
        is_last = np.append(run_owner[1:] != run_owner[:-1], True)
        for place in np.flatnonzero(is_last):
            self.open[names[run_owner[place]]] = (
                int(run_minute[place]),
                float(sums[place]),
                float(covers[place]),
            )
        done = ~is_last & (covers >= SPAN_COVERED_RATIO * MEAN_SECONDS)
        return (
            np.concatenate([np.array([one[0] for one in earlier], np.int64), run_owner[done]]),
            np.concatenate(
                [np.array([one[1] for one in earlier]), (run_minute[done] + 1) * MEAN_SECONDS]
            ),
            np.concatenate([np.array([one[2] for one in earlier]), sums[done] / covers[done]]),
        )

    def _join(
        self,
        names: Sequence[str],
        owner: Numbers,
        minute: Numbers,
        weighted: Floats,
        seconds: Floats,
        first_of_owner: Numbers,
    ) -> list[tuple[int, float, float]]:
        """Add the open minutes to the first readings, or finish those that are over."""
        finished = []
        for place in first_of_owner:
            known = self.open.get(names[owner[place]])
            if known is None:
                continue
            known_minute, known_sum, known_seconds = known
            if known_minute == minute[place]:
                weighted[place] = known_sum + weighted[place]
                seconds[place] = known_seconds + seconds[place]
            elif known_seconds >= SPAN_COVERED_RATIO * MEAN_SECONDS:
                end_seconds = (known_minute + 1) * MEAN_SECONDS
                finished.append((int(owner[place]), end_seconds, known_sum / known_seconds))
        return finished
