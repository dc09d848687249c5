"""One mapping of a scenario file, and the place to name when something in it is wrong."""

import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rightslice.exporter.simulate.card import ScenarioError
from rightslice.exporter.simulate.load import Level, Peak

NOTHING: Mapping[str, Any] = {}
LEVEL_KEYS = ("low", "high", "peak")
PEAK_KEYS = ("value", "every_seconds", "for_seconds")
# Above any figure of a card, and far below what a float can hold.
MOST = 1e18


class Section:
    """A mapping with known keys. Raises ScenarioError for an unknown key or a bad value."""

    def __init__(self, place: str, value: Any, keys: Collection[str]) -> None:
        self.place = place
        if not isinstance(value, dict):
            raise ScenarioError(f"{place}: want a mapping with {_listed(keys)}; got {value!r}")
        unknown = sorted(str(key) for key in value if key not in keys)
        if unknown:
            raise ScenarioError(f"{place}: unknown key {unknown[0]!r}; want {_listed(keys)}")
        self._values: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def required(self, key: str) -> Any:
        if key not in self._values:
            raise ScenarioError(f"{self.place}: {key} is missing; give it a value")
        return self._values[key]

    def wrong(self, key: str, want: str) -> ScenarioError:
        """Make the complaint about a value."""
        return ScenarioError(f"{self.place}: {key} is {self._values[key]!r}; want {want}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.required(key) if default is None else self._values.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "text")
        return value

    def word(self, key: str, words: Collection[str], default: str) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str) or value not in words:
            raise self.wrong(key, f"one of {', '.join(words)}" if words else "none: there is none")
        return str(value)

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.required(key) if default is None else self._values.get(key, default)
        if not is_number(value) or value < 0:
            raise self.wrong(key, "a number that is not negative")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if value != int(value):
            raise self.wrong(key, "a whole number")
        return int(value)

    def rows(self, key: str) -> Iterator[tuple[str, Any]]:
        """Give the items of a list with the place of each; nothing for a missing key."""
        value = self._values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, "a list")
        for position, row in enumerate(value):
            yield f"{self.place}, {key} {position}", row

    def section(self, key: str, keys: Collection[str]) -> "Section | None":
        """Give a mapping inside this one; None for a missing key."""
        if key not in self._values:
            return None
        return Section(f"{self.place}, {key}", self._values[key], keys)

    def level(self, key: str, seed_key: str, scale: float = 1.0) -> Level | None:
        """Read a level: one number, or {low, high} with an optional peak; None if missing.

        `seed_key` tells its wandering from that of all other levels.
        """
        if key not in self._values:
            return None
        value, seed = self._values[key], zlib.crc32(seed_key.encode())
        if not isinstance(value, dict):
            level = self.number(key) * scale
            return Level(level, level, seed=seed)
        parts = Section(f"{self.place}, {key}", value, LEVEL_KEYS)
        low, high = parts.number("low") * scale, parts.number("high") * scale
        if low > high:
            raise self.wrong(key, "a low that is not above high")
        peak = parts.section("peak", PEAK_KEYS)
        return Level(low, high, None if peak is None else _peak(peak, scale), seed)

    def ratio(self, key: str, seed_key: str) -> Level | None:
        """Read a level that is a share, from 0 to 1."""
        level = self.level(key, seed_key)
        if level is not None and max(level.high, level.peak.value if level.peak else 0.0) > 1:
            raise self.wrong(key, "a ratio from 0 to 1")
        return level


def is_number(value: Any) -> bool:
    """Tell whether it is one that can be reckoned with: YAML also has .inf and .nan."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def _peak(section: Section, scale: float) -> Peak:
    peak = Peak(
        section.number("value") * scale,
        section.number("every_seconds"),
        section.number("for_seconds"),
    )
    if not 0 < peak.for_seconds < peak.every_seconds:
        raise section.wrong("for_seconds", "more than 0 and less than every_seconds")
    return peak


def _listed(keys: Collection[str]) -> str:
    return ", ".join(sorted(keys))
