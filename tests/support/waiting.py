"""Waits for something to come about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 20.0) -> T:
    """Ask until there is an answer; fails when there is none in time."""
    deadline_seconds = time.monotonic() + seconds
    while time.monotonic() < deadline_seconds:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come about")
