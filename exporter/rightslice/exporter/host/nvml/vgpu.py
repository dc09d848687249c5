"""vGPU: what a host has given to its guests, and how they share the card's time."""

from collections.abc import Sequence
from ctypes import byref, c_uint, c_ulonglong, create_string_buffer
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, call, call_for_text
from rightslice.exporter.host.nvml.errors import EMPTY_CODES, NvmlError, text_of
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
class VgpuInstance:
    """One running guest's part of the card. None where the driver does not tell."""

    uuid: str
    type: VgpuType
    memory_used_bytes: int | None
    is_licensed: bool | None
    # Of the whole card, over the samples since the last reading; None where nothing is new.
    busy_percent: float | None


class VgpuReader:
    """Reads the host's side of one card. Types are read once."""

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._types: dict[int, VgpuType] = {}
        self._ids = Rows(c_uint, MOST_VGPUS)
        self._sample_rows = Rows(pynvml.c_nvmlVgpuInstanceUtilizationSample_t, MOST_VGPUS)
        self._samples = SampleRing(self._samples_since, OLD_READINGS)

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

    def instances(self) -> list[VgpuInstance] | None:
        """List the running guests; None where the card is no vGPU host. Raises NvmlError."""
        running = self._running()
        if running is None:
            return None
        busy = self._busy_percents() if running else {}
        found = []
        for number in running:
            uuid = _string("nvmlVgpuInstanceGetUUID", number)
            kind = self._type_of(number)
            if uuid is not None and kind is not None:  # else it ended just now
                found.append(
                    VgpuInstance(uuid, kind, _memory(number), _licence(number), busy.get(number))
                )
        return found

    def _running(self) -> list[int] | None:
        rows = self._ids.read(self._card.calls, "nvmlDeviceGetActiveVgpus", self._card.handle)
        return None if rows is None else list(rows)

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

    def _busy_percents(self) -> dict[int, float]:
        """Give each guest's mean share of the card over the samples since the last call.

        The first call only finds the newest sample: what lies before it was not watched.
        """
        is_first = self._samples.newest_us is None
        shares: dict[int, list[int]] = {}
        for _, row in self._samples.read_new() or ():
            percent = row.smUtil.uiVal
            if not is_first and 0 <= percent <= 100:
                shares.setdefault(row.vgpuInstance, []).append(percent)
        return {number: sum(values) / len(values) for number, values in shares.items()}

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


def _memory(number: int) -> int | None:
    used = c_ulonglong()
    code = call("nvmlVgpuInstanceGetFbUsage", c_uint(number), byref(used))
    return used.value if code == SUCCESS else None


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
