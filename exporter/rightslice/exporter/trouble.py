"""Logs a trouble when it begins, changes and ends, and in between seldom: never once a second."""

import logging
from dataclasses import dataclass

from rightslice.exporter.host.nvml.errors import NvmlError

log = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0


@dataclass(slots=True)
class Trouble:
    """The state of one thing that may fail, as the log has told it."""

    what: str
    _told: str = ""
    _told_seconds: float = 0.0
    _untold_count: int = 0

    def failed(self, error: Exception | str, now_seconds: float) -> None:
        """Tell a failure, unless the log has it already."""
        text = error if isinstance(error, str | NvmlError) else f"{type(error).__name__}: {error}"
        text = str(text)
        if text == self._told and now_seconds - self._told_seconds < REPEAT_SECONDS:
            self._untold_count += 1
            return
        again = f" ({self._untold_count} times more since)" if self._untold_count else ""
        # What NVML says is no fault of the program; anything else comes with its trace.
        trace = error if isinstance(error, Exception) and not isinstance(error, NvmlError) else None
        log.warning("%s: %s%s", self.what, text, again, exc_info=trace)
        self._told, self._told_seconds, self._untold_count = text, now_seconds, 0

    @property
    def text(self) -> str:
        """Say what is wrong; empty while nothing is."""
        return self._told

    def ended(self) -> None:
        """Tell that it is over, if it was told."""
        if self._told:
            log.info("%s: works again", self.what)
        self._told, self._untold_count = "", 0
