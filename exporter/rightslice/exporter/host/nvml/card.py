"""One card through NVML: what it is, and what the sampling loop reads of it every second."""

import logging
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint, c_ulonglong
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import pynvml

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, Calls, call
from rightslice.exporter.host.nvml.errors import ABSENT_CODES, Reason
from rightslice.exporter.host.nvml.processes import GpuProcess, ProcessLists
from rightslice.exporter.host.nvml.rows import Rows
from rightslice.exporter.host.nvml.samples import SampleRing
from rightslice.exporter.timeslice import SLICE_SECONDS

log = logging.getLogger(__name__)

R = TypeVar("R")

# The driver keeps about 100 samples; the buffer grows if it has more.
SAMPLE_BUFFER_LENGTH = 128
MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"

# Half an hour at the usual pace. What a card lacks may come: links are trained after the driver is
# loaded, rows are told again when the last MIG instance is gone. A guest is never asked again: its
# kernel logs a line for each question that is refused.
FORGET_ROUNDS = 1800
# After so many readings without a new sample the ring is looked at from its start.
EMPTY_READINGS = 5

# Marked when the two are compared: not to be done again.
COMPARED = "comparison of the memory calls"

MIG_MODES = {0: "disabled", 1: "enabled"}
VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}


@runtime_checkable
class Closable(Protocol):
    """A reader that holds something of the library's."""

    def close(self) -> None:
        """Give it back."""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes. `reserved_bytes` is None where the driver counts its reserve as used."""

    total_bytes: int
    used_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True)
class CardIdentity:
    """What a card is; another MIG mode makes it another card, whose abilities are asked anew."""

    uuid: str
    index: int
    name: str
    pci_bus_id: str
    mig: str
    virtualization: str
    # Of its device file /dev/nvidiaN, by which some orchestrators call it; None where not told.
    minor: int | None = None

    @property
    def has_mig_on(self) -> bool:
        """Tell whether the card is in MIG mode, with instances or without."""
        return self.mig == "enabled"

    @property
    def is_vgpu_host(self) -> bool:
        return self.virtualization == "host_vgpu"

    @property
    def is_guest(self) -> bool:
        """A vGPU's guest: what belongs to the board is not its to ask for.

        Some of those questions log a line in the guest's kernel each time they are refused.
        """
        return self.virtualization == "vgpu"


@dataclass(slots=True, eq=False)  # a card is the same card only if it is the same object
class NvmlCard:
    """One card's readings, made by one thread at a time."""

    identity: CardIdentity
    handle: Any
    driver_version: str
    # Who holds and uses the node's cards.
    attribution: Attribution
    # How long a context keeps the engine while others want it; no call tells it.
    timeslice_seconds: float = SLICE_SECONDS
    # "dedicated", "unified" (no memory of its own), "os_managed" (the kernel owns the card's memory
    # and keeps pages after a process ended), or empty while not known.
    memory_kind: str = ""
    # Time for which what the card says of itself is its own start-up, not anybody's use of it.
    settling_seconds: float = 0.0
    # Set when the driver reports that the MIG layout changed; who reads the layout clears it.
    is_reshaped: bool = False
    calls: Calls = field(default_factory=Calls)
    # Counts rounds, so that a reader can tell what it read in this one.
    round_number: int = 0
    _memory: MemoryReading | None = None
    _memory_is_fresh: bool = False
    _readers: dict[Any, Any] = field(default_factory=dict)
    _samples: SampleRing = field(init=False)
    _sample_rows: Rows = field(
        default_factory=lambda: Rows(pynvml.c_nvmlSample_t, SAMPLE_BUFFER_LENGTH)
    )

    def __post_init__(self) -> None:
        self._samples = SampleRing(self._samples_since, EMPTY_READINGS)

    @property
    def id(self) -> str:
        return self.identity.uuid

    @property
    def lane(self) -> str:
        """Each card is read in a thread of its own."""
        return self.identity.uuid

    @property
    def is_up(self) -> bool:
        return self.calls.is_up

    @property
    def down_reason(self) -> Reason | None:
        return self.calls.down_reason

    def begin_round(self) -> None:
        """Start a round of readings: what was read in the one before is old."""
        self._memory_is_fresh = False
        self.round_number += 1
        if self.round_number % FORGET_ROUNDS == 0 and not self.identity.is_guest:
            self.calls.forget_absent()
        self.calls.begin_round()

    def reader(self, kind: "Callable[[NvmlCard], R]") -> R:
        """Give this card's reader of a kind; it keeps what it learnt about the card."""
        if kind not in self._readers:
            self._readers[kind] = kind(self)
        found: R = self._readers[kind]
        return found

    def close(self) -> None:
        """Give back what readers hold of the library, which is about to be closed."""
        for reader in self._readers.values():
            if isinstance(reader, Closable):
                reader.close()

    def memory(self) -> MemoryReading | None:
        """Read the card's memory, once per round; None on cards without memory of their own."""
        if not self._memory_is_fresh:
            self._memory = read_memory(self.calls, self.handle)
            self._memory_is_fresh = True
            self.memory_kind = self.memory_kind or self._read_memory_kind()
        return self._memory

    def _read_memory_kind(self) -> str:
        if self._memory is None or not self._memory.total_bytes:
            return "unified"
        mode = pynvml.c_nvmlDeviceAddressingMode_t()
        code = call("nvmlDeviceGetAddressingMode", self.handle, byref(mode))
        is_ats = code == SUCCESS and mode.value == pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS
        return "os_managed" if is_ats else "dedicated"

    def new_utilisation_samples(self) -> list[tuple[int, int]] | None:
        """Give the driver's utilisation samples since the last call: (microseconds, percent).

        The first call only finds the buffer's end, and gives that one sample: what lies before it
        was not watched. None where the card has no sample buffer; empty when nothing is new.
        """
        is_first = self.newest_sample_us is None
        rows = self._samples.read_new()
        if rows is None:
            return None
        fresh = [(stamp_us, row.sampleValue.uiVal) for stamp_us, row in rows]
        return fresh[-1:] if is_first else fresh

    @property
    def newest_sample_us(self) -> int | None:
        """The stamp up to which utilisation samples were read; None before the first."""
        return self._samples.newest_us

    def _samples_since(self, since_us: int) -> Sequence[Any] | None:
        return self._sample_rows.read(
            self.calls,
            "nvmlDeviceGetSamples",
            self.handle,
            c_uint(pynvml.NVML_GPU_UTILIZATION_SAMPLES),
            c_ulonglong(since_us),
            byref(c_uint()),
        )

    def utilisation_percent(self) -> int | None:
        """Read the share of the last sample period in which a kernel ran; None with MIG."""
        rates = pynvml.c_nvmlUtilization_t()
        answer = self.calls.ask("nvmlDeviceGetUtilizationRates", self.handle, byref(rates))
        return int(rates.gpu) if answer is Answer.VALUE else None

    def compute_processes(self) -> list[GpuProcess] | None:
        """List the processes with a compute context; None where the driver does not tell."""
        return self.reader(ProcessLists).compute()


def read_memory(calls: Calls, handle: Any) -> MemoryReading | None:
    """Read memory of a card or a MIG device; None where it has none of its own.

    From driver 615 on the v2 call tells the share of a cgroup whose memory is limited, if the
    caller is in one: then the v1 call, which tells the card's, is the one to use.
    """
    both = pynvml.c_nvmlMemory_v2_t()
    both.version = pynvml.nvmlMemory_v2
    if calls.ask(MEMORY_V2, handle, byref(both)) is Answer.VALUE and not _is_limited(
        calls, handle, both.total
    ):
        return MemoryReading(both.total, _used_bytes(both), both.reserved)
    plain = pynvml.c_nvmlMemory_t()
    if calls.ask(MEMORY_V1, handle, byref(plain)) is Answer.VALUE:
        return MemoryReading(plain.total, plain.used, None)
    return None


def _used_bytes(both: Any) -> int:
    """Give what is used without the driver's reserve.

    NVIDIA's header says in one place that `used` leaves the reserve out, in another that it holds
    it. Where it does, used and free make up the whole.
    """
    holds_reserve = both.reserved and both.used + both.free == both.total
    used: int = both.used - both.reserved if holds_reserve else both.used
    return used


def _is_limited(calls: Calls, handle: Any, total_bytes: int) -> bool:
    """Compare the two versions, once for each object."""
    if calls.lacks(COMPARED):
        return False
    plain = pynvml.c_nvmlMemory_t()
    code = calls.attempt(MEMORY_V1, handle, byref(plain))
    if code not in ABSENT_CODES and code != SUCCESS:
        return False  # for the moment: another time
    calls.mark_absent(COMPARED)
    if code != SUCCESS or plain.total <= total_bytes:
        return False
    log.warning(
        "this process is in a cgroup that limits GPU memory: the v2 memory call tells %d of %d "
        "bytes, so the v1 call is used; run the exporter outside such a cgroup",
        total_bytes,
        plain.total,
    )
    calls.mark_absent(MEMORY_V2)
    return True
