"""Puts the agent together: an inventory, a lane per device, a watch over them, a page."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rightslice.contract import metrics
from rightslice.contract.sampling import MEAN_SECONDS
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import AnyCollector
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.inventory import GIVE_UP_SECONDS, Inventory
from rightslice.exporter.inventory import NAME as INVENTORY
from rightslice.exporter.known_cards import KnownCards
from rightslice.exporter.lane import Lane, Row, Task, tasks_of
from rightslice.exporter.states import card_lanes, collector_samples, reason_of
from rightslice.exporter.store import Store
from rightslice.exporter.trouble import Trouble

log = logging.getLogger(__name__)

READY_INTERVALS = 10
# How long closing the library waits for a lane to come out of a call.
QUIET_SECONDS = 2.0
# At the end of the process, for a listing of the cards that goes on.
IDLE_SECONDS = 0.5
# The watch looks this often, however seldom cards are sampled.
WATCH_SECONDS = 1.0
# Opening a node of eight cards whose state the driver had dropped takes some seconds each.
OPENING_DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What this process tells of itself."""

    version: str
    revision: str


class Sampler:
    """Owns the host and every series; `page`, `is_ready`, `release` and `resume` from any thread.

    `run` reads each lane in a thread of its own. `sample` makes the same round in the caller's
    thread: for a clock that is moved by hand.
    """

    def __init__(
        self,
        host: Host,
        collectors: Mapping[str, AnyCollector],
        clock: Clock,
        identity: Identity,
        interval_seconds: float = 1.0,
        min_cards: int = 1,
    ) -> None:
        self._host = host
        self._collectors = dict(collectors)
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._pause_seconds = min(interval_seconds, WATCH_SECONDS)
        self._min_cards = min_cards
        self._store = Store(clock)
        self._inventory = Inventory(host.nvml, self._store, clock, self._quiesced)
        self._lanes: dict[str, Lane] = {}
        self._lanes_lock = threading.Lock()
        # Lanes of devices that are gone, in whose last round a call may still hang.
        self._leaving: list[Lane] = []
        self._cards = KnownCards(host, self._store)
        self._opening_since_seconds: float | None = None
        self._opening_trouble = Trouble("opening NVML")
        self._opening_give_up_text = ""
        self._silent_text = ""
        self._store.apply("process", self._identity_samples(identity))

    def _identity_samples(self, identity: Identity) -> Iterator[Sample]:
        yield Sample(metrics.BUILD_INFO, 1, (identity.version, identity.revision))
        yield Sample(metrics.NODE_INFO, 1, (self._host.node,))
        yield Sample(metrics.PROCESS_START_TIME_SECONDS, self._clock.wall_seconds())
        for signal, seconds in (
            (metrics.SIGNAL_MEMORY, self._interval_seconds),
            (metrics.SIGNAL_COMPUTE, MEAN_SECONDS),
        ):
            yield Sample(metrics.SIGNAL_INTERVAL_SECONDS, seconds, (signal,))

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set: threads for the inventory and each lane; this one watches.

        Returns as well when one of them has ended for a reason of its own: half a sampler would
        look like a whole one.
        """
        keeper = _started(self._keep_inventory, stop, "nvml")
        threads: dict[str, tuple[Lane, threading.Thread]] = {}
        while not stop.is_set() and keeper.is_alive():
            for lane in self._assign_lanes():
                threads[lane.name] = (lane, _started(lane.run, stop, lane.name))
            if any(
                not lane.is_retired and not thread.is_alive() for lane, thread in threads.values()
            ):
                return
            self._watch()
            self._clock.wait(stop, self._pause_seconds)

    def _keep_inventory(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._step_inventory()
            self._clock.wait(stop, self._pause_seconds)

    def _step_inventory(self) -> None:
        self._opening_since_seconds = self._clock.monotonic_seconds()
        self._inventory.step()
        self._opening_since_seconds = None

    def sample(self, read: Callable[[Lane], None] = Lane.read) -> None:
        """Make one round, each lane by `read`: as it stands, in the caller's thread."""
        self._step_inventory()
        self._assign_lanes()
        for lane in self._lanes.values():
            read(lane)
        self._watch()

    def _assign_lanes(self) -> list[Lane]:
        """Give each lane its devices, make those that are new, end those of which none is left.

        Nothing is done while the library is being closed, which may itself hang: the watch over the
        lanes must go on.
        """
        if not self._lanes_lock.acquire(blocking=False):
            return []
        try:
            wanted = self._wanted()
            self._leaving = [lane for lane in self._leaving if lane.is_reading]
            before = self._tasks()
            for name, lane in list(self._lanes.items()):
                if lane.is_retired or not lane.take_on(wanted.get(name, ())):
                    lane.retire()
                    self._leaving.append(lane)
                    del self._lanes[name]
            new = [
                Lane(name, tasks_of(rows), self._store, self._clock, self._interval_seconds)
                for name, rows in wanted.items()
                if name not in self._lanes
            ]
            self._lanes |= {lane.name: lane for lane in new}
            gone = before - self._tasks()
            if gone:
                self._end(gone)
            return new
        finally:
            self._lanes_lock.release()

    def _wanted(self) -> dict[str, list[Row]]:
        """Give what each lane should read."""
        wanted: dict[str, list[Row]] = {}
        for name, collector in self._collectors.items():
            for device in collector.devices(self._host):
                wanted.setdefault(device.lane, []).append((name, collector, device))
        return wanted

    def _tasks(self) -> set[Task]:
        return {task for lane in self._lanes.values() for task in lane.tasks}

    def _end(self, gone: set[Task]) -> None:
        """End what was told of devices that are gone; cards are remembered by who knows them."""
        staying = {task.owner for task in self._tasks()}
        ended = [
            task
            for task in gone
            if task.owner not in staying and not isinstance(task.device, NvmlCard)
        ]
        self._store.end_owners(
            owner for task in ended for owner in (task.owner, task.failing_owner)
        )

    @contextmanager
    def _quiesced(self) -> Iterator[bool]:
        """Hold every lane out of the library, and end those of cards; False if one hangs in it.

        A disk or a kubelet that hangs is no reason to leave the library open.
        """
        with self._lanes_lock:
            lanes = [lane for lane in self._lanes.values() if lane.asks_driver]
            if any(lane.hung for lane in lanes) or not self._has_left():
                yield False
                return
            # Real time, whatever the clock: it is for calls that go on now.
            until_seconds = time.monotonic() + QUIET_SECONDS
            held = [
                lane
                for lane in lanes
                if lane.lock.acquire(timeout=max(until_seconds - time.monotonic(), 0))
            ]
            try:
                is_quiet = len(held) == len(lanes)
                if is_quiet:
                    cards = {card.lane for card in self._host.gpus}
                    for lane in lanes:
                        if lane.name in cards:
                            lane.retire()
                            lane.give_back()
                yield is_quiet
            finally:
                for lane in held:
                    lane.lock.release()

    def _has_left(self) -> bool:
        """End lanes that left and only sleep until their next step; False if one hangs."""
        for lane in self._leaving:
            if not lane.lock.acquire(blocking=False):
                return False
            try:
                lane.give_back()
            finally:
                lane.lock.release()
        return True

    def _watch(self) -> None:
        """Find calls that hang, and tell the state of lanes and cards."""
        now_seconds = self._clock.monotonic_seconds()
        self._watch_opening(now_seconds)
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.watch(now_seconds)
        self._store.apply("lanes", collector_samples(lanes))
        cards = card_lanes(lanes)
        is_released = self._inventory.is_released and not self._host.nvml.is_open
        self._cards.tell(cards, now_seconds, is_released=is_released)
        reasons = [reason_of(lane) for lane in cards if lane.is_up is not None]
        self._inventory.hear(reasons)
        if any(reason is not None for reason in reasons):
            self._inventory.look_again()
        silent = [f"{lane.name} {reason_of(lane)}" for lane in cards if lane.is_up is False]
        self._silent_text = ", ".join(silent)

    def _watch_opening(self, now_seconds: float) -> None:
        """Tell when the library itself does not come back from listing or opening cards."""
        since_seconds = self._opening_since_seconds
        if since_seconds is None or now_seconds - since_seconds <= OPENING_DEADLINE_SECONDS:
            self._opening_trouble.ended(now_seconds)
            return
        is_any_up = any(lane.is_up for lane in card_lanes(self._lanes.values()))
        # While cards are read a listing that hangs is a reason to worry, not to leave.
        until_seconds = since_seconds + OPENING_DEADLINE_SECONDS + GIVE_UP_SECONDS
        if now_seconds > until_seconds and not is_any_up:
            self._opening_give_up_text = (
                "opening NVML does not come back; a new process may do better"
            )
        samples = [
            Sample(metrics.COLLECTOR_SUCCESS, 0, (INVENTORY,)),
            Sample(metrics.NVML_RELEASED, 0),
        ]
        if not self._opening_trouble.text:
            labels = (INVENTORY, "", str(Reason.STUCK))
            failure = Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, labels)
            self._store.apply(INVENTORY, (failure,), keep=True)  # counted, and nothing of it ends
        self._opening_trouble.failed("a call does not come back", now_seconds)
        self._store.apply(INVENTORY, samples)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Render all series as they stand: the page and its content type."""
        return self._store.page(accept)

    def scraped(self) -> None:
        """Count a page that its reader has got whole: what ended is told for two of them."""
        self._store.scraped()
        self._host.scrape_count += 1

    @property
    def is_ready(self) -> bool:
        """Tell whether enough cards answered lately; it lapses by itself."""
        return not self.not_ready_text

    @property
    def not_ready_text(self) -> str:
        """Say why not enough cards are being read; empty when they are.

        A card counts while it answers: one reading that fails must not take the others off the
        page of who scrapes ready exporters only.
        """
        since_seconds = self._clock.monotonic_seconds() - READY_INTERVALS * self._interval_seconds
        read_count = self._cards.answering_count(since_seconds)
        if read_count >= self._min_cards:
            return ""
        reasons = (self._opening_trouble.text, self._inventory.trouble_text, self._silent_text)
        why = next((f": {reason}" for reason in reasons if reason), "")
        wanted = f"--readiness.min-gpus asks for {self._min_cards}"
        return f"{read_count} cards are being read, {wanted}{why}"

    @property
    def give_up_text(self) -> str:
        """Say why this process should end, so that its supervisor starts another; empty if not."""
        return self._inventory.give_up_text or self._opening_give_up_text

    def release(self) -> None:
        """Close NVML for a change of the driver or of MIG."""
        self._inventory.release()

    def resume(self) -> None:
        """Open NVML again."""
        self._inventory.resume()

    def close(self) -> None:
        """Let go of the kubelet and of logs, and close NVML unless a call hangs inside it."""
        self._host.attribution.close()
        self._host.ooms.close()
        with self._inventory.idle(IDLE_SECONDS) as is_idle, self._quiesced() as is_quiet:
            if is_idle and is_quiet:
                try:
                    self._host.nvml.close()
                except NvmlError as error:
                    log.warning("closing NVML: %s", error)


def _started(
    target: Callable[[threading.Event], None], stop: threading.Event, name: str
) -> threading.Thread:
    """Start a thread. A daemon: a call that hangs must not keep the process from ending."""
    thread = threading.Thread(target=target, args=(stop,), name=name, daemon=True)
    thread.start()
    return thread
