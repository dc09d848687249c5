"""Time as an argument: the real clock, and one that is moved by hand."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall time since the Unix epoch, a clock that never goes back, and an interruptible wait."""

    wall_seconds: Callable[[], float]
    monotonic_seconds: Callable[[], float]
    wait: Callable[[threading.Event, float], bool]


def _wait(stop: threading.Event, seconds: float) -> bool:
    return stop.wait(seconds)


def real_clock() -> Clock:
    """Give the machine's clock. `wait` returns True when the event ended it."""
    return Clock(time.time, time.monotonic, _wait)


class ManualClock:
    """A clock that moves only when told, so that days pass in seconds."""

    def __init__(self, start_seconds: float) -> None:
        self._now_seconds = start_seconds

    def advance(self, seconds: float) -> None:
        self._now_seconds += seconds

    def now_seconds(self) -> float:
        return self._now_seconds

    def clock(self) -> Clock:
        """Give this clock in the shape that samplers and scrapers take."""
        return Clock(self.now_seconds, self.now_seconds, self._advance_and_tell)

    def _advance_and_tell(self, stop: threading.Event, seconds: float) -> bool:
        self.advance(seconds)
        return stop.is_set()
