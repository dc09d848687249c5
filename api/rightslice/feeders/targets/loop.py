"""Scrapes each target on its own schedule; a slow or broken one costs the others nothing.

Pages are fetched by one thread, all targets at once; another takes them in, one by one.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets.health import State, TargetHealth
from rightslice.feeders.targets.page_reader import Connect, Read, connect
from rightslice.feeders.targets.schedule import next_try, offset_seconds
from rightslice.feeders.targets.scraper import Intake
from rightslice.feeders.targets.source import Found, Targets
from rightslice.feeders.targets.target import ScrapeTarget
from rightslice.ledger.ledger import LedgerError

log = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_SECONDS = 60.0
LOOK_SECONDS = 1.0
TICK_SECONDS = 0.2
# New targets are scraped at once; of very many, so many a second.
STARTS_PER_SECOND = 200


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that people go by, a time that is never set, and how to wait."""

    wall_seconds: Callable[[], float] = time.time
    monotonic_seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class PageTaker(Protocol):
    """What pages are for: `Scraper`. Called from one thread at a time."""

    def ingest(
        self,
        target: str,
        page: str,
        now_seconds: float,
        interval_seconds: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Intake:
        """Take in a page as it stood at `now_seconds`, which is wall time."""
        ...

    def forget(self, target: str) -> None:
        """Drop what is remembered of a target that is scraped no more."""
        ...

    def flush(self, now_seconds: float) -> None:
        """Write what came in. Raises LedgerError; nothing is forgotten before it is written."""
        ...


class ScrapeLoop:
    """Runs in a thread of its own; `health` and `problems` may be asked from any."""

    def __init__(
        self,
        scraper: PageTaker,
        targets: Targets,
        connect: Connect = connect,
        clock: Clock | None = None,
    ) -> None:
        self._scraper = scraper
        self._source = targets
        self._connect = connect
        self._clock = clock or Clock()
        self._found = Found()
        self._health: dict[str, TargetHealth] = {}
        self._running: dict[str, tuple[ScrapeTarget, asyncio.Task[None]]] = {}
        self._reload = threading.Event()

    def health(self) -> tuple[TargetHealth, ...]:
        """Give how each target fares, by group and URL."""
        found = list(self._health.values())
        return tuple(sorted(found, key=lambda health: (health.group, health.url)))

    def problems(self) -> tuple[str, ...]:
        """Give what is wrong with where targets are told."""
        return self._found.problems

    def reload(self) -> None:
        """Look at all files and names at the next moment, changed or not."""
        self._reload.set()

    def run(self, stop: threading.Event) -> None:
        """Scrape until `stop` is set, writing once a minute and at the end."""
        # The scraper is not for several threads at once.
        with ThreadPoolExecutor(1, "ingest") as self._ingest:
            asyncio.run(self._run(stop))

    async def _run(self, stop: threading.Event) -> None:
        clock = self._clock
        flush_due_seconds = clock.monotonic_seconds() + FLUSH_SECONDS
        look_due_seconds = float("-inf")
        try:
            while not stop.is_set():
                now_seconds = clock.monotonic_seconds()
                is_forced = self._reload.is_set()
                if is_forced or now_seconds >= look_due_seconds:
                    self._reload.clear()
                    await self._look(now_seconds, is_forced=is_forced)
                    look_due_seconds = clock.monotonic_seconds() + LOOK_SECONDS
                if now_seconds >= flush_due_seconds:
                    flush_due_seconds = now_seconds + FLUSH_SECONDS
                    await self._ingesting(self._flush, clock.wall_seconds())
                await clock.sleep(TICK_SECONDS)
        finally:
            await self._end(list(self._running))
            await self._ingesting(self._flush, clock.wall_seconds())

    async def _ingesting(self, what: Callable[..., T], *arguments: Any) -> T:
        """Do something in the one thread that may touch the scraper."""
        return await asyncio.get_running_loop().run_in_executor(self._ingest, what, *arguments)

    async def _look(self, now_seconds: float, *, is_forced: bool) -> None:
        """Find out what to scrape; start what is new or changed, end what is gone."""
        try:
            self._found = await asyncio.to_thread(
                self._source.look, now_seconds, is_forced=is_forced
            )
        except Exception:  # what is scraped goes on; what is wrong is told each time
            log.exception("looking for targets failed")
            return
        wanted = {target.url: target for target in self._found.targets}
        await self._end([url for url, (old, _) in self._running.items() if wanted.get(url) != old])
        for url in [url for url in self._health if url not in wanted]:
            del self._health[url]
            await self._ingesting(self._scraper.forget, url)
        new = [target for url, target in wanted.items() if url not in self._running]
        for index, target in enumerate(new):
            self._start(target, index / STARTS_PER_SECOND)

    def _start(self, target: ScrapeTarget, delay_seconds: float) -> None:
        known = self._health.get(target.url, TargetHealth(target.group, target.url, {}))
        self._health[target.url] = replace(known, group=target.group, labels=target.labels)
        task = asyncio.create_task(self._scrape_for_ever(target, delay_seconds))
        self._running[target.url] = (target, task)

    async def _end(self, urls: list[str]) -> None:
        tasks = [self._running.pop(url)[1] for url in urls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _scrape_for_ever(self, target: ScrapeTarget, delay_seconds: float) -> None:
        clock = self._clock
        # Where its slots lie is told by the wall, once: a clock that is set moves none.
        slot_seconds = offset_seconds(target.url, target.interval_seconds) + (
            clock.monotonic_seconds() - clock.wall_seconds()
        )
        await clock.sleep(delay_seconds)
        while True:
            try:
                await self._scrape_on(target, slot_seconds)
            except Exception as error:  # a proxy or a context that cannot be made
                log.exception("target %s cannot be connected to", target.url)
                now_seconds = clock.monotonic_seconds()
                self._note_failure(target, now_seconds, f"target {target.url}: {error}")
                await self._wait(target, slot_seconds, now_seconds)

    async def _scrape_on(self, target: ScrapeTarget, slot_seconds: float) -> None:
        async with self._connect(target) as read:
            while True:
                started_seconds = self._clock.monotonic_seconds()
                await self._scrape(target, read, started_seconds)
                await self._wait(target, slot_seconds, started_seconds)

    async def _wait(
        self, target: ScrapeTarget, slot_seconds: float, started_seconds: float
    ) -> None:
        clock = self._clock
        health = self._health[target.url]
        now_seconds = clock.monotonic_seconds()
        again_seconds = next_try(
            started_seconds,
            now_seconds,
            target.interval_seconds,
            slot_seconds,
            health.failure_count,
        )
        pause_seconds = again_seconds - now_seconds
        self._health[target.url] = replace(
            health, next_try_seconds=clock.wall_seconds() + pause_seconds
        )
        await clock.sleep(pause_seconds)

    async def _scrape(self, target: ScrapeTarget, read: Read, started_seconds: float) -> None:
        """Read a target once. Whatever is wrong with it stays with it."""
        try:
            page = await read()
            # The time of its arrival: neither a slow target nor a queue dates it.
            arrived_seconds = self._clock.wall_seconds()
            duration_seconds = self._clock.monotonic_seconds() - started_seconds
            intake = await self._ingesting(
                self._scraper.ingest,
                target.url,
                page,
                arrived_seconds,
                target.interval_seconds,
                target.labels,
            )
            if intake.broken_line_count and not intake.sample_count:
                raise SourceError(f"target {target.url}: its page holds no metric; check the path")
        except SourceError as error:
            self._note_failure(target, started_seconds, str(error))
        except Exception as error:
            text = f"target {target.url} cannot be taken in: {error}"
            if self._health[target.url].error != text:
                log.exception("target %s cannot be taken in", target.url)
            self._note_failure(target, started_seconds, text)
        else:
            self._note_success(target, arrived_seconds, duration_seconds, intake)

    def _note_success(
        self, target: ScrapeTarget, arrived_seconds: float, duration_seconds: float, intake: Intake
    ) -> None:
        before = self._health[target.url]
        if before.state is State.DOWN:
            log.info("target %s can be scraped again", target.url)
        if intake.broken_line_count and not before.broken_line_count:
            log.warning("target %s: its page has broken lines, which are skipped", target.url)
        self._health[target.url] = replace(
            before,
            state=State.UP,
            last_scrape_seconds=arrived_seconds,
            last_success_seconds=arrived_seconds,
            duration_seconds=duration_seconds,
            error="",
            sample_count=intake.sample_count,
            broken_line_count=intake.broken_line_count,
            unattached=intake.unattached,
            failure_count=0,
        )

    def _note_failure(self, target: ScrapeTarget, started_seconds: float, error: str) -> None:
        before = self._health[target.url]
        if before.error != error:  # the same failure is told once, not at each scrape
            log.warning("%s", error)
        self._health[target.url] = replace(
            before,
            state=State.DOWN,
            last_scrape_seconds=self._clock.wall_seconds(),
            duration_seconds=self._clock.monotonic_seconds() - started_seconds,
            error=error,
            failure_count=before.failure_count + 1,
        )

    def _flush(self, now_seconds: float) -> None:
        try:
            self._scraper.flush(now_seconds)
        except LedgerError as error:
            # The hours stay in memory and are written by the next flush that can.
            log.error("%s", error)
        except Exception:  # the loop must go on; what is wrong is told each time
            log.exception("writing the ledger failed")
