"""Logs a trouble when it begins, changes and ends, and in between seldom: never once a second."""

import logging
from collections import deque
from dataclasses import dataclass, field

from rightslice.exporter.host.nvml.errors import NvmlError

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
# A reading that fails every other second is one trouble, told as a beginning and an end this often.
MOST_ENDS_PER_REPEAT = 3


@dataclass(slots=True)
class Trouble:
    """The state of one thing that may fail, as the log has told it."""

    what: str
    _told: str = ""
    _told_seconds: float = 0.0
    _untold_count: int = 0
    _is_over: bool = True
    _ends: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_ENDS_PER_REPEAT))

    def failed(self, error: Exception | str, now_seconds: float) -> None:
        """Tell a failure, unless the log has it already."""
        text = error if isinstance(error, str | NvmlError) else f"{type(error).__name__}: {error}"
        text = str(text)
        is_recent = now_seconds - self._told_seconds < REPEAT_SECONDS
        comes_and_goes = (
            self._is_over
            and len(self._ends) == MOST_ENDS_PER_REPEAT
            and (now_seconds - self._ends[0] < REPEAT_SECONDS)
        )
        was_over, self._is_over = self._is_over, False
        if text == self._told and is_recent and (not was_over or comes_and_goes):
            self._untold_count += 1
            return
        if was_over and not comes_and_goes:
            self._untold_count = 0
        again = f" ({self._untold_count} times more since)" if self._untold_count else ""
        # What NVML says is no fault of the program; anything else comes with its trace.
        trace = error if isinstance(error, Exception) and not isinstance(error, NvmlError) else None
        log.warning("%s: %s%s", self.what, text, again, exc_info=trace)
        self._told, self._told_seconds, self._untold_count = text, now_seconds, 0

    @property
    def text(self) -> str:
        """Say what is wrong; empty while nothing is."""
        return "" if self._is_over else self._told

    def ended(self, now_seconds: float) -> None:
        """Tell that it is over, if it went on."""
        if self._is_over:
            return
        self._is_over = True
        self._ends.append(now_seconds)
        if len(self._ends) < MOST_ENDS_PER_REPEAT or now_seconds - self._ends[0] >= REPEAT_SECONDS:
            log.info("%s: works again", self.what)
