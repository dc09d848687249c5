"""How much of a card's multiprocessors and memory bandwidth is used (Hopper and later)."""

from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.contract.metrics import (
    GPU_DRAM_ACTIVE_SECONDS_TOTAL,
    GPU_SM_ACTIVE_RATIO,
    GPU_SM_ACTIVE_SECONDS_TOTAL,
    GPU_SM_OBSERVED_SECONDS_TOTAL,
    GPU_SM_OCCUPANCY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import GPU_CONTEXT_SWITCHES_TOTAL
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.gpm import GpmReader
from rightslice.exporter.host.nvml.mig import MigReader

# A card has no more than all of its multiprocessors. Of MIG instances more is seen, where the
# denominator differs from the documented one; far beyond that a value is no reading.
MOST_PERCENT, MOST_PERCENT_OF_INSTANCE = 101.0, 1000.0
# Where a kernel ran for half of the last sample period, some multiprocessor had work.
CONTRADICTING_BUSY_PERCENT = 50
# A switch takes some tens of microseconds.
MOST_SWITCHES_PER_SECOND = 1e6
COUNTERS = {
    "sm_occupancy": GPU_SM_OCCUPANCY_SECONDS_TOTAL,
    "dram_active": GPU_DRAM_ACTIVE_SECONDS_TOTAL,
}


class InstanceKeys:
    """Remembers which instance bore each id, so that a new one starts without the old samples."""

    def __init__(self, card: NvmlCard) -> None:
        self._keys: dict[int, str] = {}

    def is_new(self, gpu_instance_id: int, key: str) -> bool:
        """Tell whether the id belongs to another instance than at the last call."""
        before = self._keys.get(gpu_instance_id, key)
        self._keys[gpu_instance_id] = key
        return before != key


@dataclass(slots=True)
class SwitchRate:
    """Context switches of a card's compute engine per second, lately; None where not counted."""

    card: NvmlCard
    per_second: float | None = None


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    if not gpu.identity.has_mig_on:
        yield from _subject(gpu, None, covered_seconds)
        return
    instances = [row for row in gpu.reader(MigReader).layout().instances if row.devices]
    for instance in instances:
        if gpu.reader(InstanceKeys).is_new(instance.gpu_instance_id, instance.key):
            gpu.reader(GpmReader).forget(instance.gpu_instance_id)
    yield from every_part(
        *(_subject(gpu, instance.gpu_instance_id, covered_seconds) for instance in instances)
    )


def _subject(
    gpu: NvmlCard, gpu_instance_id: int | None, covered_seconds: float
) -> Iterator[Sample]:
    """Read the card (None) or one of its instances."""
    gpu.reader(SwitchRate).per_second = None  # until this reading tells it
    percents = gpu.reader(GpmReader).read(gpu_instance_id)
    if percents is None:
        return
    labels = (gpu.id, "" if gpu_instance_id is None else str(gpu_instance_id))
    if not percents:  # the first sample: the mean since then comes with the next
        covered_seconds = 0.0
        percents = {"sm_active": 0.0}  # what else the driver measures is seen then as well
    elif rejection := _rejection(gpu, percents):
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_activity", rejection))
        return
    active_ratio = percents["sm_active"] / 100
    yield Sample(GPU_SM_OBSERVED_SECONDS_TOTAL, covered_seconds, labels)
    yield Sample(GPU_SM_ACTIVE_SECONDS_TOTAL, active_ratio * covered_seconds, labels)
    yield Sample(GPU_SM_ACTIVE_RATIO, active_ratio, labels, covered_seconds)
    for name, spec in COUNTERS.items():
        if name in percents:
            yield Sample(spec, percents[name] / 100 * covered_seconds, labels)
    if gpu_instance_id is None:
        yield from _switches(gpu, covered_seconds)


def _switches(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    count = gpu.reader(GpmReader).counts().get("context_switches")
    if count is None or not 0 <= count <= MOST_SWITCHES_PER_SECOND * covered_seconds:
        return
    if covered_seconds:
        gpu.reader(SwitchRate).per_second = count / covered_seconds
    yield Sample(GPU_CONTEXT_SWITCHES_TOTAL, count, (gpu.id,))


def _rejection(gpu: NvmlCard, percents: dict[str, float]) -> str | None:
    """Say why a reading is none; None where it is sound.

    Monitoring that is taken by another profiler reads exactly 0 while kernels run.
    """
    most = MOST_PERCENT_OF_INSTANCE if gpu.identity.has_mig_on else MOST_PERCENT
    if "sm_active" not in percents or not all(0 <= each <= most for each in percents.values()):
        return "out_of_range"
    if percents["sm_active"] == 0 and not gpu.identity.has_mig_on:
        busy_percent = gpu.utilisation_percent()
        if busy_percent is not None and CONTRADICTING_BUSY_PERCENT <= busy_percent <= 100:
            return "contradicts_busy"
    return None


COLLECTOR = Collector(
    (
        GPU_SM_OBSERVED_SECONDS_TOTAL,
        GPU_SM_ACTIVE_SECONDS_TOTAL,
        GPU_SM_ACTIVE_RATIO,
        GPU_SM_OCCUPANCY_SECONDS_TOTAL,
        GPU_DRAM_ACTIVE_SECONDS_TOTAL,
        GPU_CONTEXT_SWITCHES_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
    every_seconds=5.0,
)
