"""Which workloads there are, and how long the counters of one that ended are still told."""

from collections.abc import Iterable
from dataclasses import dataclass, field

Labels = tuple[str, ...]

# An ended workload's last interval must be read by a scraper that comes once a minute and misses
# one scrape.
KEPT_SECONDS = 180.0
KEPT_SCRAPES = 2
# Where nobody scrapes, workloads that come and go must not fill the memory.
MOST_ENDED = 1_000


@dataclass(frozen=True, slots=True)
class _End:
    """When a subject ended, and how many pages had been read by then."""

    seconds: float
    scrape_count: int


@dataclass(slots=True)
class Lives:
    """Follows subjects, by the labels that name them, over the readings of their owners.

    Times are of a clock that never goes back. A subject has ended when no owner tells it any more.
    """

    _told: dict[str, frozenset[Labels]] = field(default_factory=dict)
    # In the order in which they ended.
    _ended: dict[Labels, _End] = field(default_factory=dict)
    _scrape_count: int = 0

    def scraped(self) -> None:
        """Count a page that was read to its end."""
        self._scrape_count += 1

    def told(
        self, owner: str, subjects: frozenset[Labels], now_seconds: float
    ) -> frozenset[Labels]:
        """Take in all the subjects that an owner tells now; give those that ended by this."""
        before = self._told.get(owner, frozenset())
        if subjects == before:
            return frozenset()
        self._told[owner] = subjects
        if not subjects:  # owners come and go as well
            del self._told[owner]
        others = [told for name, told in self._told.items() if name != owner]
        ended = frozenset(
            subject for subject in before - subjects if not any(subject in told for told in others)
        )
        for subject in subjects:
            self._ended.pop(subject, None)
        self._ended |= dict.fromkeys(ended, _End(now_seconds, self._scrape_count))
        return ended

    def take_forgotten(self, now_seconds: float) -> frozenset[Labels]:
        """Give the subjects that ended long enough ago, once."""
        surplus_count = len(self._ended) - MOST_ENDED
        forgotten = frozenset(
            subject
            for position, (subject, end) in enumerate(self._ended.items())
            if position < surplus_count or self._is_over(end, now_seconds)
        )
        for subject in forgotten:
            del self._ended[subject]
        return forgotten

    def _is_over(self, end: _End, now_seconds: float) -> bool:
        is_read = self._scrape_count - end.scrape_count >= KEPT_SCRAPES
        return is_read and now_seconds - end.seconds >= KEPT_SECONDS

    def drop_label(self, value: str) -> None:
        """Forget every subject that bears this label value, whose series are gone."""
        for owner, subjects in self._told.items():
            self._told[owner] = frozenset(each for each in subjects if value not in each)
        for subject in [each for each in self._ended if value in each]:
            del self._ended[subject]


def subjects_of(rows: Iterable[tuple[int, Labels]]) -> frozenset[Labels]:
    """Give the subjects among (how many leading labels name one, labels)."""
    return frozenset(labels[:count] for count, labels in rows if count)
