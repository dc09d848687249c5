"""How many files of counters may stay open: the rest of the exporter needs descriptors as well."""

import resource
import threading

OWN_RATIO = 0.5
# Whatever the limit is; as many as eighty ports have.
MOST_OPEN = 4096


class FileBudget:
    """Counts the files that are open together; for any thread.

    `most_open` is by default half of what the process may open at the time.
    """

    def __init__(self, most_open: int | None = None) -> None:
        self._most_open = most_open
        self._open_count = 0
        self._lock = threading.RLock()  # closing may come from a garbage collection

    def take(self) -> bool:
        """Tell whether one more may stay open, which then counts."""
        most_open = self._most_open if self._most_open is not None else _of_process()
        with self._lock:
            is_free = self._open_count < most_open
            self._open_count += is_free
        return is_free

    def give_back(self, count: int) -> None:
        with self._lock:
            self._open_count -= count


def _of_process() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST_OPEN
    return min(int(limit * OWN_RATIO), MOST_OPEN)


# Descriptors are the process's, and so is this.
OF_PROCESS = FileBudget()
