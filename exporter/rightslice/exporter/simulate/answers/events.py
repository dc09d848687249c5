"""Events that the driver reports to those who registered for them before."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import ALL_ONES, SUCCESS, store
from rightslice.exporter.simulate.device import Device

FIRST_SET = 1 << 60
# In real time: how soon a waiting call sees an event of a clock that others move.
POLL_SECONDS = 0.01
MILLISECONDS_PER_SECOND = 1000


@dataclass(slots=True)
class EventSet:
    """What one listener registered for, by card, and what it has not fetched yet."""

    masks: dict[int, int] = field(default_factory=dict)
    waiting: deque[tuple[Device, int, int]] = field(default_factory=deque)


class EventSets:
    """All event sets of a session. `catch_up` lets the node's time take effect."""

    def __init__(self, catch_up: Callable[[], None]) -> None:
        self._catch_up = catch_up
        self._sets: dict[int, EventSet] = {}
        self._numbers = count(FIRST_SET)

    def on_cards(self) -> dict[str, boundary.Function]:
        return {
            "nvmlDeviceGetSupportedEventTypes": lambda device, types: store(
                types, supported_types(device)
            ),
            "nvmlDeviceRegisterEvents": self._register,
        }

    def plain(self) -> dict[str, boundary.Function]:
        return {
            "nvmlEventSetCreate": self._create,
            "nvmlEventSetWait_v2": self._wait,
            "nvmlEventSetFree": self._free,
        }

    def clear(self) -> None:
        self._sets = {}

    def happened(self, device: Device, event_type: int, data: int) -> None:
        """Queue an event for the sets that asked for it."""
        for each in self._sets.values():
            if each.masks.get(device.index, 0) & event_type:
                each.waiting.append((device, event_type, data))

    def _create(self, reference: Any) -> int:
        number = next(self._numbers)
        self._sets[number] = EventSet()
        boundary.write_handle(reference, number)
        return SUCCESS

    def _free(self, handle: Any) -> int:
        known = self._sets.pop(boundary.address(handle), None)
        return boundary.INVALID_ARGUMENT if known is None else SUCCESS

    def _register(self, device: Device, types: Any, handle: Any) -> int:
        found = self._sets.get(boundary.address(handle))
        mask = boundary.number(types)
        if found is None:
            return boundary.INVALID_ARGUMENT
        if mask & ~supported_types(device):
            return boundary.NOT_SUPPORTED
        found.masks[device.index] = found.masks.get(device.index, 0) | mask
        return SUCCESS

    def _wait(self, handle: Any, reference: Any, timeout: Any) -> int:
        number = boundary.address(handle)
        until_seconds = time.monotonic() + boundary.number(timeout) / MILLISECONDS_PER_SECOND
        while True:
            found = self._sets.get(number)
            if found is None:
                return boundary.INVALID_ARGUMENT
            if found.waiting:
                return _write(boundary.target(reference), *found.waiting.popleft())
            left_seconds = until_seconds - time.monotonic()
            if left_seconds <= 0:
                return boundary.TIMEOUT
            threading.Event().wait(min(POLL_SECONDS, left_seconds))
            self._catch_up()


def supported_types(device: Device) -> int:
    """Give the kinds of event that a card reports; a guest's virtual card reports none."""
    if device.card.is_guest:
        return 0
    types = pynvml.nvmlEventTypeXidCriticalError
    if device.layout is not None:
        types |= pynvml.nvmlEventMigConfigChange
    return int(types)


def _write(data: Any, device: Device, event_type: int, value: int) -> int:
    boundary.write_handle(data, device.handle)  # the struct's first member
    data.eventType, data.eventData = event_type, value
    data.gpuInstanceId = data.computeInstanceId = ALL_ONES
    return SUCCESS
