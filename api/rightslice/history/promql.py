"""The last hours of cards, asked of a Prometheus each time, up to this second; nothing is kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.gauges import LEAD_SECONDS, GaugeReader, find_cards
from rightslice.feeders.prometheus.ours import OurReader
from rightslice.feeders.prometheus.sources import Sources
from rightslice.feeders.prometheus.span import Known, SpanMapper
from rightslice.feeders.prometheus.targets import find_targets
from rightslice.ledger.batch import Batch
from rightslice.ledger.ledger import Ledger
from rightslice.profile.usage import CardUsage

HOUR = timedelta(hours=1)
# Beyond that it is quicker, and easier on the server, to keep what was read.
LONGEST_WINDOW = timedelta(hours=48)
# A card that nobody sees any more is owned for a day: it has to be known in the window.
LEAD = timedelta(hours=24)


class PromqlHistory:
    """A Prometheus as a History. Raises SourceError for one that cannot be read.

    What the feeders make of its metrics is summed by a ledger in memory: there is one way to make
    facts of metrics, and one to sum them.
    """

    def __init__(
        self,
        client: PrometheusClient,
        sources: Sources,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._sources = sources
        self._now = now

    def span(self) -> tuple[datetime, datetime] | None:
        """Give the first hour, and when a card was last read, of the longest window."""
        now = self._now()
        with self._read(now - LONGEST_WINDOW, now) as ledger:
            return ledger.span()

    def card_usage(self, start: datetime, end: datetime) -> list[CardUsage]:
        """Sum each card's hours that begin in [start, end); raises SourceError for a long window.

        Of the hour that is not over, what has passed.
        """
        end = min(end, self._now())
        if end - start > LONGEST_WINDOW:
            raise SourceError(
                f"{(end - start) / HOUR:g} h are too long to be asked of {self._client.url} each "
                f"time, {LONGEST_WINDOW / HOUR:g} h are the most; ask for less, or fill a ledger"
            )
        with self._read(start - LEAD, end) as ledger:
            return ledger.card_usage(start, end)

    @contextmanager
    def _read(self, start: datetime, end: datetime) -> Iterator[Ledger]:
        """Read the hours that touch [start, end), as far as they have passed."""
        last_hour = -int(-end.timestamp() // SECONDS_PER_HOUR)
        hours = range(int(start.timestamp() // SECONDS_PER_HOUR), last_hour)
        ledger = Ledger.open()
        try:
            if hours:
                ledger.replace_hours(self._batch(hours))
            yield ledger
        finally:
            ledger.close()

    def _batch(self, hours: range) -> Batch:
        client, mappings = self._client, self._sources.mappings
        span = hours.start * SECONDS_PER_HOUR - LEAD_SECONDS, float(hours.stop * SECONDS_PER_HOUR)
        mapper = SpanMapper(hours, Known(), mappings, is_next=True)
        if self._sources.has_ours:
            for told in OurReader(client, find_targets(client, *span)).read(
                hours.start, hours.stop
            ):
                mapper.take_ours(told)
        for cards in find_cards(client, mappings, *span):
            mapper.learn(cards.mapping.name, cards.label_sets)
            for series in GaugeReader(client, cards).read(hours.start, hours.stop):
                mapper.take_gauges(cards.mapping.name, series)
        return mapper.batch(self._now().timestamp())
