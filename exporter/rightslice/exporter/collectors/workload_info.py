"""Which workloads a card has: what they are, what they were granted and promised, their CPU."""

from collections.abc import Iterator, Sequence

from rightslice.contract.metrics import SLICE_MEMORY_COMMITTED_BYTES
from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    WORKLOAD_ALLOCATED_SECONDS_TOTAL,
    WORKLOAD_CPU_SECONDS_TOTAL,
    WORKLOAD_INFO,
    WORKLOAD_MEMORY_LIMIT_BYTES,
)
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.memory_limits import cgroup_limit_bytes, tells_limits
from rightslice.exporter.host.owners.workload import SOURCE_LABEL, Details, pod_of
from rightslice.exporter.tenancy import WHOLE_CARD, Key, Part, Tenancy, labels_of
from rightslice.exporter.tenants import Promises, Tenants, total_bytes

SOURCE_MIG, SOURCE_VGPU, SOURCE_NVML = "mig", "vgpu", "nvml"
PROTECTED_WORDS = {None: "", True: "true", False: "false"}


class CpuMeter:
    """Tells how much the processor time of each workload on one card grew."""

    def __init__(self, card: NvmlCard) -> None:
        self._card = card
        # Of each cgroup or process what it had used when it was last read.
        self._read: dict[str, float] = {}
        self._seen: set[str] = set()

    def begin(self) -> None:
        """Start a reading of all workloads, and forget what the last one did not find."""
        self._read = {name: self._read[name] for name in self._seen}
        self._seen = set()

    def grown_seconds(self, part: Part) -> float | None:
        """Give the time used since the last reading; None where none of it can be read.

        What a cgroup had used before it was first seen here is not counted.
        """
        times = self._card.attribution.cpu_seconds(part.owners)
        grown_seconds = 0.0
        for name, seconds in times.items():
            grown_seconds += max(seconds - self._read.get(name, seconds), 0.0)
            self._read[name] = seconds
        self._seen |= times.keys()
        return grown_seconds if times else None


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    tenancy = gpu.reader(Tenants).read()
    gpu.reader(CpuMeter).begin()
    promised: dict[Key, dict[str, int]] = {}
    for part in tenancy.parts:
        details = gpu.attribution.details(part.workload, part.owners)
        promised[part.key] = limits = _limits(gpu, tenancy, part, details)
        labels = labels_of(gpu.id, part.key)
        yield Sample(WORKLOAD_INFO, 1, (*labels, *_words(details)))
        yield from _times(gpu, tenancy, part, covered_seconds)
        for source, limit_bytes in sorted(limits.items()):
            yield Sample(WORKLOAD_MEMORY_LIMIT_BYTES, limit_bytes, (*labels, source))
    gpu.reader(Promises).least_bytes = {
        key: min(limits.values()) for key, limits in promised.items() if limits
    }
    yield from _committed(gpu, promised)


def _words(details: Details) -> tuple[str, ...]:
    return (
        details.workload_class,
        details.owner_kind,
        details.owner,
        details.team,
        PROTECTED_WORDS[details.is_protected],
    )


def _times(gpu: NvmlCard, tenancy: Tenancy, part: Part, covered_seconds: float) -> Iterator[Sample]:
    labels = labels_of(gpu.id, part.key)
    is_allocated = part.is_granted if tenancy.is_ruled else bool(part.processes)
    if is_allocated is not None:
        allocated_seconds = covered_seconds if is_allocated else 0.0
        yield Sample(WORKLOAD_ALLOCATED_SECONDS_TOTAL, allocated_seconds, labels)
    cpu_seconds = gpu.reader(CpuMeter).grown_seconds(part)
    if cpu_seconds is not None:
        yield Sample(WORKLOAD_CPU_SECONDS_TOTAL, cpu_seconds, labels)


def _limits(gpu: NvmlCard, tenancy: Tenancy, part: Part, details: Details) -> dict[str, int]:
    """Give what was promised to a workload, by who promised it.

    A slice is a promise to whoever is alone in it.
    """
    limits = dict(details.memory_limits)
    source = SOURCE_MIG if part.gpu_instance_id else SOURCE_VGPU
    if (part.gpu_instance_id or gpu.identity.is_guest) and not tenancy.is_shared(part):
        slice_bytes = total_bytes(gpu, part)
        if slice_bytes is not None:
            limits[source] = slice_bytes
    by_driver = _driver_limit(gpu, part)
    if by_driver is not None:
        limits[SOURCE_NVML] = by_driver
    return limits


def _driver_limit(gpu: NvmlCard, part: Part) -> int | None:
    """Give the limit that the driver keeps for the workload's cgroup; not with MIG."""
    if part.gpu_instance_id or not tells_limits(gpu):
        return None
    folders = sorted(gpu.attribution.cgroup_folders(part.owners))
    limits = [cgroup_limit_bytes(gpu, folder) for folder in folders]
    return min((limit for limit in limits if limit is not None), default=None)


def _committed(gpu: NvmlCard, promised: dict[Key, dict[str, int]]) -> Iterator[Sample]:
    """Add up what sharers of a whole card were promised. What slices were is told by them."""
    if gpu.identity.has_mig_on or gpu.identity.is_vgpu_host:
        return
    by_pod: dict[tuple[str, ...], list[dict[str, int]]] = {}
    for (instance, workload), limits in promised.items():
        if instance == WHOLE_CARD:
            by_pod.setdefault(pod_of(workload), []).append(limits)
    sizes = [size for containers in by_pod.values() if (size := pod_promise(containers))]
    if sizes:
        yield Sample(SLICE_MEMORY_COMMITTED_BYTES, sum(sizes), (gpu.id,))


def pod_promise(containers: Sequence[dict[str, int]]) -> int | None:
    """Give what a pod was promised by the promises to its containers; None for nothing.

    A label is a promise to the pod as a whole, which its containers may share in any way; all else
    is one to the container, of which the least is kept.
    """
    labelled = [limits[SOURCE_LABEL] for limits in containers if SOURCE_LABEL in limits]
    own = [
        min(others)
        for limits in containers
        if (others := [size for source, size in limits.items() if source != SOURCE_LABEL])
    ]
    if labelled and len(own) == len(containers):
        return min(sum(own), max(labelled))
    return max(labelled) if labelled else sum(own) or None


COLLECTOR = Collector(
    (
        WORKLOAD_INFO,
        WORKLOAD_ALLOCATED_SECONDS_TOTAL,
        WORKLOAD_CPU_SECONDS_TOTAL,
        WORKLOAD_MEMORY_LIMIT_BYTES,
        SLICE_MEMORY_COMMITTED_BYTES,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
    every_seconds=5.0,
)
