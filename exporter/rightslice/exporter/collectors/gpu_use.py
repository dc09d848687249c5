"""Whether a card is held and whether a kernel runs on it, from NVML.

Both in one reading, because busy time of a card that nobody holds stands apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.contract.metrics import (
    GPU_ALLOCATED_SECONDS_TOTAL,
    GPU_BUSY_RATIO,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_IDLE_SECONDS,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
    SIGNAL_ALLOCATION,
    SIGNAL_BUSY,
)
from rightslice.contract.sampling import HELD_MEMORY_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter.block_use import LONGEST_SAMPLE_SECONDS, BusyBlock
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.nvml.card import MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.errors import DOWN_REASONS, NvmlError, Reason
from rightslice.exporter.host.nvml.mig import GpuInstance, MigReader
from rightslice.exporter.host.nvml.processes import GpuProcess
from rightslice.exporter.plausible import is_plausible
from rightslice.exporter.tenants import Tenants, held

MICROSECONDS_PER_SECOND = 1e6
# More than any driver keeps for itself where it counts its reserve as used.
MOST_RESERVED_BYTES = 2 * 1024**3
# A reading that comes later than this many usual steps after the one before left something out.
LONGEST_STEP_RATIO = 1.5


def is_held(gpu: NvmlCard) -> bool | None:
    """Tell whether somebody holds the card; None where that is not known.

    Where an orchestrator hands the card out, it is for it to say: who is on it without having been
    granted it does not hold it.
    """
    return gpu.reader(Tenants).read().is_held if held(gpu).is_ruled else is_occupied(gpu)


def is_occupied(gpu: NvmlCard) -> bool | None:
    """Tell whether somebody is on the card; None where neither processes nor memory tell."""
    if gpu.identity.has_mig_on:
        return is_any_instance_held(gpu)
    processes = compute_processes(gpu)
    if processes:
        return True
    # Used memory of no visible process means that a PID namespace hides its holder, or that it has
    # a graphics context only. A driver that counts its reserve as used makes every free card look
    # held by a little.
    memory = gpu.memory()
    if memory is not None and is_plausible(memory):
        reserve_bytes = MOST_RESERVED_BYTES if memory.reserved_bytes is None else 0
        if memory.used_bytes > HELD_MEMORY_BYTES + reserve_bytes:
            # Where the kernel owns the memory, pages outlive the process that had them.
            return None if gpu.memory_kind == "os_managed" else True
        if memory.reserved_bytes is not None:
            return False
    return None if processes is None else False


def compute_processes(gpu: NvmlCard) -> list[GpuProcess] | None:
    """List the processes; None where the driver does not, or not to us."""
    try:
        return gpu.compute_processes()
    except NvmlError as error:
        if error.reason is Reason.PERMISSION:
            return None
        raise


def is_any_instance_held(gpu: NvmlCard) -> bool | None:
    """Tell whether a MIG instance has memory in use; processes of all are for the privileged.

    None where some instance that can run something does not tell.
    """
    instances = gpu.reader(MigReader).layout().instances
    readings = [_memory_of(gpu, instance) for instance in instances if instance.devices]
    told = [reading for reading in readings if reading is not None and is_plausible(reading)]
    if any(reading.used_bytes > HELD_MEMORY_BYTES for reading in told):
        return True
    return False if len(told) == len(readings) else None


def _memory_of(gpu: NvmlCard, instance: GpuInstance) -> MemoryReading | None:
    """Read an instance's memory; None where that fails, which the collector `mig` tells."""
    try:
        return gpu.reader(MigReader).memory(instance)
    except NvmlError as error:
        if error.reason in DOWN_REASONS:
            raise
        return None


@dataclass(frozen=True, slots=True)
class BusyTime:
    """What the samples of one reading add up to."""

    busy_seconds: float
    covered_seconds: float
    rejected_count: int


class BusyMeter:
    """Adds up one card's utilisation, and knows for how long at least it has been idle."""

    def __init__(self, card: NvmlCard) -> None:
        self._card = card
        self.idle_seconds: float | None = None
        # Time since the driver's newest sample, and the shortest time between two readings.
        self._blind_seconds = 0.0
        self._step_seconds = float("inf")
        self._block = BusyBlock()

    def take_block(self) -> BusyBlock:
        """Give what was added up since the last call."""
        block, self._block = self._block, BusyBlock()
        return block

    def read(self, covered_seconds: float) -> BusyTime | None:
        """Give the busy time since the last reading.

        From the driver's own sample buffer where the card has one, else from its last period; None
        where the card tells no utilisation.
        """
        since_us = self._card.newest_sample_us
        samples = self._card.new_utilisation_samples()
        if samples is None:
            percent = self._card.utilisation_percent()
            if percent is None:
                return None
            self._note_step(covered_seconds)
            spans, longest_seconds = [(covered_seconds, percent)], covered_seconds
        else:
            self._note_blindness(covered_seconds, is_new=bool(samples))
            spans, longest_seconds = list(_spans(samples, since_us)), LONGEST_SAMPLE_SECONDS
        if self._card.settling_seconds > 0:
            self._card.settling_seconds -= covered_seconds
            return BusyTime(0.0, 0.0, 0)
        return self._add_up(spans, longest_seconds)

    def _note_step(self, covered_seconds: float) -> None:
        """End the idleness over a missed reading: without stamps only a longer step tells it."""
        if covered_seconds > 0:
            self._step_seconds = min(self._step_seconds, covered_seconds)
            if covered_seconds > LONGEST_STEP_RATIO * self._step_seconds:
                self.idle_seconds = None

    def _note_blindness(self, covered_seconds: float, *, is_new: bool) -> None:
        """End the idleness when the driver has told nothing for longer than a sample may take."""
        self._blind_seconds = 0.0 if is_new else self._blind_seconds + covered_seconds
        if self._blind_seconds > LONGEST_SAMPLE_SECONDS:
            self.idle_seconds = None

    def _add_up(self, spans: list[tuple[float, int]], longest_seconds: float) -> BusyTime:
        busy_seconds = covered_seconds = 0.0
        rejected_count = 0
        for span_seconds, percent in spans:
            if not 0 <= percent <= 100:
                rejected_count += 1
                self.idle_seconds = None
                continue
            counted_seconds = min(span_seconds, longest_seconds)
            busy_seconds += counted_seconds * percent / 100
            covered_seconds += counted_seconds
            self._block.add(counted_seconds, percent / 100)
            # What was not watched may have been busy: idleness is known from then on only.
            is_unbroken = counted_seconds == span_seconds and self.idle_seconds is not None
            before_seconds = (self.idle_seconds or 0.0) if is_unbroken else 0.0
            self.idle_seconds = 0.0 if percent else before_seconds + counted_seconds
        return BusyTime(busy_seconds, covered_seconds, rejected_count)


def _spans(samples: list[tuple[int, int]], since_us: int | None) -> Iterator[tuple[float, int]]:
    """Give (seconds, percent) per sample; each stands for the time since the one before it."""
    for stamp_us, percent in samples:
        span_us = stamp_us - since_us if since_us is not None else 0
        since_us = stamp_us
        yield span_us / MICROSECONDS_PER_SECOND, percent


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    holder = Holder()
    return every_part(
        _allocation(gpu, covered_seconds, holder), _busy(gpu, covered_seconds, holder)
    )


@dataclass(slots=True)
class Holder:
    """Whether somebody holds the card in this reading; None while that is not known."""

    is_there: bool | None = None


def _allocation(gpu: NvmlCard, covered_seconds: float, holder: Holder) -> Iterator[Sample]:
    holder.is_there = is_held(gpu)
    if holder.is_there is not None:
        yield Sample(GPU_OBSERVED_SECONDS_TOTAL, covered_seconds, (gpu.id, SIGNAL_ALLOCATION))
        held_seconds = covered_seconds if holder.is_there else 0.0
        yield Sample(GPU_ALLOCATED_SECONDS_TOTAL, held_seconds, (gpu.id,))


def _busy(gpu: NvmlCard, covered_seconds: float, holder: Holder) -> Iterator[Sample]:
    uuid = (gpu.id,)
    meter = gpu.reader(BusyMeter)
    busy = meter.read(covered_seconds)
    if busy is None:
        return
    if busy.rejected_count:
        yield Sample(REJECTED_SAMPLES_TOTAL, busy.rejected_count, ("gpu_use", "out_of_range"))
    ratio = busy.busy_seconds / busy.covered_seconds if busy.covered_seconds else 0.0
    yield Sample(GPU_BUSY_SECONDS_TOTAL, busy.busy_seconds, uuid)
    yield Sample(GPU_BUSY_RATIO, ratio, uuid, busy.covered_seconds)
    yield Sample(GPU_OBSERVED_SECONDS_TOTAL, busy.covered_seconds, (gpu.id, SIGNAL_BUSY))
    if meter.idle_seconds is not None:
        yield Sample(GPU_IDLE_SECONDS, meter.idle_seconds, uuid)
    if holder.is_there is not None:
        unrequested_seconds = 0.0 if holder.is_there else busy.busy_seconds
        yield Sample(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, unrequested_seconds, uuid)


COLLECTOR = Collector(
    (
        GPU_OBSERVED_SECONDS_TOTAL,
        GPU_ALLOCATED_SECONDS_TOTAL,
        GPU_BUSY_SECONDS_TOTAL,
        GPU_BUSY_RATIO,
        GPU_IDLE_SECONDS,
        GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
)
