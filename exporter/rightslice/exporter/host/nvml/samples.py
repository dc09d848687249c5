"""The rings of stamped samples that the driver keeps, read from where the last reading ended."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

# A stamp in microseconds, and the row that bears it.
Stamped = tuple[int, Any]
STAMP = itemgetter(0)


class SampleRing:
    """One ring. `fetch` gives its rows since a stamp in microseconds, None where there is no ring.

    The stamps are of the wall clock, which may be set back. So after `empty_readings` readings
    without a new sample the ring is looked at from its start, and read on from its end if that lies
    before the newest sample known.
    """

    def __init__(self, fetch: Callable[[int], Sequence[Any] | None], empty_readings: int) -> None:
        self._fetch = fetch
        self._empty_readings = empty_readings
        self._empty_count = 0
        self.newest_us: int | None = None

    def read_new(self) -> list[Stamped] | None:
        """Give the rows since the last call, oldest first, good until the next; None without ring.

        Each comes with its stamp. The first call gives all that the ring still holds.
        """
        since_us = self.newest_us
        rows = self._stamped(since_us or 0)
        if rows is None:
            return None
        # The driver may hand back the whole ring, stale slots included.
        fresh = [row for row in rows if since_us is None or row[0] > since_us]
        self._empty_count = 0 if fresh else self._empty_count + 1
        if fresh:
            self.newest_us = fresh[-1][0]
        elif self._empty_count % self._empty_readings == 0:
            self._follow_clock()
        return fresh

    def _stamped(self, since_us: int) -> list[Stamped] | None:
        rows = self._fetch(since_us)
        if rows is None:
            return None
        # Each stamp is read once: the binding's structures are slow to read from.
        stamped = [(row.timeStamp, row) for row in rows]
        return sorted((row for row in stamped if row[0]), key=STAMP)

    def _follow_clock(self) -> None:
        rows = self._stamped(0)
        if rows and self.newest_us is not None and rows[-1][0] < self.newest_us:
            self.newest_us = rows[-1][0]
