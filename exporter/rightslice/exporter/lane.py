"""A lane: the devices that one thread reads, each with its collectors, one call after the other.

A call that hangs in the driver stops its lane. Who watches the lanes sees it, and says so.
"""

import threading
from dataclasses import dataclass, field

from rightslice.contract import metrics
from rightslice.contract.sampling import COVERED_INTERVALS
from rightslice.contract.spec import Sample
from rightslice.exporter import guard
from rightslice.exporter.collector import AnyCollector, Device
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.nvml.errors import Reason
from rightslice.exporter.store import Store
from rightslice.exporter.trouble import Trouble

# No NVML call of the sampling loop takes longer on a card that works: the slowest that were
# measured elsewhere are a few milliseconds, and a busy driver makes them some hundred.
DEADLINE_SECONDS = 5.0
# Rounds are not started to the microsecond: what is due within this part of an interval runs now.
EARLY_RATIO = 0.1


@dataclass(slots=True)
class Task:
    """One collector on one device, and how its runs went."""

    name: str
    collector: AnyCollector
    device: Device
    trouble: Trouble
    due_seconds: float = float("-inf")
    read_seconds: float | None = None
    success_wall_seconds: float | None = None
    duration_seconds: float = 0.0
    reason: Reason | None = None
    has_run: bool = False

    @property
    def owner(self) -> str:
        """Under which name the store keeps this task's gauges."""
        return f"{self.name} {self.device.id}"

    def failure(self, reason: Reason) -> Sample:
        return Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, (self.name, self.device.id, str(reason)))


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
    hung: Task | None = None
    _answered: bool | None = None
    _current: tuple[Task, float] | None = None

    def run(self, stop: threading.Event) -> None:
        """Read until `stop` is set, at even steps; a late step is not made up for."""
        due_seconds = self.clock.monotonic_seconds()
        while not (stop.is_set() or self.is_retired):
            self.read()
            now_seconds = self.clock.monotonic_seconds()
            due_seconds = max(due_seconds + self.interval_seconds, now_seconds)
            self.clock.wait(stop, due_seconds - now_seconds)

    def read(self) -> None:
        """Make one round over the tasks that are due."""
        with self.lock:
            if self.is_retired:
                return
            now_seconds = self.clock.monotonic_seconds()
            for device in {task.device.id: task.device for task in self.tasks}.values():
                device.begin_round()
            due_seconds = now_seconds + EARLY_RATIO * self.interval_seconds
            due = [task for task in self.tasks if task.due_seconds <= due_seconds]
            for task in due:
                if not self.is_retired:
                    self._run(task)
            if due:
                self._answered = all(task.device.is_up for task in self.tasks)

    def _run(self, task: Task) -> None:
        started_seconds = self.clock.monotonic_seconds()
        every_seconds = max(task.collector.every_seconds, self.interval_seconds)
        task.due_seconds = started_seconds + task.collector.every_seconds
        since_seconds = started_seconds - (
            started_seconds if task.read_seconds is None else task.read_seconds
        )
        covered_seconds = min(since_seconds, COVERED_INTERVALS * every_seconds)
        self._current = (task, started_seconds)
        outcome = guard.run(task.collector, task.device, covered_seconds)
        self._current = None
        self.hung = None
        task.duration_seconds = self.clock.monotonic_seconds() - started_seconds
        if self.is_retired:  # it hung while the device was given up
            return
        self._take(task, outcome, started_seconds)

    def _take(self, task: Task, outcome: guard.Outcome, started_seconds: float) -> None:
        """Keep what a run gave."""
        if outcome.reason is None:
            task.read_seconds = started_seconds
            task.success_wall_seconds = self.clock.wall_seconds()
            task.trouble.ended()
            self.store.apply(task.owner, outcome.samples)
        else:
            # "Not now" costs one round no gauge; from the second on there is no value.
            is_first = task.reason is None and task.has_run
            self.store.apply(
                task.owner,
                (task.failure(outcome.reason),),
                keep=outcome.reason is Reason.LATER and is_first,
            )
            task.trouble.failed(outcome.error or str(outcome.reason), started_seconds)
        task.reason, task.has_run = outcome.reason, True
        if self.is_retired:  # just now, from another thread: nothing of it stays
            self.store.drop_owners((task.owner,))

    def watch(self, now_seconds: float) -> Task | None:
        """Give the task whose call hangs; its failure is counted once, and no gauge stays.

        Called from another thread than the lane's own.
        """
        current = self._current
        if current is None or now_seconds - current[1] <= DEADLINE_SECONDS:
            self.hung = None
            return None
        task, started_seconds = current
        if self.hung is not task:
            self.hung = task
            task.reason, task.has_run = Reason.STUCK, True
            text = f"a call has not come back for {now_seconds - started_seconds:.0f} s"
            task.trouble.failed(text, now_seconds)
            self.store.drop_owners(task.owner for task in self.tasks)
            self.store.apply(task.owner, (task.failure(Reason.STUCK),))
        return task

    @property
    def is_reading(self) -> bool:
        """Tell whether a round goes on, maybe in a call that hangs."""
        return self.lock.locked()

    @property
    def is_up(self) -> bool | None:
        """Tell whether every device of the lane answered in the last round; None before one."""
        return False if self.hung is not None else self._answered

    def retire(self) -> None:
        """End the lane; what it read last is not told any more. Its counters stay."""
        self.is_retired = True
        self.store.drop_owners(task.owner for task in self.tasks)
