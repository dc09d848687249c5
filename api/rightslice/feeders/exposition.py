"""Parses a scraped page line by line: a broken line is counted and skipped, never the page."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from rightslice.feeders.readings import Reading

Series = tuple[str, Mapping[str, str]]


@dataclass(slots=True)
class PageParser:
    """Parses pages of one target. Remembers the labels of the last page's series.

    They seldom change: the text before a line's value is parsed once, by prometheus-client;
    afterwards a line costs a dictionary look-up. What left the page is forgotten.
    """

    broken_line_count: int = 0
    _known: dict[str, Series] = field(default_factory=dict)
    _on_page: dict[str, Series] = field(default_factory=dict)

    def parse(self, page: str) -> list[Reading]:
        """Give every reading of a page; timestamps and exemplars in it are ignored."""
        readings = []
        self._on_page = {}
        for line in page.splitlines():
            if not line or line.isspace() or line.lstrip().startswith("#"):
                continue
            reading = self._parse_line(line.partition(" # ")[0].strip())
            if reading is None:
                self.broken_line_count += 1
            else:
                readings.append(reading)
        self._known = self._on_page
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
        self._on_page[series] = known
        try:
            return Reading(known[0], known[1], float(parts[0]))
        except ValueError:
            return None

    @staticmethod
    def _parse_series(series: str) -> Series | None:
        try:
            families = list(text_string_to_metric_families(f"{series} 0\n"))
            sample = families[0].samples[0]
        except (ValueError, IndexError, KeyError):
            return None
        return sample.name, sample.labels
