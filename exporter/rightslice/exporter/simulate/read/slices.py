"""Reads how the cards of a scenario are sliced: MIG instances and vGPUs."""

from typing import Any

from rightslice.exporter.simulate.card import (
    BYTES_PER_MIB,
    NEVER,
    SCHEDULERS,
    Mig,
    MigInstance,
    ScenarioError,
    Vgpu,
    VgpuInstance,
)
from rightslice.exporter.simulate.read.section import Section, is_number
from rightslice.exporter.simulate.slices import placed
from rightslice.exporter.simulate.vgpu_types import vgpu_type_named

MIG_KEYS = ("enabled", "pending", "privileged", "instances")
INSTANCE_KEYS = (
    "profile",
    "start",
    "id",
    "memory_used_mib",
    "sm_active_ratio",
    "busy_ratio",
    "dram_active_ratio",
    "sm_occupancy_ratio",
    "compute",
)
VGPU_KEYS = ("scheduler", "licensed", "instances")
VGPU_INSTANCE_KEYS = ("type", "memory_used_mib", "busy_ratio", "licensed", "vm_id")


def mig_of(section: Section, key: str, card_name: str) -> Mig:
    """Read a MIG state, and refuse one that the card cannot have."""
    enabled = section.flag("enabled", default=True)
    mig = Mig(
        enabled=enabled,
        pending=section.flag("pending", default=enabled),
        privileged=section.flag("privileged", default=True),
        instances=tuple(_instance(*told, key) for told in section.rows("instances")),
    )
    for _, said, profile in _checked(section, card_name, mig):
        memory_bytes = profile.memory_mib * BYTES_PER_MIB
        if said.memory_used_bytes.high > memory_bytes:
            raise ScenarioError(
                f"{section.place}: {said.profile} at {said.start} uses more than its "
                f"{profile.memory_mib} MiB; lower memory_used_mib"
            )
    return mig


def _checked(section: Section, card_name: str, mig: Mig) -> list[Any]:
    try:
        return list(placed(card_name, mig))
    except ScenarioError as error:
        raise ScenarioError(f"{section.place}: {error}") from error


def _instance(place: str, value: Any, key: str) -> MigInstance:
    row = Section(place, value, INSTANCE_KEYS)
    start = row.whole("start")
    # By place, so that an instance that stays over a change goes on as it was.
    seed_key = f"{key} mig {start}"
    sm_active_ratio = row.ratio("sm_active_ratio", f"{seed_key} sm") or NEVER
    return MigInstance(
        profile=row.text("profile"),
        start=start,
        memory_used_bytes=row.level("memory_used_mib", f"{seed_key} memory", BYTES_PER_MIB)
        or NEVER,
        sm_active_ratio=sm_active_ratio,
        busy_ratio=row.ratio("busy_ratio", f"{seed_key} busy"),
        dram_active_ratio=row.ratio("dram_active_ratio", f"{seed_key} dram"),
        sm_occupancy_ratio=row.ratio("sm_occupancy_ratio", f"{seed_key} occupancy"),
        compute=_compute(row) if "compute" in row else None,
        id=row.whole("id") if "id" in row else None,
    )


def _compute(row: Section) -> tuple[int, ...]:
    slices = row.required("compute")
    if not isinstance(slices, list) or not all(is_number(each) and each > 0 for each in slices):
        raise row.wrong("compute", "a list of compute slice counts, such as [2, 1], or []")
    return tuple(int(each) for each in slices)


def vgpu_of(section: Section, key: str) -> Vgpu:
    return Vgpu(
        scheduler=section.word("scheduler", SCHEDULERS, "best_effort"),
        licensed=section.flag("licensed", default=True),
        instances=tuple(
            _vgpu_instance(place, value, f"{key} vgpu {position}")
            for position, (place, value) in enumerate(section.rows("instances"))
        ),
    )


def _vgpu_instance(place: str, value: Any, seed_key: str) -> VgpuInstance:
    row = Section(place, value, VGPU_INSTANCE_KEYS)
    name = row.text("type")
    if vgpu_type_named(name) is None:
        raise row.wrong("type", "a vGPU type without a vendor prefix, such as A100D-4C")
    return VgpuInstance(
        type=name,
        memory_used_bytes=row.level("memory_used_mib", f"{seed_key} memory", BYTES_PER_MIB)
        or NEVER,
        busy_ratio=row.ratio("busy_ratio", f"{seed_key} busy") or NEVER,
        licensed=row.flag("licensed", default=True),
        vm_id=row.text("vm_id") if "vm_id" in row else None,
    )
