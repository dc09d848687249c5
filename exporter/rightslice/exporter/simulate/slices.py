"""The slices of a simulated card: GPU instances, compute instances, and the MIG devices of both.

The handle of a slice holds the generation in which it was made, so that the handle of one that is
gone never comes to mean another.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from rightslice.exporter.simulate.card import Mig, MigInstance, ScenarioError
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.mig_layout import Layout, Profile, layout_of
from rightslice.facts.mig import MEDIA_KINDS

UUID_SPACE = uuid.UUID("b9a4c6d2-6f0b-5a0e-8f57-2d4d1f0f9c11")
MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE = 1, 2, 3


@dataclass(eq=False, slots=True)
class GpuInstance:
    """Memory slices and engines of a card."""

    device: Device
    id: int
    generation: int
    profile: Profile
    said: MigInstance
    handle: int
    compute_instances: tuple["ComputeInstance", ...] = ()
    mig_devices: tuple["MigDevice", ...] = ()


@dataclass(eq=False, slots=True)
class ComputeInstance:
    """Multiprocessors of a GPU instance; all of one instance share its memory."""

    gpu_instance: GpuInstance
    id: int
    start: int
    slice_count: int
    handle: int
    device: Device = field(init=False)

    def __post_init__(self) -> None:
        self.device = self.gpu_instance.device

    @property
    def sm_count(self) -> int:
        profile, layout = self.gpu_instance.profile, self.device.layout
        if self.slice_count == profile.compute_slices or layout is None:
            return profile.sm_count
        return self.slice_count * layout.sm_count_per_compute_slice

    @property
    def profile_name(self) -> str:
        profile = self.gpu_instance.profile
        whole = self.slice_count == profile.compute_slices
        return profile.name if whole else f"{self.slice_count}c.{profile.name}"


@dataclass(eq=False, slots=True)
class MigDevice:
    """What a program sees as a card of its own: a pair of GPU and compute instance.

    `index` is the first compute slice, so that a hole in the card is a hole in the indices.
    """

    compute_instance: ComputeInstance
    index: int
    handle: int
    uuid: str
    gpu_instance: GpuInstance = field(init=False)
    device: Device = field(init=False)

    def __post_init__(self) -> None:
        self.gpu_instance = self.compute_instance.gpu_instance
        self.device = self.gpu_instance.device


def cut(device: Device, mig: Mig, generation: int) -> tuple[GpuInstance, ...]:
    """Make a card's instances; those that were there before, unchanged, stay the same ones."""
    before = {gi.said: gi for gi in device.gpu_instances}
    return tuple(
        before.get(said) or _new_instance(device, gi_id, said, profile, generation)
        for gi_id, said, profile in placed(device.card.name, mig)
    )


def placed(card_name: str, mig: Mig) -> Iterator[tuple[int, MigInstance, Profile]]:
    """Give each instance's id and profile, in order of place. Raises ScenarioError.

    A card whose MIG mode is off has none.
    """
    layout = layout_of(card_name)
    if layout is None and mig.enabled:
        raise ScenarioError(f"mig: {card_name!r} has no MIG; leave the key out")
    taken: dict[int, str] = {}
    ids: set[int] = set()
    media_count = 0
    for said in sorted(mig.instances if mig.enabled else (), key=lambda said: said.start):
        assert layout is not None
        profile = _profile(card_name, layout, said)
        media_count += profile.kind in MEDIA_KINDS
        for memory_slice in range(said.start, said.start + profile.size):
            if memory_slice in taken:
                raise ScenarioError(
                    f"mig: {said.profile} at {said.start} overlaps {taken[memory_slice]}; move it"
                )
            taken[memory_slice] = f"{said.profile} at {said.start}"
        gi_id = _usual_id(layout, profile, said.start) if said.id is None else said.id
        if gi_id in ids:
            raise ScenarioError(f"mig: two instances have the id {gi_id}; change one")
        if media_count > 1:
            raise ScenarioError(f"mig: {said.profile} at {said.start} is a second +me; take it out")
        ids.add(gi_id)
        yield gi_id, said, profile


def _profile(card_name: str, layout: Layout, said: MigInstance) -> Profile:
    profile = layout.named(said.profile)
    if profile is None:
        known = ", ".join(row.name for row in layout.profiles) or "none with known figures"
        raise ScenarioError(f"mig: no profile {said.profile!r} on {card_name!r}; there are {known}")
    starts = sorted(start for start, _ in profile.placements)
    if said.start not in starts:
        raise ScenarioError(f"mig: {said.profile} cannot start at {said.start}; want {starts}")
    if sum(said.compute or ()) > profile.compute_slices:
        raise ScenarioError(
            f"mig: {said.profile} has {profile.compute_slices} compute slices, "
            f"not the {sum(said.compute or ())} of compute {list(said.compute or ())}"
        )
    return profile


def _usual_id(layout: Layout, profile: Profile, start: int) -> int:
    """Number instances as a driver does: the whole card 0, then halves, quarters and so on."""
    return layout.slice_count // profile.size - 1 + start // profile.size


def _new_instance(
    device: Device, gi_id: int, said: MigInstance, profile: Profile, generation: int
) -> GpuInstance:
    instance = GpuInstance(
        device, gi_id, generation, profile, said, _handle(GPU_INSTANCE, device, generation, gi_id)
    )
    wanted = (profile.compute_slices,) if said.compute is None else said.compute
    instance.compute_instances = tuple(
        ComputeInstance(
            instance,
            ci_id,
            sum(wanted[:ci_id]),
            slice_count,
            _handle(COMPUTE_INSTANCE, device, generation, gi_id, ci_id),
        )
        for ci_id, slice_count in enumerate(wanted)
    )
    instance.mig_devices = tuple(_mig_device(ci) for ci in instance.compute_instances)
    return instance


def _mig_device(compute: ComputeInstance) -> MigDevice:
    instance, device, layout = compute.gpu_instance, compute.device, compute.device.layout
    assert layout is not None
    slices_per_compute = layout.slice_count // layout.compute_slices
    identity = f"{device.uuid}/{instance.generation}/{instance.id}/{compute.id}"
    return MigDevice(
        compute,
        instance.said.start // slices_per_compute + compute.start,
        _handle(MIG_DEVICE, device, instance.generation, instance.id, compute.id),
        f"MIG-{uuid.uuid5(UUID_SPACE, identity)}",
    )


def _handle(kind: int, device: Device, generation: int, gi_id: int, ci_id: int = 0) -> int:
    return kind << 56 | device.index << 44 | generation << 20 | gi_id << 8 | ci_id
