"""Logs a trouble when it begins, changes and ends, and in between seldom: never once a second."""

import logging
from collections import deque
from dataclasses import dataclass, field

from rightslice.exporter.host.reading_error import ReadingError
from rightslice.exporter.logs import IS_RATIONED

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
# What comes and goes, or fails now in one way and now in another, gets so many lines in that time.
MOST_LINES_PER_REPEAT = 6
RATIONED = {IS_RATIONED: True}


@dataclass(slots=True)
class Trouble:
    """The state of one thing that may fail, and what the log has told of it.

    The log is told each change, and every REPEAT_SECONDS what lasts, within a budget of lines. What
    had to be left out is counted, and an end that was left out is told when there is room.
    """

    what: str
    # What is wrong now; empty while nothing is.
    text: str = ""
    _told_text: str = ""
    _untold_count: int = 0
    _told_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_LINES_PER_REPEAT))

    def failed(self, error: Exception | str, now_seconds: float) -> None:
        """Tell a failure, unless the log has it already."""
        text = (
            error if isinstance(error, str | ReadingError) else f"{type(error).__name__}: {error}"
        )
        self.text = str(text)
        is_known = self.text == self._told_text and self._is_recent(-1, now_seconds)
        if is_known or self._is_budget_spent(now_seconds):
            self._untold_count += 1
            return
        again = f" ({self._untold_count} times more since)" if self._untold_count else ""
        # What the machine says is no fault of the program; anything else comes with its trace.
        trace = (
            error if isinstance(error, Exception) and not isinstance(error, ReadingError) else None
        )
        log.warning("%s: %s%s", self.what, self.text, again, exc_info=trace, extra=RATIONED)
        self._told(now_seconds)

    def ended(self, now_seconds: float) -> None:
        """Tell that it is over, if it went on; called as often as things go well."""
        self.text = ""
        if self._told_text and not self._is_budget_spent(now_seconds):
            log.info("%s: works again", self.what, extra=RATIONED)
            self._told(now_seconds)

    def _told(self, now_seconds: float) -> None:
        self._told_text, self._untold_count = self.text, 0
        self._told_seconds.append(now_seconds)

    def _is_budget_spent(self, now_seconds: float) -> bool:
        is_full = len(self._told_seconds) == MOST_LINES_PER_REPEAT
        return is_full and self._is_recent(0, now_seconds)

    def _is_recent(self, line: int, now_seconds: float) -> bool:
        return now_seconds - self._told_seconds[line] < REPEAT_SECONDS
