"""One page of our exporter: series by metric, histograms put together, nonsense left out."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rightslice.contract import metrics
from rightslice.contract.histogram import BIN_COUNT
from rightslice.contract.sampling import MEAN_SECONDS
from rightslice.feeders.ours.metrics import INFO_NAMES, RESET_NAME, RULES_BY_NAME
from rightslice.feeders.ours.rules import GROWING, Rule
from rightslice.feeders.ours.series import SeriesBook
from rightslice.feeders.readings import LEAST_BLANK, Reading, is_blank
from rightslice.ledger.rows import Bins

# Bytes of the largest memory: a gauge above is no reading.
LARGEST_VALUE = float(1 << 50)
# Bytes over the fastest links for years, which no counter of seconds or events comes near.
LARGEST_COUNT = 1e21
# The largest value of each metric that we know.
_LARGEST = dict.fromkeys((*INFO_NAMES, RESET_NAME), LARGEST_VALUE) | {
    name: LARGEST_COUNT if rules[0].how in GROWING else LARGEST_VALUE
    for name, rules in RULES_BY_NAME.items()
}

Labels = tuple[str, ...]


@dataclass(slots=True)
class OurPage:
    """What one page tells that the table of our metrics knows."""

    by_name: dict[str, list[Reading]] = field(default_factory=dict)
    rejected_count: int = 0

    @classmethod
    def of(cls, readings: Iterable[Reading]) -> "OurPage":
        page = cls()
        for reading in readings:
            name, _, value = reading
            largest = _LARGEST.get(name)
            if largest is None:
                continue
            if not 0 <= value <= largest or (value >= LEAST_BLANK and is_blank(value)):
                page.rejected_count += 1
                continue
            found = page.by_name.get(name)
            if found is None:
                found = page.by_name[name] = []
            found.append(reading)
        return page

    def named(self, name: str) -> list[Reading]:
        return self.by_name.get(name, [])

    def by_card(self, name: str) -> dict[str, list[Reading]]:
        """Give a metric's readings by their cards."""
        found: dict[str, list[Reading]] = {}
        for reading in self.named(name):
            found.setdefault(reading.labels.get("uuid", ""), []).append(reading)
        return found

    @property
    def process_start_seconds(self) -> float | None:
        starts = self.named(RESET_NAME)
        return starts[0].value if starts else None

    @property
    def node(self) -> str:
        nodes = self.named(metrics.NODE_INFO.name)
        return nodes[0].labels.get("node", "") if nodes else ""

    def interval_seconds(self, signal: str) -> float:
        """Give what an observation of a signal's histogram stands for."""
        for reading in self.named(metrics.SIGNAL_INTERVAL_SECONDS.name):
            if reading.labels.get("signal") == signal:
                return reading.value
        return MEAN_SECONDS

    def histograms(
        self, rule: Rule, book: SeriesBook | None = None
    ) -> dict[Labels, tuple[Reading, Bins]]:
        """Give a histogram's series by their labels: one of their readings, and the bins' counts.

        One of which a bucket is missing, or whose buckets fall, is not told on this page. The book
        knows the series of earlier pages.
        """
        cumulative: dict[Labels, tuple[Reading, list[float | None]]] = {}
        for reading, (key, index) in (book or SeriesBook()).buckets(rule, self.named(rule.name)):
            if index is None:  # another version's edges: not to be mixed with these
                self.rejected_count += 1
                continue
            series = cumulative.get(key)
            if series is None:
                series = cumulative[key] = (reading, [None] * BIN_COUNT)
            series[1][index] = reading.value
        return {
            key: (reading, bins)
            for key, (reading, counts) in cumulative.items()
            if (bins := _bins(counts)) is not None
        }


def _bins(cumulative: list[float | None]) -> Bins | None:
    """Give each bin's own count: what its edge has more than the edge below."""
    bins, below = [], 0.0
    for count in cumulative:
        if count is None or count < below:
            return None
        bins.append(count - below)
        below = count
    return tuple(bins)
