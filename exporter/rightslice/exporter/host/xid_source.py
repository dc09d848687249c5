"""Xid errors of this node's cards, from NVML's events and the kernel log, each event once."""

import logging
from collections import deque
from dataclasses import dataclass, field

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.session import NvmlSession
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.xid import XidCounter, XidReport, normal_bus_id, parse_xid

log = logging.getLogger(__name__)

# Events that wait for the reader of the kernel log, which counts both; it comes every round.
MOST_WAITING = 4096
LONGEST_WAIT_SECONDS = 60.0


@dataclass
class DriverEvents(NodePart):
    """NVML's events. Read in a lane of its own: the call waits for the driver."""

    id = "events"
    lane = "events"
    nvml: NvmlSession
    waiting: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    _has_worked: bool = False

    def poll(self) -> bool | None:
        """Take in what came since the last poll; None while no card reports events.

        Xids wait in `waiting`; a card whose MIG layout changed is told so. Raises NvmlError.
        """
        if not self.nvml.events.is_watching:
            return None
        cards = {card.id: card for card in self.nvml.cards}
        try:
            events = self.nvml.events.poll()
        except NvmlError:
            # One that never worked waits for the next listing that is due, and costs no other.
            self.nvml.is_list_old |= self._has_worked and not self.nvml.events.is_watching
            self._has_worked = False
            raise
        self._has_worked = True
        for event in events:
            if event.xid is not None:
                self.waiting.append((event.uuid, event.xid))
            elif event.uuid in cards:
                cards[event.uuid].is_reshaped = True
                self.nvml.is_list_old = True
        return True


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One error. `uuid` is empty for a card that NVML never listed here.

    `is_new` is False for what the kernel log still held from before this process.
    """

    uuid: str
    xid: int
    wall_seconds: float
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """A report of either source, and when it was written by the node's wall clock."""

    report: XidReport
    wall_seconds: float
    is_new: bool


class XidSource(NodePart):
    """Merges both sources; read by one thread."""

    id = "xid"

    def __init__(
        self, nvml: NvmlSession, events: DriverEvents, log: KernelLog, clock: Clock
    ) -> None:
        self._nvml = nvml
        self._events = events
        self._log = log
        self._clock = clock
        self._counter = XidCounter()
        self._wait_seconds = clock.monotonic_seconds() + LONGEST_WAIT_SECONDS
        self._told_reason: str | None = None
        # Whether the last call could read it, and whether any could.
        self._has_read_log = self._has_ever_read_log = False
        self._known_uuids: set[str] = set()
        # When each error was last written, by card and number.
        self.last_seconds: dict[tuple[str, int], float] = {}
        self._early: list[_Told] = []

    @property
    def log_unavailable_reason(self) -> str | None:
        """Say why the kernel log cannot be read, and what to do; None while it can."""
        return self._log.unavailable_reason

    def read_new(self) -> list[XidEvent]:
        """Give the errors since the last call, those of the kernel log first: they name more."""
        told = [*self._early, *self._from_log()]
        # Until NVML has told where which card is, lines about cards wait; not for ever, for the one
        # card of a node may have fallen off its bus, and that is what they say.
        is_early = not self._nvml.bus_ids and self._clock.monotonic_seconds() < self._wait_seconds
        self._early = told[-MOST_WAITING:] if is_early else []
        if self._early:
            return []
        told += self._from_driver()
        uuids = {_spelt(bus_id): uuid for bus_id, uuid in self._nvml.bus_ids.items()}
        events = [
            XidEvent(uuids.get(row.report.bus_id, ""), row.report.xid, row.wall_seconds, row.is_new)
            for row in told
            if self._counter.report(row.report)
        ]
        for event in events:
            self.last_seconds[event.uuid, event.xid] = event.wall_seconds
        return events

    def new_cards(self) -> set[str]:
        """Give the cards that were found since the last call."""
        new = set(self._nvml.bus_ids.values()) - self._known_uuids
        self._known_uuids |= new
        return new

    def forget_card(self, uuid: str) -> None:
        """Drop what is remembered of a card; called from another thread."""
        self._known_uuids = self._known_uuids - {uuid}
        self.last_seconds = {
            key: seconds for key, seconds in self.last_seconds.items() if key[0] != uuid
        }

    def _from_log(self) -> list[_Told]:
        """Read the kernel log. The first time it gives what was written since boot.

        A live line counts as of now: the kernel's stamps drift from any clock by seconds in weeks,
        more than two reports of one event lie apart.
        """
        now_seconds, wall_seconds = self._clock.monotonic_seconds(), self._clock.wall_seconds()
        is_live, is_new, told = self._has_read_log, self._has_ever_read_log, []
        for record in self._log.read_new():
            found = parse_xid(record.text) if record.is_from_kernel else None
            if found is not None:
                seconds = now_seconds if is_live else record.monotonic_seconds
                written_seconds = record.wall_seconds(
                    wall_now_seconds=wall_seconds, monotonic_now_seconds=now_seconds
                )
                at_seconds = wall_seconds if is_live else written_seconds
                told.append(_Told(XidReport(*found, seconds), at_seconds, is_new))
        reason = self._log.unavailable_reason
        if reason is not None and reason != self._told_reason:  # once: many nodes are meant so
            log.warning("%s; Xid errors come from NVML alone", reason)
        self._told_reason = reason
        self._has_read_log = reason is None
        self._has_ever_read_log |= self._has_read_log
        return told

    def _from_driver(self) -> list[_Told]:
        buses = {uuid: _spelt(bus_id) for bus_id, uuid in self._nvml.bus_ids.items()}
        now_seconds, wall_seconds = self._clock.monotonic_seconds(), self._clock.wall_seconds()
        told = []
        while self._events.waiting:
            uuid, xid = self._events.waiting.popleft()
            report = XidReport(buses.get(uuid, uuid), xid, None, now_seconds)
            told.append(_Told(report, wall_seconds, is_new=True))
        return told


def _spelt(bus_id: str) -> str:
    """Spell a card's place as the kernel log's parser does; what is no PCI address stays."""
    try:
        return normal_bus_id(bus_id)
    except ValueError:
        return bus_id
