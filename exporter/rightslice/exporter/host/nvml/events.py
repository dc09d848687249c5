"""Events that the driver reports: Xid errors, and changes of the MIG layout."""

from ctypes import byref, c_uint, c_ulonglong, c_void_p, cast
from dataclasses import dataclass
from typing import Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, call
from rightslice.exporter.host.nvml.errors import DOWN_REASONS, NvmlError

WANTED = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventMigConfigChange
# More than any driver keeps; a poll that met so many leaves the rest to the next one.
MOST_EVENTS_PER_POLL = 256


@dataclass(frozen=True, slots=True)
class CardEvent:
    """One event of one card; `xid` is None for a change of its MIG layout."""

    uuid: str
    xid: int | None


def address_of(handle: Any) -> int:
    """Give what tells two handles apart."""
    return cast(handle, c_void_p).value or 0


class EventSet:
    """The events of all cards from registration on; what came before is not told."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int, str] = {}
        self._is_broken = False

    def watch(self, handles: dict[str, Any]) -> None:
        """Register cards, by UUID, that are not watched yet. Cards without events are left out."""
        if self._is_broken:
            self.free()
        if self._set is None:
            created = pynvml.c_nvmlEventSet_t()
            if call("nvmlEventSetCreate", byref(created)) != SUCCESS:
                return
            self._set = created
        for uuid, handle in handles.items():
            if self._uuids.get(address_of(handle)) == uuid:
                continue
            supported = c_ulonglong()
            code = call("nvmlDeviceGetSupportedEventTypes", handle, byref(supported))
            mask = supported.value & WANTED if code == SUCCESS else 0
            if mask and call("nvmlDeviceRegisterEvents", handle, c_ulonglong(mask), self._set) == 0:
                self._uuids[address_of(handle)] = uuid

    @property
    def is_watching(self) -> bool:
        """Tell whether any card reports events."""
        return bool(self._uuids) and not self._is_broken

    def poll(self) -> list[CardEvent]:
        """Give the events since the last poll, at once. Raises NvmlError."""
        events: list[CardEvent] = []
        data = pynvml.c_nvmlEventData_t()
        while self._set is not None and len(events) < MOST_EVENTS_PER_POLL:
            code = call("nvmlEventSetWait_v2", self._set, byref(data), c_uint(0))
            # A failure that stays is met again by the next poll; these events would be lost.
            if code == pynvml.NVML_ERROR_TIMEOUT or (code != SUCCESS and events):
                break
            if code != SUCCESS:
                error = NvmlError("nvmlEventSetWait_v2", code)
                # One card of the set is gone, and the set tells of no other any more: the next
                # listing, which owns the set, makes another of those that are left.
                self._is_broken |= error.reason in DOWN_REASONS
                raise error
            uuid = self._uuids.get(address_of(data.device), "")
            is_xid = bool(data.eventType & pynvml.nvmlEventTypeXidCriticalError)
            events.append(CardEvent(uuid, int(data.eventData) if is_xid else None))
        return events

    def free(self) -> None:
        """Give the set back; the library is about to be closed."""
        if self._set is not None:
            call("nvmlEventSetFree", self._set)
        self._set = None
        self._uuids = {}
        self._is_broken = False
