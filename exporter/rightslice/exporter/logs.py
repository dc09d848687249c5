"""Logging to standard error, where a failure that repeats every second is told once a minute."""

import logging

REPEAT_SECONDS = 60.0
REMEMBERED_LINES = 1000


class RepeatFilter(logging.Filter):
    """Drop a line that was written within the last minute."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        since_seconds = record.created - self._written.get(line, float("-inf"))
        if 0 <= since_seconds < REPEAT_SECONDS:  # below 0 the clock was set back
            return False
        if len(self._written) >= REMEMBERED_LINES:
            self._written.clear()
        self._written[line] = record.created
        return True


def set_up(level: str) -> None:
    """Send this process's log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
