"""A simulated node as it stands now: its driver, its cards, and what is still to happen."""

import math
import threading
from collections import deque
from collections.abc import Callable

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.answers.events import EventSets
from rightslice.exporter.simulate.answers.gpm import GpmSamples
from rightslice.exporter.simulate.answers.modes import refusals
from rightslice.exporter.simulate.answers.vgpu import hosted
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.device import Device, new_device
from rightslice.exporter.simulate.scenario import Scenario
from rightslice.exporter.simulate.slices import ComputeInstance, GpuInstance, MigDevice, cut
from rightslice.exporter.simulate.timeline import Event

FIRST_HANDLE = 0x1000
INIT_CODES = {
    "loaded": boundary.SUCCESS,
    "unloaded": boundary.DRIVER_NOT_LOADED,
    "library_missing": boundary.LIBRARY_NOT_FOUND,
    "mismatched": boundary.LIB_RM_VERSION_MISMATCH,
    "unknown_error": boundary.UNKNOWN,
}
# Between these and "loaded", the kernel module is loaded anew.
MODULE_OUT = ("unloaded", "mismatched")

# Writes an error into the node's kernel log: the card's PCI address and the error's number.
LogXid = Callable[[str, int], None]
# Lets the rest of the node go on; told the time, at least a second after it was last told.
OnSecond = Callable[[float], None]
Target = Device | MigDevice | GpuInstance | ComputeInstance


def in_no_log(bus_id: str, xid: int) -> None:
    """Write nothing: a node whose kernel log nobody reads."""


class Node:
    """The driver's side of all calls. Events take effect at the first call after their time."""

    def __init__(
        self,
        scenario: Scenario,
        now_seconds: Callable[[], float],
        log_xid: LogXid,
        on_second: OnSecond | None = None,
    ) -> None:
        self.now_seconds = now_seconds
        self._log_xid = log_xid
        self._on_second = on_second
        self._second = math.inf if on_second is None else now_seconds()
        self.driver = "loaded"
        self.devices = tuple(
            new_device(index, FIRST_HANDLE + index, card, now_seconds)
            for index, card in enumerate(scenario.cards)
        )
        self.vgpus = hosted(self.devices)
        self.events = EventSets(self.catch_up)
        self.gpm = GpmSamples()
        self._session_count = 0
        self._session_ended = False
        self._generation = 0
        # What each valid handle stands for. A handle that never was, or is no more, is not here.
        self.targets: dict[int, Target] = {}
        self._lock = threading.RLock()
        self._start_seconds = now_seconds()
        self._coming = deque(sorted(scenario.events, key=lambda event: event.at_seconds))
        self._due_seconds = math.inf
        for device in self.devices:
            self._cut(device, device.mig)
        self.catch_up()

    def init(self) -> int:
        """Open a session; a later one needs a driver as much as the first."""
        self.catch_up()
        code = INIT_CODES[self.driver]
        if code == boundary.SUCCESS:
            self._session_ended = False
            self._session_count += 1
        return code

    def shutdown(self) -> int:
        """Close a session. The last one takes its event sets and samples along."""
        self._session_count = max(self._session_count - 1, 0)
        if self._session_count == 0:
            self._forget_callers()
        return boundary.SUCCESS

    def refusal(self) -> int:
        """Give what every function answers now, whatever it is asked; 0 if they work."""
        if self._due_seconds <= self.now_seconds():
            self.catch_up()
        if self._session_ended:
            return boundary.UNINITIALIZED
        return boundary.UNKNOWN if self.driver == "unknown_error" else boundary.SUCCESS

    def listed(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.listed)

    def catch_up(self) -> None:
        """Apply what is due by now."""
        with self._lock:
            while self._event_seconds() <= self.now_seconds():
                self._apply(self._coming.popleft())
            if self._on_second is not None and self._second <= self.now_seconds():
                self._second = self.now_seconds() + 1.0
                self._on_second(self.now_seconds())
            self._due_seconds = min(self._event_seconds(), self._second)

    def _event_seconds(self) -> float:
        return self._start_seconds + self._coming[0].at_seconds if self._coming else math.inf

    def _apply(self, event: Event) -> None:
        if event.driver is not None:
            self._set_driver(event.driver, self._start_seconds + event.at_seconds)
        if event.card is None:
            return
        device = self.devices[event.card]
        if event.faults is not None:
            device.faults = event.faults
        if event.listed is not None:
            device.listed = event.listed
        if event.ecc is not None:
            device.ecc = event.ecc
        if event.mig is not None:
            self._cut(device, event.mig)
            self.events.happened(device, pynvml.nvmlEventMigConfigChange, 0)
        if event.xid is not None:
            self.events.happened(device, pynvml.nvmlEventTypeXidCriticalError, event.xid)
            self._log_xid(device.bus_id, event.xid)

    def _set_driver(self, state: str, at_seconds: float) -> None:
        before, self.driver = self.driver, state
        if state == "unloaded":
            self._end_sessions()
        if state == "loaded" and before in MODULE_OUT:
            self._end_sessions()
            for device in self.devices:
                self._restart(device, at_seconds)

    def _restart(self, device: Device, at_seconds: float) -> None:
        """Do to a card what loading the driver does: counters from 0, and no instances left."""
        device.totals.restart(at_seconds)
        if device.ecc is not None:
            device.ecc_at_load = device.ecc
        if device.gpu_instances:
            mig = device.mig
            self._cut(device, Mig(mig.enabled, mig.pending, mig.privileged))

    def _end_sessions(self) -> None:
        self._session_ended = True
        self._forget_callers()

    def _forget_callers(self) -> None:
        self.events.clear()
        self.gpm.clear()

    def _cut(self, device: Device, mig: Mig) -> None:
        """Put a MIG state in force, and let only the handles of what exists be valid."""
        self._generation += 1
        device.gpu_instances = cut(device, mig, self._generation)
        device.mig = mig
        device.refusals = refusals(device)
        current: dict[int, Target] = {device.handle: device}
        for instance in device.gpu_instances:
            current[instance.handle] = instance
            current.update((compute.handle, compute) for compute in instance.compute_instances)
            current.update((each.handle, each) for each in instance.mig_devices)
        for handle, target in list(self.targets.items()):
            if target.device is device and handle not in current:
                del self.targets[handle]
        self.targets.update(current)
