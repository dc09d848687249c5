"""vGPU: what a host has given to its guests, and how they share the card's time."""

from collections.abc import Sequence
from ctypes import byref, c_uint, c_ulonglong, create_string_buffer
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, call, call_for_text
from rightslice.exporter.host.nvml.errors import (
    EMPTY_CODES,
    NOT_AVAILABLE_32,
    NvmlError,
    text_of,
)
from rightslice.exporter.host.nvml.rows import Rows
from rightslice.exporter.host.nvml.samples import SampleRing

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

POLICIES = {1: "vgpu_best_effort", 2: "vgpu_equal_share", 3: "vgpu_fixed_share"}
MOST_VGPUS = 64
UUID_LENGTH = 80
# After so many readings without a new sample the clock may have been set back.
OLD_READINGS = 3


@dataclass(frozen=True, slots=True)
class VgpuType:
    """A type of vGPU on this card. `max_count` guests of it fit, and share its time so."""

    name: str
    memory_bytes: int
    max_count: int


@dataclass(frozen=True, slots=True)
class Guest:
    """A running vGPU, by the number that the driver gives it, and whose it is.

    `vm_id` is the virtual machine's UUID or its domain id, as the hypervisor has it; empty where
    the driver does not tell. `gpu_instance_id` is empty for one that is not MIG-backed.
    """

    number: int
    uuid: str
    type: VgpuType
    vm_id: str
    gpu_instance_id: str


@dataclass(frozen=True, slots=True)
class VgpuInstance:
    """One running guest's part of the card. None where the driver does not tell."""

    uuid: str
    type: VgpuType
    memory_used_bytes: int | None
    is_licensed: bool | None
    # Of the whole card, over the samples since the last reading; None where nothing is new.
    busy_percent: float | None


@dataclass(slots=True)
class _Tally:
    """The samples of each guest since they were last taken: their sum, and how many."""

    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, number: int, percent: int) -> None:
        total, count = self._rows.get(number, (0, 0))
        self._rows[number] = (total + percent, count + 1)

    def take(self) -> dict[int, float]:
        """Give the means, in percent."""
        rows, self._rows = self._rows, {}
        return {number: total / count for number, (total, count) in rows.items()}

    def keep(self, numbers: Sequence[int]) -> None:
        """Forget guests that ended."""
        self._rows = {number: self._rows[number] for number in numbers if number in self._rows}


class VgpuReader:
    """Reads the host's side of one card. Types, and what a guest is, are read once.

    The samples of use are gone when they have been read: each who wants them, whenever it comes,
    has a tally that every reading adds to.
    """

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._types: dict[int, VgpuType] = {}
        self._ids = Rows(c_uint, MOST_VGPUS)
        self._sample_rows = Rows(pynvml.c_nvmlVgpuInstanceUtilizationSample_t, MOST_VGPUS)
        self._samples = SampleRing(self._samples_since, OLD_READINGS)
        self._for_instances, self._for_shares = _Tally(), _Tally()
        # By number and UUID: the numbers may be given again.
        self._guests: dict[tuple[int, str], Guest] = {}

    def policy(self) -> str | None:
        """Give the scheduler's policy; None where the driver does not tell."""
        newer = pynvml.c_nvmlVgpuSchedulerStateInfo_v2_t()
        newer.engineId = pynvml.NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS
        calls, handle = self._card.calls, self._card.handle
        name = "nvmlDeviceGetVgpuSchedulerState_v2"
        if calls.ask(name, handle, byref(newer)) is Answer.VALUE:
            return POLICIES.get(newer.schedulerPolicy)
        older = pynvml.c_nvmlVgpuSchedulerGetState_t()
        name = "nvmlDeviceGetVgpuSchedulerState"
        if calls.ask(name, handle, byref(older)) is Answer.VALUE:
            return POLICIES.get(older.schedulerPolicy)
        return None

    def guests(self) -> list[Guest] | None:
        """List the running guests; None where the card is no vGPU host. Raises NvmlError."""
        running = self._running()
        if running is None:
            return None
        known, self._guests = self._guests, {}
        for number in running:
            uuid = _string("nvmlVgpuInstanceGetUUID", number)
            if uuid is None:  # it ended just now
                continue
            guest = known.get((number, uuid)) or self._read_guest(number, uuid)
            if guest is not None:
                self._guests[number, uuid] = guest
        return list(self._guests.values())

    def instances(self) -> list[VgpuInstance] | None:
        """List the running guests; None where the card is no vGPU host. Raises NvmlError."""
        guests = self.guests()
        if guests is None:
            return None
        if guests:
            self.read_samples()
        busy = self._for_instances.take()
        return [
            VgpuInstance(
                guest.uuid,
                guest.type,
                memory_used_bytes(guest),
                _licence(guest.number),
                busy.get(guest.number),
            )
            for guest in guests
        ]

    def read_samples(self) -> None:
        """Take in the samples of use since the last reading. Raises NvmlError.

        The first only finds the newest: what lies before it was not watched.
        """
        is_first = self._samples.newest_us is None
        rows = self._samples.read_new() or ()
        tallies, running = (
            (self._for_instances, self._for_shares),
            [each for each, _ in self._guests],
        )
        for tally in tallies:
            tally.keep(running)
        for _, row in () if is_first else rows:
            number, percent = row.vgpuInstance, row.smUtil.uiVal
            if 0 <= percent <= 100:
                for tally in tallies:
                    tally.add(number, percent)

    @property
    def has_samples(self) -> bool:
        """Tell whether the driver has told the use of guests."""
        return self._samples.newest_us is not None

    def take_shares(self) -> dict[int, float]:
        """Give each guest's mean share of the card since the last call, 0 to 1, by its number.

        Those of which no sample was read are left out.
        """
        return {number: percent / 100 for number, percent in self._for_shares.take().items()}

    def _running(self) -> list[int] | None:
        rows = self._ids.read(self._card.calls, "nvmlDeviceGetActiveVgpus", self._card.handle)
        return None if rows is None else list(rows)

    def _read_guest(self, number: int, uuid: str) -> Guest | None:
        """Read what does not change; None for one that ended just now."""
        kind = self._type_of(number)
        if kind is None:
            return None
        return Guest(number, uuid, kind, _vm_id(number), self._gpu_instance_id(number))

    def _gpu_instance_id(self, number: int) -> str:
        if not self._card.identity.has_mig_on:
            return ""
        found = c_uint()
        code = call("nvmlVgpuInstanceGetGpuInstanceId", c_uint(number), byref(found))
        is_told = code == SUCCESS and found.value != NOT_AVAILABLE_32
        return str(found.value) if is_told else ""

    def _type_of(self, number: int) -> VgpuType | None:
        type_id = c_uint()
        name = "nvmlVgpuInstanceGetType"
        if not _is_there(name, call(name, c_uint(number), byref(type_id))):
            return None
        if type_id.value not in self._types:
            self._types[type_id.value] = self._read_type(type_id)
        return self._types[type_id.value]

    def _read_type(self, type_id: c_uint) -> VgpuType:
        size, name = c_uint(pynvml.NVML_DEVICE_NAME_BUFFER_SIZE), create_string_buffer(64)
        memory, most = c_ulonglong(), c_uint()
        for call_name, arguments in (
            ("nvmlVgpuTypeGetName", (type_id, name, byref(size))),
            ("nvmlVgpuTypeGetFramebufferSize", (type_id, byref(memory))),
            ("nvmlVgpuTypeGetMaxInstances", (self._card.handle, type_id, byref(most))),
        ):
            code = call(call_name, *arguments)
            if code != SUCCESS:
                raise NvmlError(call_name, code)
        # "GRID A100D-4C" and "NVIDIA A16-1Q" are the names; the vendor's word is not part of them.
        return VgpuType(text_of(name.value).split(" ", 1)[-1], memory.value, most.value)

    def _samples_since(self, since_us: int) -> Sequence[Any] | None:
        return self._sample_rows.read(
            self._card.calls,
            "nvmlDeviceGetVgpuUtilization",
            self._card.handle,
            c_ulonglong(since_us),
            byref(c_uint()),
        )


def guest_licence(card: "NvmlCard") -> bool | None:
    """Tell whether this guest is licensed; None where it need not be, or does not tell.

    Without a licence a guest runs degraded after a time of grace.
    """
    features = pynvml.c_nvmlGridLicensableFeatures_v4_t()
    answer = card.calls.ask("nvmlDeviceGetGridLicensableFeatures_v4", card.handle, byref(features))
    if answer is not Answer.VALUE or not features.isGridLicenseSupported:
        return None
    count = features.licensableFeaturesCount
    return any(row.featureState for row in features.gridLicensableFeatures[:count])


def memory_used_bytes(guest: Guest) -> int | None:
    """Read the memory that a guest uses; None where that is not told."""
    used = c_ulonglong()
    code = call("nvmlVgpuInstanceGetFbUsage", c_uint(guest.number), byref(used))
    return used.value if code == SUCCESS else None


def _vm_id(number: int) -> str:
    """Read the virtual machine's id, whether that is a UUID or a domain id."""
    text = create_string_buffer(UUID_LENGTH)
    kind = c_uint()
    name = "nvmlVgpuInstanceGetVmID"
    code = call(name, c_uint(number), text, c_uint(UUID_LENGTH), byref(kind))
    return text_of(text.value) if code == SUCCESS else ""


def _licence(number: int) -> bool | None:
    licence = pynvml.c_nvmlVgpuLicenseInfo_t()
    code = call("nvmlVgpuInstanceGetLicenseInfo_v2", c_uint(number), byref(licence))
    return bool(licence.isLicensed) if code == SUCCESS else None


def _string(name: str, number: int) -> str | None:
    code, text = call_for_text(name, c_uint(number), UUID_LENGTH)
    return text if _is_there(name, code) else None


def _is_there(name: str, code: int) -> bool:
    """Tell whether a guest still runs. Raises NvmlError when that cannot be told."""
    if code != SUCCESS and code not in EMPTY_CODES and code != pynvml.NVML_ERROR_INVALID_ARGUMENT:
        raise NvmlError(name, code)
    return code == SUCCESS
