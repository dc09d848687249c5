"""Lines of the OOM killer that came in several records, put together again.

The kernel writes such a line piece by piece: whatever another processor prints in between, and a
path that fills the record, break it.
"""

import re

from rightslice.exporter.host.oom.kernel_line import (
    GROUP_START,
    LINE_LIMIT_CHARACTERS,
    SUMMARY_START,
    TASK_START,
    is_whole,
    parse_oom_line,
)

# Some logs lose the blank at the end of a piece.
STARTS = (SUMMARY_START, TASK_START.rstrip(), GROUP_START.rstrip())
# What ends here goes on with a path or a name, which has no blank in it.
OPEN_WORDS = ("Task in", "Tasks in", "limit of")
WORDS = re.compile(r" ?(?:killed|as a result|are going to be) ")
# A piece by the kernel's own cut, or the rest of a path and what follows it.
PIECE = re.compile(
    r"[,/]|\S*(?:_memcg=|mems_allowed=|,task=|\.scope|\.slice)|\S*uid=[0-9]{1,10}$", re.S
)
PIECE_SECONDS = 2.0


class LineJoiner:
    """Holds a line that has no end yet. Bounded, whatever comes."""

    def __init__(self) -> None:
        self.held = ""
        self._held_seconds = 0.0

    def feed(self, text: str, seconds: float) -> list[tuple[str, float]]:
        """Take in a record; give the lines that are at their end, with their first one's stamp."""
        text = text[:LINE_LIMIT_CHARACTERS]
        lines: list[tuple[str, float]] = []
        is_beginning = text.startswith(STARTS)
        if self.held:
            is_late = abs(seconds - self._held_seconds) > PIECE_SECONDS
            if is_late or is_beginning or parse_oom_line(text):
                lines = self.release()
            elif _goes_on(self.held, text):
                self._append(text)
                return self.release() if self._is_done() else []
            # What another processor says in between changes nothing.
        if is_beginning and not is_whole(text):
            self.held, self._held_seconds = text, seconds
            return lines
        return [*lines, (text, seconds)]

    def release(self) -> list[tuple[str, float]]:
        """Give up waiting for the rest."""
        held, self.held = self.held, ""
        return [(held, self._held_seconds)] if held else []

    def _append(self, text: str) -> None:
        held = self.held.rstrip()
        is_word_next = WORDS.match(text) or held.endswith(OPEN_WORDS)
        self.held = f"{held} {text.lstrip()}" if is_word_next else self.held + text

    def _is_done(self) -> bool:
        return is_whole(self.held) or len(self.held) >= LINE_LIMIT_CHARACTERS


def _goes_on(held: str, text: str) -> bool:
    """Tell whether a record is the next piece of a line."""
    if held.startswith(SUMMARY_START):
        is_piece = PIECE.match(text)
    else:
        is_piece = WORDS.match(text) or re.match("/", text)
    is_word = re.fullmatch(r"\S+\s*", text) is not None
    return is_piece is not None or (is_word and held.rstrip().endswith(("=", *OPEN_WORDS)))
