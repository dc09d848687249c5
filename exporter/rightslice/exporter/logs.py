"""Logging to standard error: a failure that repeats is told once a minute, and nobody waits for it.

Lines are written by a thread of their own. Where nobody reads the log, say a full pipe, lines are
lost rather than cards unread.
"""

import atexit
import logging
import os
import queue
import threading
from logging.handlers import QueueHandler

REPEAT_SECONDS = 60.0
REMEMBERED_LINES = 1000
MOST_WAITING_LINES = 1000
STANDARD_ERROR = 2
# Set on a line by who sees to it already that it is not told too often: the last word on a thing
# must not be taken for a repetition.
IS_RATIONED = "is_rationed"


class RepeatFilter(logging.Filter):
    """Drop a line that was written within the last minute, unless it is rationed otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, IS_RATIONED, False):
            return True
        line = record.getMessage()
        since_seconds = record.created - self._written.get(line, float("-inf"))
        if 0 <= since_seconds < REPEAT_SECONDS:  # below 0 the clock was set back
            return False
        if len(self._written) >= REMEMBERED_LINES:
            self._written.clear()
        self._written[line] = record.created
        return True


class DescriptorHandler(logging.Handler):
    """Writes to a file descriptor, past every buffer whose lock somebody else may wait for."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode(errors="replace")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            return  # nobody reads any more


class Writer(QueueHandler):
    """Takes lines at once, or drops them; `handler` writes them in a thread of its own."""

    def __init__(self, handler: logging.Handler) -> None:
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(MOST_WAITING_LINES)
        super().__init__(self._lines)
        # Without one of its own, logging would give it that of a line, which `handler` makes.
        self.setFormatter(logging.Formatter("%(message)s"))
        self._handler = handler
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Take a line, unless the log is full."""
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            return

    def _write(self) -> None:
        while True:
            record = self._lines.get()
            self._handler.handle(record)
            self._lines.task_done()

    def wait_until_written(self, timeout_seconds: float) -> None:
        """Give the lines that were taken some time to be written: the last says why we end."""
        done = threading.Thread(target=self._lines.join, daemon=True)
        done.start()
        done.join(timeout_seconds)


def set_up(level: str) -> Writer:
    """Send this process's log to standard error."""
    handler = DescriptorHandler(STANDARD_ERROR)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    writer = Writer(handler)
    writer.addFilter(RepeatFilter())
    logging.basicConfig(level=level.upper(), handlers=[writer], force=True)
    # It would wait for a line that nobody reads; `wait_until_written` stands in for it.
    atexit.unregister(logging.shutdown)
    return writer
