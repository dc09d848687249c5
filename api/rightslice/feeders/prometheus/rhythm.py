"""When a target was read around the edges of hours, and whose hours hold more than edges tell."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.selectors import TargetKey, target_key

# A reset, or a scrape that came late, is looked for this many intervals around an hour's edge.
EDGE_INTERVALS = 2.5
# So many scrapes may be missing of an hour that is even.
MISSED_SCRAPES = 2.5
# The reading after an edge comes one interval after the one before it, give or take this share.
UNSTEADY_RATIO = 0.3
# It is looked for in a window after the edge that is surely too short for the one after it.
SHORT_WINDOW_RATIO, LONG_WINDOW_RATIO = 0.75, 1.25
DEFAULT_INTERVAL_SECONDS = 60.0

# A value for each hour, counted from the Unix epoch, that stands at its start.
ByHour = Mapping[int, float]


@dataclass(slots=True)
class Rhythm:
    """One stream of a target in a span of whole hours; edges are hours' starts.

    `before` and `after` are when the last reading up to an edge, and the first beyond, were taken.
    """

    key: TargetKey
    interval_seconds: float
    window_seconds: float
    counts: ByHour
    before: ByHour
    after: ByHour = field(default_factory=dict)
    uneven_hours: set[int] = field(default_factory=set)

    @property
    def margin_seconds(self) -> float:
        return EDGE_INTERVALS * self.interval_seconds

    def note_gaps(self, hours: range) -> None:
        """Find the hours that begin or end without a reading, or miss some."""
        expected = SECONDS_PER_HOUR / self.interval_seconds - MISSED_SCRAPES
        for hour in hours:
            told = [self.is_told(edge) for edge in (hour, hour + 1)]
            count = self.counts.get(hour, 0.0)
            is_absent = not count and not any(told)
            if not is_absent and (not all(told) or count < expected):
                self.uneven_hours.add(hour)

    def is_told(self, edge: int) -> bool:
        """Tell whether the readings next to an edge are one interval apart."""
        before, after = self.before.get(edge), self.after.get(edge)
        if before is None or after is None:
            return False
        off_seconds = abs(after - before - self.interval_seconds)
        return off_seconds <= UNSTEADY_RATIO * self.interval_seconds


def rhythms(
    label_names: Sequence[str],
    streams: Iterable[TargetKey],
    counts: Iterable[Samples],
    before: Iterable[Samples],
) -> list[Rhythm]:
    """Put together what a span's hourly counts and its times of readings before edges tell."""
    counted = _by_stream(label_names, counts, sum)
    stamped = _by_stream(label_names, before, max)
    intervals = {key: _interval(counted[key]) for key in streams if key in counted}
    usual = statistics.median(intervals.values()) if intervals else DEFAULT_INTERVAL_SECONDS
    made = []
    for key, own in intervals.items():
        # Estimates differ a little; those that mean the same are asked for together.
        interval = usual if abs(own - usual) <= 0.1 * usual else own
        edges = stamped.get(key, {})
        # An hour's count is told at its end.
        hours = {edge - 1: count for edge, count in counted[key].items()}
        made.append(Rhythm(key, interval, _window(interval, edges), hours, edges))
    return made


def _interval(counts: ByHour) -> float:
    return SECONDS_PER_HOUR / max(1.0, round(statistics.median(counts.values())))


def _window(interval_seconds: float, before: ByHour) -> float:
    """Choose a time after edges that holds one reading, whenever in the interval it comes."""
    left = [interval_seconds - (edge * SECONDS_PER_HOUR - at) for edge, at in before.items()]
    is_soon = bool(left) and statistics.median(left) <= interval_seconds / 2
    ratio = SHORT_WINDOW_RATIO if is_soon else LONG_WINDOW_RATIO
    # Older servers count a window's open end in.
    return round(ratio * interval_seconds, 3) - 0.001


def take_after(rhythm: Rhythm, label_names: Sequence[str], stamps: Iterable[Samples]) -> None:
    """Note when the readings after edges were taken, asked for a window after each edge."""
    told = _by_stream(label_names, stamps, max).get(rhythm.key, {})
    rhythm.after = {edge: at for edge, at in told.items() if at > edge * SECONDS_PER_HOUR}


def _by_stream(
    label_names: Sequence[str], series: Iterable[Samples], join: Callable[[Iterable[float]], float]
) -> dict[TargetKey, dict[int, float]]:
    """Give values by the last edge up to their step; of a new version there are two series."""
    found: dict[TargetKey, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        edges = found[target_key(one.labels, label_names)]
        for step, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
            edges[int(step // SECONDS_PER_HOUR)].append(value)
    return {
        key: {edge: join(values) for edge, values in edges.items()} for key, edges in found.items()
    }
