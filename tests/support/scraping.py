"""A scrape loop that runs for the length of a test, on the real clock or a faster one."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rightslice.feeders.targets.health import TargetHealth
from rightslice.feeders.targets.loop import Clock, ScrapeLoop
from rightslice.feeders.targets.page_reader import connect
from rightslice.feeders.targets.target import ScrapeTarget
from support.waiting import wait_for


def read_page(target: ScrapeTarget, times: int = 1) -> list[str]:
    """Read a target's page so often over one connection, as the loop does. Raises SourceError."""

    async def reading() -> list[str]:
        async with connect(target) as read:
            return [await read() for _ in range(times)]

    return asyncio.run(reading())


def fast_clock(factor: float, start_seconds: float) -> Clock:
    """Give a clock that starts at `start_seconds` and goes `factor` times as fast."""
    begun_seconds = time.monotonic()

    def passed_seconds() -> float:
        return (time.monotonic() - begun_seconds) * factor

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / factor)

    return Clock(lambda: start_seconds + passed_seconds(), passed_seconds, sleep)


@contextmanager
def looping(loop: ScrapeLoop) -> Iterator[ScrapeLoop]:
    """Run a loop in a thread, and end it; what it did not write is written then."""
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        yield loop
    finally:
        stop.set()
        thread.join()


def health_when(
    loop: ScrapeLoop, url: str, is_so: Callable[[TargetHealth], object]
) -> TargetHealth:
    """Wait until a target fares so, and give how it does."""
    (found,) = wait_for(lambda: [one for one in loop.health() if one.url == url and is_so(one)])
    return found
