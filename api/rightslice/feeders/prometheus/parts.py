"""Asks in smaller parts what a server finds too large: for fewer things first, then less time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rightslice.feeders.prometheus.answer import LimitError, Samples, joined

# So many samples an answer is meant to have; they take some 30 MB.
SAMPLES_PER_QUERY = 1_000_000
# Splitting a range further than to this length would mean thousands of queries.
SHORTEST_RANGE_SECONDS = 600.0

Ask = Callable[[Sequence[Any], float, float], list[Samples]]


@dataclass(slots=True)
class QuerySize:
    """How many things (cards, targets) one query asks of; it adapts to answers and refusals."""

    count: int
    sample_count: int = SAMPLES_PER_QUERY
    # What the server refused; nothing of this size is asked again.
    refused_count: int | None = None

    def batches(self, things: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Cut things into batches, each of the size that is right by then."""
        start = 0
        while start < len(things):
            end = start + self.count
            yield things[start:end]
            start = end

    def saw(self, thing_count: int, sample_count: int) -> None:
        """Note how large an answer was."""
        if thing_count and sample_count:
            fitting = int(self.sample_count * thing_count / sample_count)
            self._set(min(fitting, 4 * self.count))

    def refuse(self, thing_count: int) -> None:
        """Note that so many were too many."""
        if thing_count > 1:
            self.refused_count = min(thing_count, self.refused_count or thing_count)
            self._set(self.refused_count // 2)

    def _set(self, count: int) -> None:
        most = count if self.refused_count is None else min(count, self.refused_count // 2)
        self.count = max(1, most)


def ask_in_parts(
    ask: Ask,
    things: Sequence[Any],
    start_seconds: float,
    end_seconds: float,
    size: QuerySize,
    step_seconds: float | None = None,
) -> list[Samples]:
    """Ask for some things and a range; raises LimitError where the least is still too much.

    With a step both ends are steps; without, the range is open at its start.
    """
    try:
        return ask(things, start_seconds, end_seconds)
    except LimitError:
        size.refuse(len(things))
        if len(things) > 1:
            middle = len(things) // 2
            halves = (things[:middle], things[middle:])
            return [
                one
                for half in halves
                for one in ask_in_parts(ask, half, start_seconds, end_seconds, size, step_seconds)
            ]
        spans = _halves(start_seconds, end_seconds, step_seconds)
        if not spans:
            raise
        return joined(ask_in_parts(ask, things, *span, size, step_seconds) for span in spans)


def _halves(
    start_seconds: float, end_seconds: float, step_seconds: float | None
) -> list[tuple[float, float]]:
    """Cut a range in two; nothing where it is short enough."""
    length_seconds = end_seconds - start_seconds
    if step_seconds is None:
        if length_seconds < 2 * SHORTEST_RANGE_SECONDS:
            return []
        middle_seconds = (start_seconds + end_seconds) // 2
        return [(start_seconds, middle_seconds), (middle_seconds, end_seconds)]
    step_count = round(length_seconds / step_seconds)
    if step_count < 1:
        return []
    last_seconds = start_seconds + (step_count - 1) // 2 * step_seconds
    return [(start_seconds, last_seconds), (last_seconds + step_seconds, end_seconds)]
