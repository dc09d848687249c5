"""All series behind one lock: readings come in from many threads, pages go out."""

import threading
from collections.abc import Iterable

from rightslice.contract.spec import Sample
from rightslice.exporter.aggregate import Aggregate
from rightslice.exporter.exposition import Renderer
from rightslice.exporter.host.clock import Clock


class Store:
    """May be used from any thread; nothing is done under its lock but arithmetic and text."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._aggregate = Aggregate()
        self._renderer = Renderer()

    def apply(
        self, owner: str, samples: Iterable[Sample], *, keep: bool = False, is_whole: bool = True
    ) -> None:
        """Take in one reading of `owner`, in place of the gauges that it gave before.

        Workloads that a whole reading does not tell any more have ended; one that failed in part
        says nothing of those that it lacks.
        """
        samples = tuple(samples)
        wall_seconds = self._clock.wall_seconds()
        monotonic_seconds = self._clock.monotonic_seconds()
        with self._lock:
            self._aggregate.apply(owner, samples, wall_seconds, monotonic_seconds, keep=keep)
            if is_whole and not keep:
                self._aggregate.tell_subjects(owner, samples, monotonic_seconds)
            self._aggregate.forget_ended(monotonic_seconds)

    def scraped(self) -> None:
        """Count a page that its reader has got whole."""
        with self._lock:
            self._aggregate.scraped()

    def drop_owners(self, owners: Iterable[str]) -> None:
        """Drop the gauges of owners that read no more; their counters stay."""
        with self._lock:
            for owner in owners:
                self._aggregate.drop_owner(owner)

    def end_owners(self, owners: Iterable[str]) -> None:
        """Drop the gauges of owners that are gone for good; what they alone told of has ended."""
        monotonic_seconds = self._clock.monotonic_seconds()
        with self._lock:
            for owner in owners:
                self._aggregate.end_owner(owner, monotonic_seconds)

    def drop_label(self, value: str) -> None:
        """Drop every series that bears this label value."""
        with self._lock:
            self._aggregate.drop_label(value)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Render all series as they stand: the page and its content type."""
        with self._lock:
            series = self._aggregate.series(self._clock.monotonic_seconds())
            return self._renderer.render(series, accept)
