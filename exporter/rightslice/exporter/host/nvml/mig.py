"""How a card is cut by MIG: its GPU instances, their true placements, and the legal ones."""

import re
from collections.abc import Iterator
from ctypes import byref, c_uint
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, Calls, call, call_for_text
from rightslice.exporter.host.nvml.card import MemoryReading, read_memory
from rightslice.exporter.host.nvml.errors import (
    ABSENT_CODES,
    NOT_AVAILABLE_32,
    NvmlError,
    Reason,
    text_of,
)
from rightslice.facts.mig_placement import Placement

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

# "MIG 1g.5gb" as a profile, "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb" as a device.
PROFILE_NAME = re.compile(r"(?:^|.* )MIG (\S+)$")
BYTES_PER_MIB = 1024**2
# Placements that this driver, or this caller, is not told.
UNTOLD_CODES = ABSENT_CODES | {pynvml.NVML_ERROR_NO_PERMISSION}


@dataclass(frozen=True, slots=True)
class MigProfileInfo:
    """A GPU instance profile of this card, as the driver tells it."""

    profile_id: int
    name: str
    slice_count: int
    max_count: int
    memory_bytes: int
    placements: tuple[Placement, ...]


@dataclass(slots=True)
class MigDevice:
    """A compute instance of a GPU instance: what a process can run on."""

    handle: Any
    uuid: str
    profile: str
    gpu_instance_id: int
    compute_instance_id: int
    calls: Calls = field(default_factory=Calls)


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance. `placement` and `profile` are None where only a privileged caller is told."""

    gpu_instance_id: int
    profile: MigProfileInfo | None
    placement: Placement | None
    devices: tuple[MigDevice, ...]

    @property
    def name(self) -> str:
        """The profile's name; of an instance cut further, the part behind the compute slices."""
        if self.profile is not None:
            return self.profile.name
        return re.sub(r"^\d+c\.", "", self.devices[0].profile) if self.devices else ""

    @property
    def key(self) -> str:
        """What tells this instance from a later one with the same id."""
        return " ".join((self.name, *(device.uuid for device in self.devices)))


@dataclass(frozen=True, slots=True)
class MigLayout:
    """All instances of a card.

    `profiles` is None where the caller may not see placements: then instances without a compute
    instance are not seen either, and what still fits is unknown.
    """

    instances: tuple[GpuInstance, ...]
    profiles: tuple[MigProfileInfo, ...] | None

    @property
    def unit_count(self) -> int | None:
        """Placement units of the card: the end of the farthest legal placement."""
        ends = [
            placement.start + placement.size
            for profile in self.profiles or ()
            for placement in profile.placements
        ]
        return max(ends, default=None)


class MigReader:
    """Reads one card's layout. Profiles and legal placements are read once."""

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._profiles: tuple[MigProfileInfo, ...] = ()
        self._layout: MigLayout | None = None
        self._is_old = False
        # Whether the driver kept devices from us, whose files are not in our container.
        self._is_partial = False
        # Of each instance, by id, this round's reading or what it failed with.
        self._memory: dict[int, MemoryReading | NvmlError | None] = {}
        self._memory_round = -1

    def memory(self, instance: GpuInstance) -> MemoryReading | None:
        """Read the memory that an instance's compute instances share, once per round.

        None while it has none of them, or where it is not ours to read. Raises NvmlError, also when
        the instance is gone.
        """
        if not instance.devices:
            return None
        if self._memory_round != self._card.round_number:
            self._memory.clear()
            self._memory_round = self._card.round_number
        if instance.gpu_instance_id not in self._memory:
            self._memory[instance.gpu_instance_id] = self._read_memory(instance.devices[0])
        reading = self._memory[instance.gpu_instance_id]
        if isinstance(reading, NvmlError):
            raise reading
        return reading

    def _read_memory(self, device: MigDevice) -> MemoryReading | NvmlError | None:
        try:
            return read_memory(device.calls, device.handle)
        except NvmlError as error:
            if error.reason is Reason.PERMISSION:
                return None  # its device file is not here
            self._is_old = error.reason is Reason.STALE or self._is_old  # it may be gone
            return error

    def is_pending(self) -> bool | None:
        """Tell whether MIG will be on after the next reset; None on cards without MIG."""
        current, pending = c_uint(), c_uint()
        answer = self._card.calls.ask(
            "nvmlDeviceGetMigMode", self._card.handle, byref(current), byref(pending)
        )
        return bool(pending.value) if answer is Answer.VALUE else None

    def layout(self) -> MigLayout:
        """Give the layout, read anew when it was not, was forgotten, or is reported as changed.

        So the first of a card's collectors in a round finds a change. Raises NvmlError.
        """
        if self._card.is_reshaped:
            self._card.is_reshaped = False
            self._card.calls.forget_absent()  # some answers depend on whether there are instances
            self.forget()
        if self._layout is None or self._is_old:
            self._layout = self._read_layout()
            self._is_old = False
            self._memory_round = -1  # an id may be another instance's now
        return self._layout

    def forget(self) -> None:
        """Have the layout read anew: it may have changed."""
        self._is_old = True
        self._memory_round = -1

    def _read_layout(self) -> MigLayout:
        known = {
            (device.uuid, device.gpu_instance_id): device
            for instance in (self._layout.instances if self._layout else ())
            for device in instance.devices
        }
        by_instance: dict[int, list[MigDevice]] = {}
        for found in self._devices():
            device = known.get((found.uuid, found.gpu_instance_id), found)
            device.handle = found.handle
            by_instance.setdefault(device.gpu_instance_id, []).append(device)
        if self._is_partial:  # an instance without a device may have one that we do not see
            return MigLayout(tuple(_unplaced(by_instance)), None)
        if not self._profiles:
            self._profiles = tuple(self._read_profiles())
        try:
            placed = dict(self._placed_instances(self._profiles))
        except NvmlError as error:
            if error.reason is not Reason.PERMISSION:
                raise
            return MigLayout(tuple(_unplaced(by_instance)), None)
        instances = [
            GpuInstance(instance_id, profile, placement, tuple(by_instance.pop(instance_id, ())))
            for instance_id, (profile, placement) in sorted(placed.items())
        ]
        # What is left is of profiles that this driver or this binding does not tell: then what
        # still fits is unknown, for where they stand is.
        left = tuple(_unplaced(by_instance))
        return MigLayout((*instances, *left), None if left else self._profiles)

    def _devices(self) -> Iterator[MigDevice]:
        """List the MIG devices; their indices have holes, and some may not be ours to open."""
        self._is_partial = False
        card, count = self._card, c_uint()
        name = "nvmlDeviceGetMaxMigDeviceCount"
        if card.calls.ask(name, card.handle, byref(count)) is not Answer.VALUE:
            return
        for index in range(count.value):
            handle = pynvml.c_nvmlDevice_t()
            name = "nvmlDeviceGetMigDeviceHandleByIndex"
            code = call(name, card.handle, c_uint(index), byref(handle))
            if code == pynvml.NVML_ERROR_NO_PERMISSION:
                self._is_partial = True
            elif code != pynvml.NVML_ERROR_NOT_FOUND and _checked(name, code):
                yield _device(handle)

    def _read_profiles(self) -> Iterator[MigProfileInfo]:
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
            code = call(
                "nvmlDeviceGetGpuInstanceProfileInfoV",
                self._card.handle,
                c_uint(number),
                byref(info),
            )
            # "Invalid argument": a profile newer than the driver.
            if code in UNTOLD_CODES or code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                continue
            if _checked("nvmlDeviceGetGpuInstanceProfileInfoV", code):
                yield MigProfileInfo(
                    profile_id=info.id,
                    name=profile_name(text_of(info.name)),
                    slice_count=info.sliceCount,
                    max_count=info.instanceCount,
                    memory_bytes=info.memorySizeMB * BYTES_PER_MIB,
                    placements=self._legal_placements(info.id),
                )

    def _legal_placements(self, profile_id: int) -> tuple[Placement, ...]:
        name, count = "nvmlDeviceGetGpuInstancePossiblePlacements_v2", c_uint()
        handle = self._card.handle
        code = call(name, handle, c_uint(profile_id), None, byref(count))
        if code in UNTOLD_CODES:
            return ()
        _checked(name, code)
        rows = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        _checked(name, call(name, handle, c_uint(profile_id), rows, byref(count)))
        return tuple(sorted(Placement(row.start, row.size) for row in rows[: count.value]))

    def _placed_instances(
        self, profiles: tuple[MigProfileInfo, ...]
    ) -> Iterator[tuple[int, tuple[MigProfileInfo, Placement]]]:
        for profile in profiles:
            handles = (pynvml.c_nvmlGpuInstance_t * profile.max_count)()
            count = c_uint(profile.max_count)
            code = call(
                "nvmlDeviceGetGpuInstances",
                self._card.handle,
                c_uint(profile.profile_id),
                handles,
                byref(count),
            )
            _checked("nvmlDeviceGetGpuInstances", code)
            for handle in handles[: count.value]:
                info = pynvml.c_nvmlGpuInstanceInfo_t()
                _checked(
                    "nvmlGpuInstanceGetInfo", call("nvmlGpuInstanceGetInfo", handle, byref(info))
                )
                place = Placement(info.placement.start, info.placement.size)
                yield info.id, (profile, place)


def profile_name(text: str) -> str:
    """Take the profile out of what NVML calls it; a name without "MIG" is kept as it is."""
    match = PROFILE_NAME.match(text)
    return match[1] if match else text


def _unplaced(by_instance: dict[int, list[MigDevice]]) -> Iterator[GpuInstance]:
    for instance_id, devices in sorted(by_instance.items()):
        yield GpuInstance(instance_id, None, None, tuple(devices))


def _checked(name: str, code: int) -> bool:
    if code != SUCCESS:
        raise NvmlError(name, code)
    return True


def _device(handle: Any) -> MigDevice:
    return MigDevice(
        handle,
        uuid=_string("nvmlDeviceGetUUID", handle, pynvml.NVML_DEVICE_UUID_V2_BUFFER_SIZE),
        profile=profile_name(
            _string("nvmlDeviceGetName", handle, pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE)
        ),
        gpu_instance_id=_number("nvmlDeviceGetGpuInstanceId", handle),
        compute_instance_id=_number("nvmlDeviceGetComputeInstanceId", handle),
    )


def _string(name: str, handle: Any, size: int) -> str:
    code, text = call_for_text(name, handle, size)
    _checked(name, code)
    return text


def _number(name: str, handle: Any) -> int:
    number = c_uint(NOT_AVAILABLE_32)
    _checked(name, call(name, handle, byref(number)))
    return number.value
