"""Finds the lines of a log that report memory of a card that ran out."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from rightslice.exporter.host.oom.parts import Part, parts_of
from rightslice.exporter.host.oom.pattern import IGNORE, OomMatch, Pattern
from rightslice.exporter.host.oom.pattern_file import PatternError, read_file, read_text

__all__ = ["OomMatch", "PatternError", "Patterns", "load_patterns"]

BUILT_IN = "patterns.toml"
MOST_CHARS = 64 << 10
# Regexes of users, of which only the worst are refused, see less of a line.
MOST_CHARS_OF_USERS = 8 << 10


class Patterns:
    """All patterns in the order in which they are tried; the first that matches wins."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.patterns = tuple(patterns)
        self._texts = _fewest(literal for p in self.patterns for literal in p.literals)
        self.literals = tuple(text.encode("ascii") for text in self._texts)

    def may_match(self, chunk: bytes) -> bool:
        """Say whether a piece of a log can hold a match; it is cut at line ends."""
        # A loop of searches, each at some GB/s: one regex of all literals takes twice as long.
        return any(literal in chunk for literal in self.literals)

    def match(self, message: str) -> OomMatch | None:
        """Read the error that a message reports; None where it reports none.

        What opens an incident goes before what only adds to one.
        """
        message = message[:MOST_CHARS]
        if not any(text in message for text in self._texts):
            return None
        detail = None
        for part in parts_of(message, self._texts):
            found = self._match_part(part)
            if found is not None and not found.is_detail:
                return found
            detail = detail or found
        return detail

    def _match_part(self, part: Part) -> OomMatch | None:
        for pattern in self.patterns:
            if pattern.role == IGNORE:
                if pattern.finds(part.text, part.at):
                    return None
                continue
            found = pattern.match(part)
            if found is not None:
                return found
        return None


def _fewest(literals: Iterable[str]) -> tuple[str, ...]:
    """Leave out each text that holds another one: the shorter one finds its lines too."""
    texts = sorted(set(literals), key=lambda text: (len(text), text))
    kept: list[str] = []
    for text in texts:
        if not any(other in text for other in kept):
            kept.append(text)
    return tuple(kept)


def load_patterns(user_file: Path | None = None) -> Patterns:
    """Load the built-in patterns, and before them those of a user's file. Raises PatternError.

    A user's entry with the id of a built-in one takes its place. What a user ignores goes before
    all else, wherever it stands in the file.
    """
    text = files("rightslice.exporter.host.oom").joinpath(BUILT_IN).read_text("utf-8")
    built_in = read_text(text, BUILT_IN, MOST_CHARS)
    own = () if user_file is None else read_file(user_file, MOST_CHARS_OF_USERS)
    own = tuple(sorted(own, key=lambda pattern: pattern.role != IGNORE))
    own_ids = {pattern.id for pattern in own}
    return Patterns((*own, *(pattern for pattern in built_in if pattern.id not in own_ids)))
