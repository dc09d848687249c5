"""A lane: the devices that one thread reads, each with its collectors, one call after the other.

A call that hangs in the driver stops its lane. Who watches the lanes sees it, and says so.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from rightslice.contract import metrics
from rightslice.contract.sampling import COVERED_INTERVALS
from rightslice.contract.spec import Sample
from rightslice.exporter import guard
from rightslice.exporter.collector import AnyCollector, Device
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.nvml.calls import calls_begun, forget_thread
from rightslice.exporter.host.nvml.card import Closable
from rightslice.exporter.host.nvml.errors import Reason
from rightslice.exporter.store import Store
from rightslice.exporter.trouble import Trouble

# A collector's name, the collector, and what it reads.
Row = tuple[str, AnyCollector, Device]

# No single NVML call takes longer on a card that works: the slowest that were measured elsewhere
# are a few milliseconds, and a busy driver makes them some hundred. A run may make fifty of them.
DEADLINE_SECONDS = 5.0
# Where each call comes back and yet a run takes longer than this, the driver only just lives.
RUN_DEADLINE_SECONDS = 30.0
# Rounds are not started to the microsecond: what is due within this part of an interval runs now.
EARLY_RATIO = 0.1


@dataclass(slots=True, eq=False)
class Task:
    """One collector on one device, and how its runs went. Once it `has_left`, it tells nothing."""

    name: str
    collector: AnyCollector
    device: Device
    trouble: Trouble
    due_seconds: float = float("-inf")
    read_seconds: float | None = None
    success_wall_seconds: float | None = None
    duration_seconds: float = 0.0
    reason: str | None = None
    has_run: bool = False
    has_left: bool = False

    @property
    def owner(self) -> str:
        """Under which name the store keeps this task's gauges."""
        return f"{self.name} {self.device.id}"

    @property
    def failing_owner(self) -> str:
        """Under which name the store keeps that it failed, which no good reading ends."""
        return f"failures of {self.owner}"

    def failure(self, reason: str) -> Sample:
        return Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, (self.name, self.device.id, str(reason)))


def tasks_of(rows: Sequence[Row], known: Sequence[Task] = ()) -> tuple[Task, ...]:
    """Make a task for each row; one that is known for the very device goes on."""
    by_row = {(task.name, id(task.device)): task for task in known}
    return tuple(
        by_row.get((name, id(device)))
        or Task(name, collector, device, Trouble(f"{name} on {device.id}"))
        for name, collector, device in rows
    )


@dataclass(slots=True)
class Lane:
    """Reads its tasks in order, when they are due.

    `lock` is held during a round: who holds it may close what the lane reads from. `is_retired`
    ends the lane at its next round. `hung` is the task whose call was found to hang.
    """

    name: str
    tasks: tuple[Task, ...]
    store: Store
    clock: Clock
    interval_seconds: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_retired: bool = False
    # Whether its thread has ended, or it never had one.
    is_over: bool = True
    hung: Task | None = None
    _answered: bool | None = None
    _thread_id: int = 0
    _current: Task | None = None
    # How far the current task was when it was last seen to go on, and when that was.
    _progress: tuple[int, float] = (0, 0.0)
    _started_seconds: float = 0.0
    _counted_seconds: float = 0.0
    # Devices that were taken from this lane, until its own thread closes them.
    _departed: list[Device] = field(default_factory=list)
    # Who finds a call to hang or takes a device away, and the call that comes back at that moment,
    # must not mix.
    _hang_lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """Read until `stop` is set, at even steps; a late step is not made up for."""
        self.is_over = False
        due_seconds = self.clock.monotonic_seconds()
        try:
            while not (stop.is_set() or self.is_retired):
                self.read()
                now_seconds = self.clock.monotonic_seconds()
                due_seconds = max(due_seconds + self.interval_seconds, now_seconds)
                self.clock.wait(stop, due_seconds - now_seconds)
            if self.is_retired:
                with self.lock:
                    self.give_back()
        finally:
            self.is_over = True
            forget_thread(threading.get_ident())

    def give_back(self) -> None:
        """Give back what the devices hold of the library, once; for who holds `lock`."""
        self._close_departed()
        for task in self.tasks:
            if isinstance(task.device, Closable):
                task.device.close()

    def _close_departed(self) -> None:
        while self._departed:
            device = self._departed.pop()
            if isinstance(device, Closable):
                device.close()

    def take_on(self, rows: Sequence[Row]) -> bool:
        """Read these from the next round on; False where that is for a new lane to do.

        What stays goes on as it is, and what has left tells nothing any more. A lane that hangs
        cannot change, and one of whose devices none stays need not. Called from another thread than
        the lane's own.
        """
        tasks = tasks_of(rows, self.tasks)
        hung = self.hung
        if tasks == self.tasks:
            return hung is None or not hung.has_left
        departed = [task for task in self.tasks if task not in tasks]
        if hung is not None or len(departed) == len(self.tasks):
            return False
        self._let_go(departed)
        staying = {id(task.device) for task in tasks}
        devices = {id(task.device): task.device for task in departed}
        self.tasks = tasks
        self._departed += [each for number, each in devices.items() if number not in staying]
        return True

    def read(self) -> None:
        """Make one round over the tasks that are due."""
        with self.lock:
            if self.is_retired:
                return
            self._close_departed()
            tasks = self.tasks
            now_seconds = self.clock.monotonic_seconds()
            for device in {task.device.id: task.device for task in tasks}.values():
                device.begin_round()
            due_seconds = now_seconds + EARLY_RATIO * self.interval_seconds
            due = [task for task in tasks if task.due_seconds <= due_seconds]
            for task in due:
                if not task.has_left:
                    self._run(task)
            if due:
                self._answered = all(task.device.is_up for task in self.tasks)

    def _run(self, task: Task) -> None:
        started_seconds = self.clock.monotonic_seconds()
        every_seconds = max(task.collector.every_seconds, self.interval_seconds)
        task.due_seconds = started_seconds + task.collector.every_seconds
        since_seconds = 0.0 if task.read_seconds is None else started_seconds - task.read_seconds
        covered_seconds = min(since_seconds, COVERED_INTERVALS * every_seconds)
        self._thread_id = threading.get_ident()
        self._progress = (calls_begun(self._thread_id), started_seconds)
        self._started_seconds = started_seconds
        self._current = task
        outcome = guard.run(task.collector, task.device, covered_seconds)
        with self._hang_lock:
            self._current = None
            has_hung, self.hung = self.hung is not None, None
        if has_hung:  # what was taken off the page comes back with the next round, whenever due
            for other in self.tasks:
                other.due_seconds = float("-inf")
        task.duration_seconds = self.clock.monotonic_seconds() - started_seconds
        with self._hang_lock:
            if task.has_left:  # as while it hung
                return
            self._take(task, outcome, started_seconds)
        if outcome.reason is None:
            task.trouble.ended(started_seconds)
        else:
            task.trouble.failed(outcome.error or outcome.reason, started_seconds)

    def _take(self, task: Task, outcome: guard.Outcome, started_seconds: float) -> None:
        """Keep what a run gave."""
        if outcome.reason is None or outcome.samples:
            task.read_seconds = started_seconds  # what was read has counted this time
        if outcome.reason is None:
            task.success_wall_seconds = self.clock.wall_seconds()
            self.store.apply(task.owner, outcome.samples)
        else:
            # "Not now" costs one round no gauge; from the second on there is no value.
            is_first = task.reason is None and task.has_run
            self._count_failure(task, outcome.reason)
            self.store.apply(
                task.owner,
                outcome.samples,
                keep=task.collector.is_lasting or (outcome.reason is Reason.LATER and is_first),
                is_whole=False,
            )
        task.reason, task.has_run = outcome.reason, True

    def _count_failure(self, task: Task, reason: str) -> None:
        self.store.apply(task.failing_owner, (task.failure(reason),))

    def watch(self, now_seconds: float) -> Task | None:
        """Give the task whose call hangs, and count each interval of it; no gauge stays.

        Called from another thread than the lane's own.
        """
        task = self._current
        if task is None:
            return None
        begun_count = calls_begun(self._thread_id)
        seen_count, seen_seconds = self._progress
        if begun_count != seen_count:
            seen_seconds = now_seconds
            self._progress = (begun_count, now_seconds)
        is_slow = now_seconds - self._started_seconds > RUN_DEADLINE_SECONDS
        if now_seconds - seen_seconds <= DEADLINE_SECONDS and not is_slow:
            return None
        with self._hang_lock:
            if self._current is not task:  # it came back just now
                return None
            if self.hung is None:
                since_seconds = self._started_seconds if is_slow else seen_seconds
                what = "a reading is not done after" if is_slow else "a call has not come back for"
                text = f"{what} {now_seconds - since_seconds:.0f} s"
                task.trouble.failed(text, now_seconds)
                self._drop_gauges(self.tasks)
            if self.hung is None or now_seconds - self._counted_seconds >= self.interval_seconds:
                self._counted_seconds = now_seconds
                if not task.has_left:
                    self._count_failure(task, Reason.STUCK)
            self.hung = task
            task.reason, task.has_run = Reason.STUCK, True
        return task

    @property
    def asks_driver(self) -> bool:
        """Tell whether a call of this lane may be inside the driver's library."""
        return any(getattr(task.device, "asks_driver", True) for task in self.tasks)

    @property
    def is_reading(self) -> bool:
        """Tell whether a round goes on, maybe in a call that hangs."""
        return self.lock.locked() or not self.is_over

    @property
    def is_up(self) -> bool | None:
        """Tell whether every device of the lane answered in the last round; None before one."""
        return False if self.hung is not None else self._answered

    def retire(self) -> None:
        """End the lane; what it read last is not told any more. Its counters stay."""
        self.is_retired = True
        self._let_go(self.tasks)

    def _let_go(self, tasks: Sequence[Task]) -> None:
        with self._hang_lock:
            for task in tasks:
                task.has_left = True
            self._drop_gauges(tasks)

    def _drop_gauges(self, tasks: Sequence[Task]) -> None:
        """Take off the page what is not known any more; what a card is it still is."""
        self.store.drop_owners(task.owner for task in tasks if not task.collector.is_lasting)
