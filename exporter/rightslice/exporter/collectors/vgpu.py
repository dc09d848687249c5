"""vGPUs: what a host has given to guests, what each uses, and whether it is licensed."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    REJECTED_SAMPLES_TOTAL,
    SLICE_MEMORY_COMMITTED_BYTES,
    VGPU_BUSY_RATIO,
    VGPU_INSTANCE_INFO,
    VGPU_LICENSED,
    VGPU_MEMORY_TOTAL_BYTES,
    VGPU_MEMORY_USED_BYTES,
    VGPU_SHARE_RATIO,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.vgpu import VgpuInstance, VgpuReader, guest_licence


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    if gpu.identity.is_guest:
        is_licensed = guest_licence(gpu)
        if is_licensed is not None:
            yield Sample(VGPU_LICENSED, is_licensed, (gpu.id, ""))
        return
    instances = gpu.reader(VgpuReader).instances()
    if instances is None:
        return
    for instance in instances:
        yield from _instance(gpu, instance)
    # With MIG on, the instances are what was promised; guests run inside of them.
    if not gpu.identity.has_mig_on:
        committed_bytes = sum(instance.type.memory_bytes for instance in instances)
        yield Sample(SLICE_MEMORY_COMMITTED_BYTES, committed_bytes, (gpu.id,))


def _instance(gpu: NvmlCard, instance: VgpuInstance) -> Iterator[Sample]:
    labels = (gpu.id, instance.uuid, instance.type.name)
    yield Sample(VGPU_INSTANCE_INFO, 1, labels)
    yield Sample(VGPU_MEMORY_TOTAL_BYTES, instance.type.memory_bytes, labels)
    if instance.type.max_count:
        yield Sample(VGPU_SHARE_RATIO, 1 / instance.type.max_count, labels)
    used_bytes = instance.memory_used_bytes
    if used_bytes is not None and used_bytes > instance.type.memory_bytes:
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("vgpu", "out_of_range"))
    elif used_bytes is not None:
        yield Sample(VGPU_MEMORY_USED_BYTES, used_bytes, labels)
    if instance.busy_percent is not None:
        yield Sample(VGPU_BUSY_RATIO, instance.busy_percent / 100, labels)
    if instance.is_licensed is not None:
        yield Sample(VGPU_LICENSED, instance.is_licensed, (gpu.id, instance.uuid))


COLLECTOR = Collector(
    (
        VGPU_INSTANCE_INFO,
        VGPU_BUSY_RATIO,
        VGPU_SHARE_RATIO,
        VGPU_MEMORY_USED_BYTES,
        VGPU_MEMORY_TOTAL_BYTES,
        VGPU_LICENSED,
        SLICE_MEMORY_COMMITTED_BYTES,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: (
        card for card in host.gpus if card.identity.is_vgpu_host or card.identity.is_guest
    ),
    collect=collect,
    every_seconds=5.0,
)
