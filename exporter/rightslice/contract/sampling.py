"""What a reading stands for: rules that the exporter and the ledger's feeders share."""

from dataclasses import dataclass

# What a histogram of compute use observes.
MEAN_SECONDS = 60.0
# One missed scrape at the usual 60 s loses no peak: two intervals and some delay.
PEAK_WINDOW_SECONDS = 130.0
# A reading stands for the time since the one before, but for no more than two intervals: one
# missed reading is bridged, a longer gap is unknown.
COVERED_INTERVALS = 2.0
# A span of which less is covered is dropped: its mean would be of another time.
SPAN_COVERED_RATIO = 0.75
# Without an orchestrator a card is held when a process has memory on it. An idle card shows below
# 16 MiB without the driver's reserve, the smallest CUDA context well above this.
HELD_MEMORY_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """The mean of a wall-clock span that was covered well enough."""

    end_seconds: float
    mean: float


@dataclass(slots=True)
class SpanMean:
    """Forms means over wall-clock spans, such as minutes, from readings that cover time."""

    span_seconds: float
    _span: int = -1
    _weighted_sum: float = 0.0
    _covered_seconds: float = 0.0

    def add(self, now_seconds: float, value: float, covered_seconds: float) -> FinishedSpan | None:
        """Take in a reading; gives the span before when this one begins another."""
        # A reading tells of the time before it, so it belongs to the span of its middle.
        span = int((now_seconds - covered_seconds / 2) // self.span_seconds)
        finished = None
        if span != self._span:
            if self._covered_seconds >= SPAN_COVERED_RATIO * self.span_seconds:
                mean = self._weighted_sum / self._covered_seconds
                finished = FinishedSpan((self._span + 1) * self.span_seconds, mean)
            self._span, self._weighted_sum, self._covered_seconds = span, 0.0, 0.0
        self._weighted_sum += value * covered_seconds
        self._covered_seconds += covered_seconds
        return finished
