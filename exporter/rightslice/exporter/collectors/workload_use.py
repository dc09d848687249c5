"""How busy each workload keeps a card, and how long its contexts wait for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rightslice.contract.metrics import REJECTED_SAMPLES_TOTAL, SIGNAL_BUSY
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    GPU_INCONSISTENT_USE_TOTAL,
    GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL,
    WORKLOAD_BUSY_RATIO,
    WORKLOAD_BUSY_SECONDS_TOTAL,
    WORKLOAD_OBSERVED_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
    WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
)
from rightslice.exporter.block_use import BlockUse, BusyBlock, Use, use_of
from rightslice.exporter.collector import Collector
from rightslice.exporter.collectors.gpu_activity import SwitchRate
from rightslice.exporter.collectors.gpu_use import BusyMeter
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import DOWN_REASONS, NvmlError
from rightslice.exporter.host.nvml.process_use import ProcessUse
from rightslice.exporter.host.nvml.processes import ProcessLists
from rightslice.exporter.tenancy import Key, Tenancy, labels_of
from rightslice.exporter.tenants import Tenants
from rightslice.exporter.timeslice import block_seconds

SOURCE_ESTIMATE, SOURCE_EXCLUSIVE = "estimate", "exclusive"
# Rounds are not made to the microsecond.
EARLY_SECONDS = 0.25
NO_USE = Use()


@dataclass(slots=True)
class Contexts:
    """Who was on one card since its current block began, and what the last block warned of."""

    card: NvmlCard
    age_seconds: float = 0.0
    is_first: bool = True
    # By process id; None for one whose workload is not known.
    workloads: dict[int, Key | None] = field(default_factory=dict)
    may_be_low: dict[Key, bool] = field(default_factory=dict)
    # The card's busy time of which it cannot be told whose it was, and was not told yet; None for a
    # card that does not tell its own.
    lost_busy_seconds: float | None = None

    def note(self, tenancy: Tenancy, covered_seconds: float) -> None:
        """Take in who is on the card in this round."""
        self.age_seconds += covered_seconds
        for process in tenancy.hidden:
            self.workloads.setdefault(process.process_id, None)
        for part in tenancy.parts:
            self.workloads |= dict.fromkeys((row.process_id for row in part.processes), part.key)

    @property
    def is_due(self) -> bool:
        """Tell whether the block is long enough; the first only finds where samples end."""
        wanted_seconds = block_seconds(len(self.workloads)) - EARLY_SECONDS
        return self.is_first or self.age_seconds >= wanted_seconds

    def take(self) -> dict[int, Key | None]:
        """End the block, and give who was there."""
        workloads, self.workloads = self.workloads, {}
        self.age_seconds, self.is_first, self.may_be_low = 0.0, False, {}
        return workloads

    def give_up(self) -> None:
        """End the block without telling whose it was; the next begins now."""
        self.take()
        self.lose(self.card.reader(BusyMeter).take_block(), 1.0)
        self.card.reader(ProcessUse).start_anew()

    def lose(self, of_card: BusyBlock, ratio: float) -> None:
        """Count a part of a block's busy time as nobody's."""
        if of_card.busy_ratio is not None:
            self.lost_busy_seconds = (self.lost_busy_seconds or 0.0) + of_card.busy_seconds * ratio

    def take_lost_seconds(self) -> float | None:
        """Give the busy time that is nobody's, once."""
        lost_seconds = self.lost_busy_seconds
        self.lost_busy_seconds = None if lost_seconds is None else 0.0
        return lost_seconds


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    if gpu.identity.is_vgpu_host:  # its guests' use is not that of processes here
        return
    if gpu.identity.has_mig_on:
        yield from _lone_contexts(gpu, gpu.reader(Tenants).read())
        return
    contexts = gpu.reader(Contexts)
    try:
        yield from _round(gpu, contexts, covered_seconds)
    except NvmlError as error:
        # Who comes after the failure must not be charged with what was before it.
        contexts.give_up()
        if error.reason not in DOWN_REASONS:  # else nothing of this reading is kept
            yield from _lost(gpu, contexts)
        raise
    yield from _lost(gpu, contexts)


def _round(gpu: NvmlCard, contexts: Contexts, covered_seconds: float) -> Iterator[Sample]:
    tenancy = gpu.reader(Tenants).read()
    contexts.note(tenancy, covered_seconds)
    # While it settles, the card's own busy time is not believed either.
    if not tenancy.is_listed or gpu.settling_seconds > 0 or _has_mps(gpu):
        contexts.give_up()
    elif contexts.is_due:
        yield from _finished(gpu, tenancy, contexts)
    for key, may_be_low in contexts.may_be_low.items():
        yield Sample(WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW, may_be_low, labels_of(gpu.id, key))


def _lost(gpu: NvmlCard, contexts: Contexts) -> Iterator[Sample]:
    lost_seconds = contexts.take_lost_seconds()
    if lost_seconds is not None:
        yield Sample(GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL, lost_seconds, (gpu.id,))


def _has_mps(gpu: NvmlCard) -> bool:
    """Tell whether kernels of several clients may run at once: then no time is one's alone."""
    return bool(gpu.reader(ProcessLists).mps())


def _lone_contexts(gpu: NvmlCard, tenancy: Tenancy) -> Iterator[Sample]:
    """Tell that a context which has its GPU instance for itself waits for nobody.

    What several have of an instance is not told by any call.
    """
    for part in tenancy.parts:
        if tenancy.context_count(part.gpu_instance_id) <= 1:
            yield from _wait(labels_of(gpu.id, part.key), NO_USE, 0.0)


def _finished(gpu: NvmlCard, tenancy: Tenancy, contexts: Contexts) -> Iterator[Sample]:
    """Tell of a block that is over, and begin the next."""
    use = gpu.reader(ProcessUse)
    shares = use.read(contexts.workloads)
    age_seconds, workloads = contexts.age_seconds, contexts.take()
    of_card = gpu.reader(BusyMeter).take_block()
    if use.rejected_count:
        yield Sample(REJECTED_SAMPLES_TOTAL, use.rejected_count, ("workload_use", "out_of_range"))
    block = use_of(
        workloads,
        shares if len(workloads) > 1 or (use.is_proven and not use.is_baseline) else None,
        of_card,
        gpu.reader(SwitchRate).per_second,
        gpu.timeslice_seconds,
        has_strangers=use.has_strangers,
    )
    if block is None:
        contexts.lose(of_card, 1.0)
        return
    is_blind = use.is_baseline and len(workloads) > 1
    seconds = 0.0 if is_blind else of_card.told_seconds(age_seconds)
    if of_card.covered_seconds:
        contexts.lose(of_card, 1 - seconds / of_card.covered_seconds)
    yield from _of_card(gpu, block, seconds)
    yield from _of_workloads(gpu, tenancy, block, seconds)
    if not gpu.identity.is_guest:
        contexts.may_be_low = {
            key: row.may_be_low for key, row in block.by_workload.items() if row.is_estimated
        }


def _of_card(gpu: NvmlCard, block: BlockUse, seconds: float) -> Iterator[Sample]:
    if block.unattributed_ratio is not None:
        left_seconds = block.unattributed_ratio * seconds
        yield Sample(GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL, left_seconds, (gpu.id,))
        is_strange = block.is_inconsistent and seconds > 0
        yield Sample(GPU_INCONSISTENT_USE_TOTAL, is_strange, (gpu.id,))


def _of_workloads(
    gpu: NvmlCard, tenancy: Tenancy, block: BlockUse, seconds: float
) -> Iterator[Sample]:
    """Tell what each had; who holds the card and has no process there had nothing."""
    idle = {part.key: NO_USE for part in tenancy.parts if tenancy.is_seen(part)}
    for key, use in sorted((idle | dict(block.by_workload)).items()):
        labels = labels_of(gpu.id, key)
        yield Sample(WORKLOAD_OBSERVED_SECONDS_TOTAL, seconds, (*labels, SIGNAL_BUSY))
        yield Sample(WORKLOAD_BUSY_SECONDS_TOTAL, use.busy_ratio * seconds, labels)
        if gpu.reader(Tenants).has_shared(key):
            yield Sample(WORKLOAD_BUSY_RATIO, min(use.busy_ratio, 1.0), labels, seconds)
        if not gpu.identity.is_guest:  # the host's other guests are not seen from here
            yield from _wait(labels, use, seconds)


def _wait(labels: tuple[str, ...], use: Use, seconds: float) -> Iterator[Sample]:
    source = SOURCE_ESTIMATE if use.is_estimated else SOURCE_EXCLUSIVE
    waited_seconds, most_seconds = use.wait_ratio * seconds, use.upper_bound_ratio * seconds
    yield Sample(WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL, waited_seconds, (*labels, source))
    yield Sample(WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL, most_seconds, labels)


COLLECTOR = Collector(
    (
        WORKLOAD_OBSERVED_SECONDS_TOTAL,
        WORKLOAD_BUSY_SECONDS_TOTAL,
        WORKLOAD_BUSY_RATIO,
        WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
        WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
        WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
        GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL,
        GPU_INCONSISTENT_USE_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
)
