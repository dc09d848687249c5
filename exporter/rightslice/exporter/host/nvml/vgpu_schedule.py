"""Which vGPU had a host card's engine when, from the log that the driver's scheduler keeps."""

from collections.abc import Iterator
from ctypes import byref
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import Answer

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

# Driver 595 and later, and 530 and later.
LOG_V2, LOG_V1 = "nvmlDeviceGetVgpuSchedulerLog_v2", "nvmlDeviceGetVgpuSchedulerLog"
MOST_ENTRIES = int(pynvml.NVML_SCHEDULER_SW_MAX_LOG_ENTRIES)
NANOSECONDS_PER_SECOND = 1e9


@dataclass(frozen=True, slots=True)
class Run:
    """A time for which a software runlist had the engine, by the driver's own clock.

    `slice_seconds` is what it should have had while others wanted the engine; 0 where not told.
    """

    runlist: int
    end_seconds: float
    ran_seconds: float
    slice_seconds: float

    @property
    def start_seconds(self) -> float:
        return self.end_seconds - self.ran_seconds


@dataclass(frozen=True, slots=True)
class LogPart:
    """The runs since the last reading, oldest first.

    `since_seconds` is the end of the newest run that was read before; None at the start, which only
    finds the log's end. Where `is_overrun`, runs between that and the first were lost.
    """

    runs: tuple[Run, ...]
    since_seconds: float | None
    is_overrun: bool = False


class ScheduleLog:
    """Reads one card's log from where the last reading ended.

    The driver keeps 200 runs, of a millisecond or two each: on a full card the last 0.2 to 0.4 s.
    """

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        # Room for an answer: some 10 KiB, used again and again.
        self._newer = pynvml.c_nvmlVgpuSchedulerLogInfo_v2_t()
        self._older = pynvml.c_nvmlVgpuSchedulerLog_t()
        self._newest_ns: int | None = None

    def start_anew(self) -> None:
        """Forget where the last reading ended: what lies between was not watched."""
        self._newest_ns = None

    def read(self) -> LogPart | None:
        """Give the runs since the last call; None where there is no log. Raises NvmlError."""
        log = self._fetch()
        if log is None:
            self.start_anew()
            return None
        # The order of the entries is not documented. Each stamp is read once: the binding's
        # structures are slow to read from.
        entries = log.logEntries[: min(log.entriesCount, MOST_ENTRIES)]
        stamped = [(entry.timestamp, entry) for entry in entries]
        stamped = [(stamp_ns, entry) for stamp_ns, entry in stamped if stamp_ns]
        since_ns, oldest_ns = self._newest_ns, min((row[0] for row in stamped), default=0)
        newest_ns = max((row[0] for row in stamped), default=since_ns)
        self._newest_ns = newest_ns
        if since_ns is None or newest_ns is None or newest_ns < since_ns:  # or the clock was reset
            return LogPart((), None)
        fresh = [entry for stamp_ns, entry in stamped if stamp_ns > since_ns]
        # A log that is full and has nothing known left in it has lost something. One that is not
        # full may be of a driver that hands out each entry once.
        is_overrun = len(entries) == MOST_ENTRIES and oldest_ns > since_ns
        runs = sorted(_runs(fresh), key=attrgetter("end_seconds"))
        return LogPart(tuple(runs), since_ns / NANOSECONDS_PER_SECOND, is_overrun)

    def _fetch(self) -> Any | None:
        calls, handle = self._card.calls, self._card.handle
        self._newer.engineId = pynvml.NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS
        for name, log in ((LOG_V2, self._newer), (LOG_V1, self._older)):
            log.entriesCount = 0
            answer = calls.ask(name, handle, byref(log))
            if answer is not Answer.ABSENT:
                return log
        return None


def _runs(entries: list[Any]) -> Iterator[Run]:
    """Read what can be relied on.

    Not timeRunTotal, which is signed and relative to other runlists in the kernel and only shown as
    unsigned. Not cumulativePreemptionTime, of which nobody says whether it is the time spent
    preempted or the time that preempting took.
    """
    for entry in entries:
        yield Run(
            entry.swRunlistId,
            entry.timestamp / NANOSECONDS_PER_SECOND,
            entry.timeRun / NANOSECONDS_PER_SECOND,
            entry.targetTimeSlice / NANOSECONDS_PER_SECOND,
        )
