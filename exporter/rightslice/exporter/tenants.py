"""Reads who is on a card, once per round, for all the collectors that tell of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rightslice.exporter.host.holders import Held, minor_name
from rightslice.exporter.host.kubelet.device_ids import DeviceId
from rightslice.exporter.host.nvml.card import MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.errors import DOWN_REASONS, NvmlError, Reason
from rightslice.exporter.host.nvml.mig import GpuInstance, MigReader
from rightslice.exporter.host.nvml.processes import GpuProcess, ProcessLists
from rightslice.exporter.plausible import is_plausible
from rightslice.exporter.tenancy import WHOLE_CARD, Key, Part, Tenancy, tenancy_of


@dataclass(slots=True)
class Promises:
    """The least memory that each workload on one card was promised, as of when that was read."""

    card: NvmlCard
    least_bytes: dict[Key, int] = field(default_factory=dict)


class Tenants:
    """One card's tenants."""

    def __init__(self, card: NvmlCard) -> None:
        self._card = card
        self._round = -1
        self._tenancy: Tenancy | None = None
        # Who has had company, and so has histograms of its own for the rest of its life.
        self._shared: set[Key] = set()

    def read(self) -> Tenancy:
        """Give who is on the card in this round. Raises NvmlError."""
        if self._tenancy is None or self._round != self._card.round_number:
            self._tenancy = None  # should this reading fail, the one before is not this round's
            self._tenancy = self._read()
            self._round = self._card.round_number
            self._note_sharing(self._tenancy)
        return self._tenancy

    def has_shared(self, key: Key) -> bool:
        """Tell whether a workload has shared its card or instance since it came."""
        return key in self._shared

    def _note_sharing(self, tenancy: Tenancy) -> None:
        self._shared &= {part.key for part in tenancy.parts}
        self._shared |= {part.key for part in tenancy.parts if tenancy.is_shared(part)}

    def _read(self) -> Tenancy:
        # The processes on a vGPU host's card are its guests', and theirs alone to see.
        is_host = self._card.identity.is_vgpu_host
        return tenancy_of(
            None if is_host else listed_processes(self._card),
            self._card.attribution.owner_of,
            held(self._card),
            self._instance_of,
        )

    def _instance_of(self, device: DeviceId) -> str | None:
        """Give the GPU instance of a device that was granted; None for one that is not there."""
        instances = instances_of(self._card)
        if device.gpu_instance_id is not None:
            ids = {instance.gpu_instance_id for instance in instances}
            return str(device.gpu_instance_id) if device.gpu_instance_id in ids else None
        if device.mig_uuid is None:
            return WHOLE_CARD
        for instance in instances:
            if any(row.uuid == device.mig_uuid for row in instance.devices):
                return str(instance.gpu_instance_id)
        return None


def held(card: NvmlCard) -> Held:
    """Tell who holds a card, as orchestrators told."""
    return card.attribution.held(tuple(_names(card)))


def instances_of(card: NvmlCard) -> tuple[GpuInstance, ...]:
    return card.reader(MigReader).layout().instances if card.identity.has_mig_on else ()


def total_bytes(card: NvmlCard, part: Part) -> int | None:
    """Give all memory of the card or instance that a part is of; None where that is not told."""
    room = room_of(card, part)
    return None if room is None else room.total_bytes


def room_of(card: NvmlCard, part: Part) -> MemoryReading | None:
    """Give the memory of the card or instance that a part is of; None where that is not told.

    Also where the reading fails: that is for the collectors of cards and slices to tell, and what
    is known of the workload otherwise stays.
    """
    try:
        memory = _memory(card, part.gpu_instance_id)
    except NvmlError as error:
        if error.reason in DOWN_REASONS:
            raise
        return None
    return memory if memory is not None and is_plausible(memory) else None


def _memory(card: NvmlCard, gpu_instance_id: str) -> MemoryReading | None:
    if not gpu_instance_id:
        return card.memory()
    for instance in instances_of(card):
        if str(instance.gpu_instance_id) == gpu_instance_id:
            return card.reader(MigReader).memory(instance)
    return None


def _names(card: NvmlCard) -> Iterator[str]:
    """Give the names that a card and its slices go by."""
    yield card.id
    if card.identity.minor is not None:
        yield minor_name(card.identity.minor)
    for instance in instances_of(card):
        yield from (device.uuid for device in instance.devices)


def listed_processes(card: NvmlCard) -> list[GpuProcess] | None:
    """List every process on a card; None where the driver does not, or not to us."""
    try:
        return card.reader(ProcessLists).every()
    except NvmlError as error:
        if error.reason is Reason.PERMISSION:
            return None
        raise
