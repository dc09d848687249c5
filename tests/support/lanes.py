"""Lanes read in threads of their own, while the test moves the clock."""

import threading
from collections.abc import Callable

from rightslice.exporter.lane import Lane

# In real time: a call that has not come back by then hangs.
PATIENCE_SECONDS = 0.5


def in_threads() -> Callable[[Lane], None]:
    """Read each lane in a thread of its own, as a live node does; one that hangs is left alone."""
    threads: dict[str, threading.Thread] = {}

    def read(lane: Lane) -> None:
        before = threads.get(lane.name)
        if before is None or not before.is_alive():
            threads[lane.name] = threading.Thread(target=lane.read, daemon=True)
            threads[lane.name].start()
            threads[lane.name].join(PATIENCE_SECONDS)

    return read
