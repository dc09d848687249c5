"""Parses a scraped page line by line: a broken line is counted and skipped, never the page."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from rightslice.feeders.readings import Reading

# A fleet's series names repeat at each scrape; this many are remembered per parser.
REMEMBERED_SERIES = 200_000


@dataclass(slots=True)
class PageParser:
    """Parses pages of one target. Remembers each series' labels, which seldom change.

    The text before a line's value is parsed once, by prometheus-client; afterwards a line costs a
    dictionary look-up.
    """

    broken_line_count: int = 0
    _known: dict[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)

    def parse(self, page: str) -> list[Reading]:
        """Give every reading of a page; timestamps and exemplars in it are ignored."""
        readings = []
        for line in page.splitlines():
            if not line or line.isspace() or line.lstrip().startswith("#"):
                continue
            reading = self._parse_line(line.partition(" # ")[0].strip())
            if reading is None:
                self.broken_line_count += 1
            else:
                readings.append(reading)
        return readings

    def _parse_line(self, line: str) -> Reading | None:
        series, brace, tail = line.rpartition("}")
        if brace:
            series += brace
        else:
            series, _, tail = line.partition(" ")
        parts = tail.split()
        if not 1 <= len(parts) <= 2:
            return None
        known = self._known.get(series)
        if known is None:
            known = self._parse_series(series)
            if known is None:
                return None
        try:
            return Reading(known[0], known[1], float(parts[0]))
        except ValueError:
            return None

    def _parse_series(self, series: str) -> tuple[str, Mapping[str, str]] | None:
        try:
            families = list(text_string_to_metric_families(f"{series} 0\n"))
            sample = families[0].samples[0]
        except (ValueError, IndexError, KeyError):
            return None
        if len(self._known) >= REMEMBERED_SERIES:
            self._known.clear()
        known = self._known[series] = (sample.name, sample.labels)
        return known
