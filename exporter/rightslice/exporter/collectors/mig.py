"""How a card is cut by MIG, the memory of each instance, and what still fits."""

from collections.abc import Iterator
from contextlib import suppress

from rightslice.contract.metrics import (
    MIG_FRAGMENTATION_RATIO,
    MIG_FREE_MEMORY_SLICES,
    MIG_INSTANCE_INFO,
    MIG_INSTANCE_MEMORY_TOTAL_BYTES,
    MIG_INSTANCE_MEMORY_USED_BYTES,
    MIG_INSTANCE_MEMORY_USED_PEAK_BYTES,
    MIG_INSTANCE_OBSERVED_SECONDS_TOTAL,
    MIG_INSTANCES,
    MIG_PLACEABLE_INSTANCES,
    MIG_PLACEMENT_VISIBLE,
    REJECTED_SAMPLES_TOTAL,
    SLICE_MEMORY_COMMITTED_BYTES,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.mig import GpuInstance, MigLayout, MigProfileInfo, MigReader
from rightslice.exporter.plausible import is_plausible
from rightslice.facts.mig_placement import (
    PlaceableProfile,
    PlacedInstance,
    fragmentation_ratio,
    free_units,
    placeable_count,
)

# Names of profiles that own the media engines of which a card has one set.
MEDIA_ENGINE_ENDINGS = ("+me", "+me.all")
# Without an event (an unprivileged caller gets none) a change of the layout is found this soon.
LAYOUT_SECONDS = 10.0


class LayoutTeller:
    """Knows when one card's layout is to be read anew, and what there is to tell of it."""

    def __init__(self, card: NvmlCard) -> None:
        self._card = card
        self._age_seconds = 0.0
        self._told: tuple[MigLayout, tuple[Sample, ...]] | None = None

    def layout(self, covered_seconds: float) -> MigLayout:
        """Give the layout, read anew when it is old."""
        reader = self._card.reader(MigReader)
        self._age_seconds += covered_seconds
        if self._age_seconds >= LAYOUT_SECONDS:
            self._age_seconds = 0.0
            reader.forget()
        return reader.layout()

    def samples(self, layout: MigLayout) -> tuple[Sample, ...]:
        """Tell of a layout; worked out once for each that was read."""
        if self._told is None or self._told[0] is not layout:
            self._told = (layout, tuple(_layout_samples(self._card, layout)))
        return self._told[1]


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    teller = gpu.reader(LayoutTeller)
    layout = teller.layout(covered_seconds)
    yield from every_part(
        teller.samples(layout),
        _committed(gpu, layout),
        *(_memory(gpu, instance, covered_seconds) for instance in layout.instances),
    )


def _layout_samples(gpu: NvmlCard, layout: MigLayout) -> Iterator[Sample]:
    for instance in layout.instances:
        yield from _info(gpu, instance)
    usable_count = sum(bool(instance.devices) for instance in layout.instances)
    yield Sample(MIG_INSTANCES, usable_count, (gpu.id, "with_compute"))
    yield Sample(MIG_PLACEMENT_VISIBLE, layout.profiles is not None, (gpu.id,))
    if layout.profiles is not None:
        unusable_count = len(layout.instances) - usable_count
        yield Sample(MIG_INSTANCES, unusable_count, (gpu.id, "without_compute"))
        yield from _room(gpu, layout, layout.profiles)


def _committed(gpu: NvmlCard, layout: MigLayout) -> Iterator[Sample]:
    sizes = [_total_bytes(gpu, instance) for instance in layout.instances]
    told = [size for size in sizes if size is not None]
    if len(told) == len(sizes):
        yield Sample(SLICE_MEMORY_COMMITTED_BYTES, sum(told), (gpu.id,))


def _info(gpu: NvmlCard, instance: GpuInstance) -> Iterator[Sample]:
    place = instance.placement
    start, size = (str(place.start), str(place.size)) if place else ("", "")
    rows = [
        (str(device.compute_instance_id), device.uuid, device.profile or instance.name)
        for device in instance.devices
    ]
    for compute_instance_id, mig_uuid, profile in rows or [("", "", instance.name)]:
        yield Sample(
            MIG_INSTANCE_INFO,
            1,
            (
                gpu.id,
                str(instance.gpu_instance_id),
                compute_instance_id,
                mig_uuid,
                profile,
                start,
                size,
            ),
        )


def _memory(gpu: NvmlCard, instance: GpuInstance, covered_seconds: float) -> Iterator[Sample]:
    labels = (gpu.id, str(instance.gpu_instance_id))
    total_bytes = _total_bytes(gpu, instance)
    if total_bytes is not None:
        yield Sample(MIG_INSTANCE_MEMORY_TOTAL_BYTES, total_bytes, labels)
    memory = gpu.reader(MigReader).memory(instance)
    if memory is None:
        return
    if not is_plausible(memory):
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("mig", "out_of_range"))
        return
    used = memory.used_bytes
    yield Sample(MIG_INSTANCE_MEMORY_USED_BYTES, used, labels)
    yield Sample(MIG_INSTANCE_MEMORY_USED_PEAK_BYTES, used, labels, subject=instance.key)
    yield Sample(MIG_INSTANCE_OBSERVED_SECONDS_TOTAL, covered_seconds, labels)


def _total_bytes(gpu: NvmlCard, instance: GpuInstance) -> int | None:
    """Give an instance's memory: what a process on it is told, else what its profile promises."""
    memory = None
    with suppress(NvmlError):  # `_memory` meets the same failure, and tells it
        memory = gpu.reader(MigReader).memory(instance)
    if memory is not None and is_plausible(memory):
        return memory.total_bytes
    return instance.profile.memory_bytes if instance.profile else None


def _placeable(profile: MigProfileInfo) -> PlaceableProfile:
    return PlaceableProfile(
        profile.name,
        profile.placements,
        profile.max_count,
        owns_media_engines=profile.name.endswith(MEDIA_ENGINE_ENDINGS),
    )


def _room(
    gpu: NvmlCard, layout: MigLayout, profiles: tuple[MigProfileInfo, ...]
) -> Iterator[Sample]:
    """Tell what still fits on the card beside its instances."""
    placeable = {profile.name: _placeable(profile) for profile in profiles if profile.placements}
    placed = [
        PlacedInstance(_placeable(instance.profile), instance.placement)
        for instance in layout.instances
        if instance.profile is not None and instance.placement is not None
    ]
    occupied = [instance.placement for instance in placed]
    are_engines_taken = any(instance.profile.owns_media_engines for instance in placed)
    for name, profile in placeable.items():
        count = placeable_count(
            profile,
            occupied,
            sum(instance.profile.name == name for instance in placed),
            media_engines_taken=are_engines_taken,
        )
        yield Sample(MIG_PLACEABLE_INSTANCES, count, (gpu.id, name))
    if layout.unit_count is not None:
        free_count = len(free_units(layout.unit_count, occupied))
        yield Sample(MIG_FREE_MEMORY_SLICES, free_count, (gpu.id,))
    ratio = fragmentation_ratio(list(placeable.values()), placed)
    if ratio is not None:
        yield Sample(MIG_FRAGMENTATION_RATIO, ratio, (gpu.id,))


COLLECTOR = Collector(
    (
        MIG_INSTANCE_INFO,
        MIG_INSTANCE_MEMORY_USED_BYTES,
        MIG_INSTANCE_MEMORY_USED_PEAK_BYTES,
        MIG_INSTANCE_MEMORY_TOTAL_BYTES,
        MIG_INSTANCE_OBSERVED_SECONDS_TOTAL,
        MIG_INSTANCES,
        MIG_PLACEMENT_VISIBLE,
        MIG_PLACEABLE_INSTANCES,
        MIG_FREE_MEMORY_SLICES,
        MIG_FRAGMENTATION_RATIO,
        SLICE_MEMORY_COMMITTED_BYTES,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: (card for card in host.gpus if card.identity.has_mig_on),
    collect=collect,
)
