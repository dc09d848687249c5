"""Virtual machines on a vGPU host's cards, as workloads: what they hold, use and wait for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rightslice.contract.metrics import REJECTED_SAMPLES_TOTAL, SIGNAL_BUSY, SIGNAL_MEMORY
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    VGPU_SCHEDULER_LOG_OVERRUNS_TOTAL,
    WORKLOAD_ALLOCATED_SECONDS_TOTAL,
    WORKLOAD_BUSY_RATIO,
    WORKLOAD_BUSY_SECONDS_TOTAL,
    WORKLOAD_INFO,
    WORKLOAD_MEMORY_LIMIT_BYTES,
    WORKLOAD_MEMORY_USED_BYTES,
    WORKLOAD_MEMORY_USED_PEAK_BYTES,
    WORKLOAD_MEMORY_USED_RATIO,
    WORKLOAD_OBSERVED_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
    WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
)
from rightslice.exporter.block_use import BusyBlock
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.collectors.gpu_activity import SwitchRate
from rightslice.exporter.collectors.gpu_use import BusyMeter
from rightslice.exporter.collectors.workload_info import SOURCE_VGPU
from rightslice.exporter.collectors.workload_use import (
    EARLY_SECONDS,
    SOURCE_ESTIMATE,
    SOURCE_EXCLUSIVE,
)
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.vgpu import Guest, VgpuReader, memory_used_bytes
from rightslice.exporter.host.nvml.vgpu_schedule import ScheduleLog
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.tenancy import Key, Part, labels_of
from rightslice.exporter.tenants import total_bytes
from rightslice.exporter.timeslice import Block, Wait, block_seconds, reserved_slot_wait, waits
from rightslice.exporter.vgpu_runs import (
    LEAST_KNOWN_RATIO,
    LEAST_LOAD_RATIO,
    LoggedBlock,
    RunlistOwners,
    RunMeter,
    logged_waits,
)

KIND = "vm"
SOURCE_LOG = "vgpu_log"
BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE = "vgpu_best_effort", "vgpu_equal_share", "vgpu_fixed_share"
NO_DETAILS = ("", "", "", "", "")
# Of each vGPU, by its UUID, and where it is from.
Waits = tuple[Mapping[str, Wait], str]


def key_of(guest: Guest) -> Key:
    """Name the part of a card: a virtual machine may have several vGPUs."""
    return guest.gpu_instance_id, Workload(KIND, "", guest.vm_id, guest.uuid)


@dataclass(slots=True)
class Sharers:
    """Who on one card has had company, and so has histograms of its own from then on."""

    card: NvmlCard
    keys: set[Key] = field(default_factory=set)

    def note(self, guests: Sequence[Guest]) -> None:
        self.keys &= {key_of(guest) for guest in guests}
        machines: dict[str, set[str]] = {}
        for guest in guests:
            machines.setdefault(guest.gpu_instance_id, set()).add(guest.vm_id or guest.uuid)
        self.keys |= {key_of(row) for row in guests if len(machines[row.gpu_instance_id]) > 1}


@dataclass(slots=True)
class Turns:
    """What one card's vGPUs did since its current block began, and what the last one warned of."""

    card: NvmlCard
    age_seconds: float = 0.0
    is_first: bool = True
    policy: str | None = None
    # Whether each of the block's rounds had a log to read.
    has_log: bool = False
    runs: RunMeter = field(default_factory=RunMeter)
    owners: RunlistOwners[str] = field(default_factory=RunlistOwners)
    may_be_low: dict[Key, bool] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a block. The first only finds where samples and log end."""
        self.age_seconds, self.is_first = 0.0, False
        self.has_log = self.policy == BEST_EFFORT

    def is_due(self, guest_count: int) -> bool:
        wanted_seconds = block_seconds(guest_count) - EARLY_SECONDS
        return self.is_first or self.age_seconds >= wanted_seconds


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    guests = gpu.reader(VgpuReader).guests()
    if guests is None:
        return
    gpu.reader(Sharers).note(guests)
    yield from every_part(
        _holdings(gpu, guests, covered_seconds),
        _lone_contexts(gpu, guests)
        if gpu.identity.has_mig_on
        else _use(gpu, guests, covered_seconds),
    )


def _holdings(gpu: NvmlCard, guests: Sequence[Guest], covered_seconds: float) -> Iterator[Sample]:
    """Tell what each has: a machine that runs holds its part of the card, used or not."""
    for guest in guests:
        labels = labels_of(gpu.id, key_of(guest))
        yield Sample(WORKLOAD_INFO, 1, (*labels, *NO_DETAILS))
        yield Sample(WORKLOAD_ALLOCATED_SECONDS_TOTAL, covered_seconds, labels)
        yield Sample(WORKLOAD_MEMORY_LIMIT_BYTES, guest.type.memory_bytes, (*labels, SOURCE_VGPU))
        yield from _memory(gpu, guest, covered_seconds)


def _memory(gpu: NvmlCard, guest: Guest, covered_seconds: float) -> Iterator[Sample]:
    used_bytes = memory_used_bytes(guest)
    if used_bytes is None:
        return
    if used_bytes > guest.type.memory_bytes:
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("vgpu_workloads", "out_of_range"))
        return
    key = key_of(guest)
    labels = labels_of(gpu.id, key)
    yield Sample(WORKLOAD_OBSERVED_SECONDS_TOTAL, covered_seconds, (*labels, SIGNAL_MEMORY))
    yield Sample(WORKLOAD_MEMORY_USED_BYTES, used_bytes, labels)
    yield Sample(WORKLOAD_MEMORY_USED_PEAK_BYTES, used_bytes, labels)
    all_bytes = total_bytes(gpu, Part(*key)) if key in gpu.reader(Sharers).keys else None
    if all_bytes:
        ratio = min(used_bytes / all_bytes, 1.0)
        yield Sample(WORKLOAD_MEMORY_USED_RATIO, ratio, labels, covered_seconds)


def _lone_contexts(gpu: NvmlCard, guests: Sequence[Guest]) -> Iterator[Sample]:
    """Tell that a vGPU which has its GPU instance for itself waits for nobody.

    What one of several has of an instance is not told by any call before Blackwell.
    """
    for guest in guests:
        here = [row for row in guests if row.gpu_instance_id in ("", guest.gpu_instance_id)]
        if len(here) == 1:
            yield from _wait(gpu, guest, Wait(0.0, 0.0, 0.0, may_be_low=False), SOURCE_EXCLUSIVE, 0)


def _use(gpu: NvmlCard, guests: Sequence[Guest], covered_seconds: float) -> Iterator[Sample]:
    gpu.reader(Turns).age_seconds += covered_seconds
    # A log that cannot be read leaves what the driver's samples tell.
    return every_part(_log(gpu, guests, covered_seconds), _block(gpu, guests))


def _log(gpu: NvmlCard, guests: Sequence[Guest], covered_seconds: float) -> Iterator[Sample]:
    """Read the scheduler's log, which a full card overwrites several times a second."""
    turns, log = gpu.reader(Turns), gpu.reader(ScheduleLog)
    had_log, turns.has_log = turns.has_log, False
    if turns.policy != BEST_EFFORT or len(guests) < 2:
        log.start_anew()
        return
    part = log.read()
    if part is not None:
        turns.has_log = had_log
        turns.runs.add(part, covered_seconds)
        yield Sample(VGPU_SCHEDULER_LOG_OVERRUNS_TOTAL, part.is_overrun, (gpu.id,))


def _block(gpu: NvmlCard, guests: Sequence[Guest]) -> Iterator[Sample]:
    turns = gpu.reader(Turns)
    if guests:
        gpu.reader(VgpuReader).read_samples()
    if turns.is_due(len(guests)):
        yield from _finished(gpu, guests)
    for guest in guests:
        if (key := key_of(guest)) in turns.may_be_low:
            may_be_low = turns.may_be_low[key]
            yield Sample(WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW, may_be_low, labels_of(gpu.id, key))


def _finished(gpu: NvmlCard, guests: Sequence[Guest]) -> Iterator[Sample]:
    """Tell of a block that is over, and begin the next."""
    turns, reader = gpu.reader(Turns), gpu.reader(VgpuReader)
    turns.policy, turns.may_be_low = reader.policy(), {}
    by_number, of_card = reader.take_shares(), gpu.reader(BusyMeter).take_block()
    logged = turns.runs.take(turns.age_seconds)
    seconds = of_card.told_seconds(turns.age_seconds)
    if (
        turns.is_first or gpu.settling_seconds > 0
    ):  # from its end on samples are read, if the driver has any
        seconds = 0.0
        by_number = dict.fromkeys((row.number for row in guests), 0.0) if reader.has_samples else {}
    shares = {row.uuid: by_number[row.number] for row in guests if row.number in by_number}
    waited = _waits(gpu, guests, shares, logged, of_card) if shares else None
    turns.begin()
    for guest in guests:
        if guest.uuid in shares:
            wait = None if waited is None else waited[0].get(guest.uuid)
            busy_ratio = shares[guest.uuid] if wait is None else wait.busy_ratio
            yield from _busy(gpu, guest, busy_ratio, seconds)
            if waited is not None and wait is not None:
                yield from _wait(gpu, guest, wait, waited[1], seconds)


def _busy(gpu: NvmlCard, guest: Guest, ratio: float, seconds: float) -> Iterator[Sample]:
    key = key_of(guest)
    labels = labels_of(gpu.id, key)
    yield Sample(WORKLOAD_OBSERVED_SECONDS_TOTAL, seconds, (*labels, SIGNAL_BUSY))
    yield Sample(WORKLOAD_BUSY_SECONDS_TOTAL, ratio * seconds, labels)
    if key in gpu.reader(Sharers).keys:
        yield Sample(WORKLOAD_BUSY_RATIO, min(ratio, 1.0), labels, seconds)


def _wait(gpu: NvmlCard, guest: Guest, wait: Wait, source: str, seconds: float) -> Iterator[Sample]:
    labels = labels_of(gpu.id, key_of(guest))
    waited_seconds, most_seconds = wait.wait_ratio * seconds, wait.upper_bound_ratio * seconds
    yield Sample(WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL, waited_seconds, (*labels, source))
    yield Sample(WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL, most_seconds, labels)


def _waits(
    gpu: NvmlCard,
    guests: Sequence[Guest],
    shares: Mapping[str, float],
    logged: LoggedBlock | None,
    of_card: BusyBlock,
) -> Waits | None:
    """Work out how long each waited, as the scheduler's policy has it; None where that is unknown.

    `shares` are of the card's time, as the driver told them.
    """
    turns = gpu.reader(Turns)
    if turns.policy in (EQUAL_SHARE, FIXED_SHARE):
        return _reserved(guests, shares, turns.policy), SOURCE_ESTIMATE
    if turns.policy != BEST_EFFORT:
        return None
    if len(guests) == 1:
        lone = {uuid: Wait(ratio, 0.0, 0.0, may_be_low=False) for uuid, ratio in shares.items()}
        return lone, SOURCE_EXCLUSIVE
    everyone = {guest.uuid: shares.get(guest.uuid, 0.0) for guest in guests}
    estimated = waits(
        Block(
            busy_ratios=everyone,
            device_busy_ratio=of_card.busy_ratio,
            sample_count=of_card.process_sample_count,
            device_samples=tuple(of_card.busy_ratios),
            device_sample_seconds=of_card.sample_seconds,
            switches_per_second=gpu.reader(SwitchRate).per_second,
        ),
        gpu.timeslice_seconds,
    )
    found: Waits = (estimated, SOURCE_ESTIMATE)
    if turns.has_log and logged is not None and logged.known_ratio >= LEAST_KNOWN_RATIO:
        found = _by_log(turns, logged, everyone, estimated, of_card) or found
    turns.may_be_low = {key_of(row): found[0][row.uuid].may_be_low for row in guests}
    return found


def _reserved(guests: Sequence[Guest], shares: Mapping[str, float], policy: str) -> dict[str, Wait]:
    """Give the waits of those that have slots of their own, which are lost when not used.

    So one can wait at any time in which it has not the card, whatever the others do.
    """
    slots = {
        guest.uuid: len(guests) if policy == EQUAL_SHARE else guest.type.max_count
        for guest in guests
    }
    return {
        uuid: Wait(ratio, reserved_slot_wait(ratio, 1 / slots[uuid]), 1 - ratio, may_be_low=False)
        for uuid, ratio in shares.items()
        if slots[uuid]
    }


def _by_log(
    turns: Turns,
    logged: LoggedBlock,
    shares: Mapping[str, float],
    estimated: Mapping[str, Wait],
    of_card: BusyBlock,
) -> Waits | None:
    """Give the waits that the log tells; None while it is not known whose the runlists are."""
    if not logged.busy_ratios:
        # Nobody's turn ended. One that has the engine for long is in no log before its turn's end.
        loaded_count = sum(ratio > LEAST_LOAD_RATIO for ratio in shares.values())
        return (estimated, SOURCE_LOG) if loaded_count <= 1 else None
    turns.owners.note(turns.age_seconds, logged.busy_ratios, shares)
    owners = turns.owners.owners(logged.busy_ratios, shares)
    if owners is None:
        return None
    idle = Wait(0.0, 0.0, logged.held_ratio, may_be_low=False)
    by_runlist = logged_waits(logged, tuple(of_card.busy_ratios))
    told = {uuid: by_runlist.get(runlist, idle) for runlist, uuid in owners.items()}
    return dict.fromkeys(shares, idle) | told, SOURCE_LOG


COLLECTOR = Collector(
    (
        WORKLOAD_INFO,
        WORKLOAD_ALLOCATED_SECONDS_TOTAL,
        WORKLOAD_OBSERVED_SECONDS_TOTAL,
        WORKLOAD_MEMORY_LIMIT_BYTES,
        WORKLOAD_MEMORY_USED_BYTES,
        WORKLOAD_MEMORY_USED_PEAK_BYTES,
        WORKLOAD_MEMORY_USED_RATIO,
        WORKLOAD_BUSY_SECONDS_TOTAL,
        WORKLOAD_BUSY_RATIO,
        WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
        WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
        WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
        VGPU_SCHEDULER_LOG_OVERRUNS_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: (card for card in host.gpus if card.identity.is_vgpu_host),
    collect=collect,
)
