"""One wording of an error: how it is recognised, and what it tells."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rightslice.exporter.host.oom.parts import WINDOW_CHARS, Part
from rightslice.exporter.host.oom.sizes import is_plausible_bytes, parse_size_bytes
from rightslice.exporter.host.oom.standing import Standing

CAUSES = ("device_alloc", "soft_limit", "startup_capacity")
CONFIDENCES = ("high", "medium", "low")
OPENS, DETAIL, IGNORE = "opens", "detail", "ignore"
ROLES = (OPENS, DETAIL, IGNORE)
SIZES = ("requested", "capacity", "free", "limit")

# What a regex of the file may name in braces. A size whose unit stands elsewhere in the sentence is
# named with it.
# Both are written so that they take a text in one way only; see regex_cost.
NUMBER = r"[0-9]{1,30}(?:[.,][0-9]{1,30}){0,4}"
UNIT = r" ?(?:[KMGTPE](?:i?B)?|iB|B(?:ytes?)?|bytes?)(?!\w)"
PLACEHOLDERS = {
    **{f"{{{name}}}": rf"(?P<{name}>{NUMBER}(?:{UNIT})?)" for name in SIZES},
    **{f"{{{name}_gib}}": rf"(?P<{name}_gib>{NUMBER})" for name in SIZES},
    "{device}": r"(?P<device>[0-9]{1,4})",
}
GROUPS = frozenset((*SIZES, *(f"{name}_gib" for name in SIZES), "device"))


@dataclass(frozen=True, slots=True)
class OomMatch:
    """What a line says of an allocation that failed.

    `sizes_bytes` has only what was told; `implausible` names the sizes that were told and cannot
    be. `device` is the number that the process itself gives the card; None where it is not told.
    A detail opens no incident: it adds to one that is open. What is quoted is somebody's text about
    an error, and may be none.
    """

    pattern_id: str
    framework: str
    cause: str
    confidence: str
    is_detail: bool
    sizes_bytes: Mapping[str, int]
    implausible: tuple[str, ...]
    device: int | None
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """A line that a pattern must find, with all that it must read from it."""

    line: str
    sizes_bytes: Mapping[str, int]
    device: int | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of a file of patterns.

    One of the `literals` is in every line that matches; a pattern that ignores needs none. Regexes
    see nothing behind the first `most_chars` of a text.
    """

    id: str
    framework: str
    cause: str
    confidence: str
    literals: tuple[str, ...]
    regex: re.Pattern[str]
    unless: re.Pattern[str] | None
    role: str
    head_only: bool
    most_chars: int
    examples: tuple[Example, ...] = ()
    counter_examples: tuple[str, ...] = ()

    def finds(self, text: str, at: int = 0) -> re.Match[str] | None:
        """Give the place of the wording, wherever it stands; None where there is none.

        Of a long text it sees what is around its literal; one without literals sees what is around
        `at`, and the head.
        """
        places = [place for place in map(text.find, self.literals) if place >= 0]
        if self.literals and not places:
            return None
        for start, end in self._windows(len(text), min(places, default=at)):
            found = self.regex.search(text, start, end)
            if found is not None:
                is_taken_back = self.unless is not None and self.unless.search(text, start, end)
                return None if is_taken_back else found
        return None

    def _windows(self, chars: int, at: int) -> Iterator[tuple[int, int]]:
        if chars <= WINDOW_CHARS:
            yield 0, self.most_chars
            return
        half = WINDOW_CHARS // 2
        if not self.literals and at > half:
            yield 0, half
        yield max(0, at - half), min(at + half, self.most_chars)

    def match(self, part: Part) -> OomMatch | None:
        """Read the error that a text reports; None where it reports none, or only quotes one."""
        found = self.finds(part.text, part.at)
        if found is None:
            return None
        standing = part.line.standing(found.start())
        if standing is Standing.CONTENT or (self.head_only and standing is not Standing.HEAD):
            return None
        is_own = part.is_message and standing is not Standing.QUOTED
        sizes, implausible = _sizes_bytes(found)
        device = found.groupdict().get("device")
        return OomMatch(
            pattern_id=self.id,
            framework=self.framework,
            cause=self.cause,
            confidence=self.confidence if is_own else "low",
            is_detail=self.role == DETAIL,
            sizes_bytes=MappingProxyType(sizes),
            implausible=implausible,
            device=None if device is None else int(device),
            is_quoted=not is_own,
        )


def _sizes_bytes(found: re.Match[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    told = found.groupdict()
    sizes = {name: _size_bytes(told, name) for name in SIZES}
    known = {name: size for name, size in sizes.items() if size is not None}
    implausible = tuple(name for name, size in known.items() if not is_plausible_bytes(size))
    return {n: size for n, size in known.items() if n not in implausible}, implausible


def _size_bytes(told: Mapping[str, str | None], name: str) -> int | None:
    number = told.get(f"{name}_gib")
    text = told.get(name) if number is None else f"{number.rstrip('.,')} GiB"
    return None if text is None else parse_size_bytes(text)
