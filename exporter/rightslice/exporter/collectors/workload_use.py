"""How busy each workload keeps a card, and how long its contexts wait for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rightslice.contract.metrics import REJECTED_SAMPLES_TOTAL
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    GPU_INCONSISTENT_USE_TOTAL,
    GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL,
    WORKLOAD_BUSY_RATIO,
    WORKLOAD_BUSY_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
    WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
    WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
)
from rightslice.exporter.block_use import BlockUse, Use, use_of
from rightslice.exporter.collector import Collector
from rightslice.exporter.collectors.gpu_activity import SwitchRate
from rightslice.exporter.collectors.gpu_use import BusyMeter
from rightslice.exporter.host.nvml.card import NvmlCard
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


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    tenancy = gpu.reader(Tenants).read()
    if not tenancy.is_listed:
        return
    if gpu.identity.has_mig_on:
        yield from _lone_contexts(gpu, tenancy)
        return
    contexts = gpu.reader(Contexts)
    contexts.note(tenancy, covered_seconds)
    if contexts.is_due:
        yield from _finished(gpu, tenancy, contexts)
    for key, may_be_low in contexts.may_be_low.items():
        yield Sample(WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW, may_be_low, labels_of(gpu.id, key))


def _lone_contexts(gpu: NvmlCard, tenancy: Tenancy) -> Iterator[Sample]:
    """Tell that a context which has its GPU instance for itself waits for nobody.

    What several have of an instance is not told by any call.
    """
    for part in tenancy.parts:
        if tenancy.context_count(part.gpu_instance_id) <= 1:
            yield from _wait(labels_of(gpu.id, part.key), NO_USE, 0.0)


def _finished(gpu: NvmlCard, tenancy: Tenancy, contexts: Contexts) -> Iterator[Sample]:
    """Tell of a block that is over, and begin the next."""
    age_seconds, workloads = contexts.age_seconds, contexts.take()
    of_card, use = gpu.reader(BusyMeter).take_block(), gpu.reader(ProcessUse)
    if gpu.reader(ProcessLists).mps():  # kernels of its clients overlap: no time is one's alone
        return
    shares = use.read(workloads)
    if use.rejected_count:
        yield Sample(REJECTED_SAMPLES_TOTAL, use.rejected_count, ("workload_use", "out_of_range"))
    switches_per_second = gpu.reader(SwitchRate).per_second
    block = use_of(workloads, shares, of_card, switches_per_second, gpu.timeslice_seconds)
    if block is None:
        return
    is_blind = use.is_baseline and len(workloads) > 1
    seconds = 0.0 if is_blind else of_card.covered_seconds or age_seconds
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
