"""vGPUs: what a host tells of the virtual machines on a card, and a guest of its licence."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.answers.readings import (
    MICROSECONDS_PER_SECOND,
    SAMPLE_PERIOD_US,
    steps_since,
    write_text,
)
from rightslice.exporter.simulate.boundary import SUCCESS, store
from rightslice.exporter.simulate.card import SCHEDULERS, ScenarioError, Vgpu, VgpuInstance
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.vgpu_types import (
    VgpuTypeRow,
    vgpu_type_named,
    vgpu_type_with_id,
)
from rightslice.facts.cards import ARCHITECTURES

UUID_SPACE = uuid.UUID("4c1b6f0e-0f3d-5d0e-9c58-6a0f1f5e2f77")
VENDOR = "GRID"
INSTANCE_IDS_PER_CARD = 0x100
# The time slice: 2 ms where at most 8 share a card, else 1 ms. Strict policies average over 33.
FEW_SHARERS, LONG_SLICE_NS, SHORT_SLICE_NS, AVERAGE_FACTOR = 8, 2_000_000, 1_000_000, 33
NO_VGPUS = Vgpu()
# All work of so much time comes at its start and is served in turn. The scheduler's log goes back
# by no more than so many of these.
FRAME_NS, LOGGED_FRAMES, LOG_LENGTH = 100_000_000, 100, pynvml.NVML_SCHEDULER_SW_MAX_LOG_ENTRIES
NANOSECONDS_PER_SECOND = 1_000_000_000
# The number of a runlist says nothing of the vGPU's: the first vGPU of a card has the highest.
HIGHEST_RUNLIST = 63


@dataclass(frozen=True, slots=True)
class HostedVgpu:
    """A virtual machine's vGPU on a card of this host."""

    device: Device
    id: int
    said: VgpuInstance
    type: VgpuTypeRow

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(UUID_SPACE, f"{self.device.uuid}/{self.id}"))

    @property
    def vm_id(self) -> str:
        made_up = str(uuid.uuid5(UUID_SPACE, f"{self.device.uuid}/{self.id}/vm"))
        return made_up if self.said.vm_id is None else self.said.vm_id

    @property
    def runlist(self) -> int:
        return HIGHEST_RUNLIST - self.id % INSTANCE_IDS_PER_CARD


def hosted(devices: Iterable[Device]) -> dict[int, HostedVgpu]:
    """Number the vGPUs of all cards. Raises ScenarioError for a type that does not exist."""
    return {vgpu.id: vgpu for device in devices for vgpu in _hosted_on(device)}


def type_of(said: VgpuInstance) -> VgpuTypeRow:
    row = vgpu_type_named(said.type)
    if row is None:
        raise ScenarioError(f"vgpu: no type {said.type!r}; want one such as 'A100D-4C'")
    return row


def _said(device: Device) -> Vgpu:
    return device.card.vgpu or NO_VGPUS


def _hosted_on(device: Device) -> list[HostedVgpu]:
    first_id = (device.index + 1) * INSTANCE_IDS_PER_CARD
    return [
        HostedVgpu(device, instance_id, said, type_of(said))
        for instance_id, said in enumerate(_said(device).instances, first_id)
    ]


def _host_mode(device: Device, reference: Any) -> int:
    if not device.card.is_vgpu_host:
        return boundary.NOT_SUPPORTED
    architecture = device.architecture
    modern = bool(architecture) and ARCHITECTURES.index(architecture) >= ARCHITECTURES.index(
        "ampere"
    )
    return store(
        reference,
        pynvml.NVML_HOST_VGPU_MODE_SRIOV if modern else pynvml.NVML_HOST_VGPU_MODE_NON_SRIOV,
    )


def _active(device: Device, count: Any, array: Any) -> int:
    if not device.card.is_vgpu_host:
        return boundary.NOT_SUPPORTED
    vgpus = _hosted_on(device)
    refusal = boundary.told_size(count, array, len(vgpus))
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(array, pynvml._nvmlVgpuInstance_t)
    for slot, vgpu in enumerate(vgpus):
        slots[slot] = vgpu.id
    return SUCCESS


def _utilisation(device: Device, since_us: Any, value_type: Any, count: Any, array: Any) -> int:
    """Give one sample for each vGPU, its mean since the time told; none if nothing is new."""
    if not device.card.is_vgpu_host:
        return boundary.NOT_SUPPORTED
    store(value_type, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT)
    oldest, newest = steps_since(device, since_us)
    vgpus = _hosted_on(device) if newest > oldest else []
    refusal = boundary.told_size(count, array, len(vgpus))
    if refusal is not None:
        return refusal
    slots = boundary.slots_of(array, pynvml.c_nvmlVgpuInstanceUtilizationSample_t)
    seconds_per_step = SAMPLE_PERIOD_US / MICROSECONDS_PER_SECOND
    for slot, vgpu in enumerate(vgpus):
        busy_ratio = vgpu.said.busy_ratio.mean(oldest * seconds_per_step, newest * seconds_per_step)
        slots[slot].vgpuInstance = vgpu.id
        slots[slot].timeStamp = newest * SAMPLE_PERIOD_US
        slots[slot].smUtil.uiVal = round(100 * busy_ratio)
    return SUCCESS


def _time_slice_ns(device: Device) -> int:
    sharers = max((type_of(said).max_count for said in _said(device).instances), default=1)
    return LONG_SLICE_NS if sharers <= FEW_SHARERS else SHORT_SLICE_NS


def _policy(device: Device) -> int:
    return SCHEDULERS.index(_said(device).scheduler) + 1


def _averages(device: Device) -> bool:
    return _said(device).scheduler != "best_effort"


def _scheduler_state(device: Device, reference: Any) -> int:
    if not device.card.is_vgpu_host:
        return boundary.NOT_SUPPORTED
    state = boundary.target(reference)
    state.schedulerPolicy = _policy(device)
    if _averages(device):
        state.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_ENABLE
        state.schedulerParams.vgpuSchedDataWithARR.avgFactor = AVERAGE_FACTOR
        state.schedulerParams.vgpuSchedDataWithARR.timeslice = _time_slice_ns(device)
    else:
        state.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_DISABLE
        state.schedulerParams.vgpuSchedData.timeslice = _time_slice_ns(device)
    return SUCCESS


def _scheduler_state_v2(device: Device, reference: Any) -> int:
    if not device.card.is_vgpu_host:
        return boundary.NOT_SUPPORTED
    state = boundary.target(reference)
    state.schedulerPolicy = _policy(device)
    state.avgFactor = AVERAGE_FACTOR if _averages(device) else 0
    state.timeslice = _time_slice_ns(device)
    return SUCCESS


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A time for which a vGPU's runlist had the engine, in nanoseconds of the node's clock."""

    runlist: int
    end_ns: int
    ran_ns: int
    ran_total_ns: int


def _frame_runs(device: Device, frame: int) -> Iterator[LoggedRun]:
    """Serve one frame's work in turn, a slice each; what does not fit into the frame is dropped."""
    slice_ns, start_ns = _time_slice_ns(device), frame * FRAME_NS
    at_seconds, now_ns = start_ns / NANOSECONDS_PER_SECOND, start_ns
    left_ns = {
        vgpu.runlist: round(vgpu.said.busy_ratio.at(at_seconds) * FRAME_NS)
        for vgpu in _hosted_on(device)
    }
    totals_ns = dict.fromkeys(left_ns, 0)
    while any(left_ns.values()):
        for runlist in left_ns:
            ran_ns = min(left_ns[runlist], slice_ns, start_ns + FRAME_NS - now_ns)
            if ran_ns:
                now_ns += ran_ns
                left_ns[runlist] -= ran_ns
                totals_ns[runlist] += ran_ns
                yield LoggedRun(runlist, now_ns, ran_ns, totals_ns[runlist])
        if now_ns == start_ns + FRAME_NS:
            return


def _logged_runs(device: Device) -> list[LoggedRun]:
    """Give what the log holds now, newest first."""
    now_ns = int(device.now_seconds() * NANOSECONDS_PER_SECOND)
    newest = now_ns // FRAME_NS
    runs = (
        run
        for frame in range(newest, newest - LOGGED_FRAMES, -1)
        for run in reversed(list(_frame_runs(device, frame)))
        if run.end_ns <= now_ns
    )
    return list(islice(runs, LOG_LENGTH))


def _scheduler_log(device: Device, reference: Any) -> int:
    """Fill the log, whose rows are the same in both versions but for the weight.

    With MIG on the card as a whole has none.
    """
    if not device.card.is_vgpu_host or device.mig.enabled:
        return boundary.NOT_SUPPORTED
    log, runs, slice_ns = boundary.target(reference), _logged_runs(device), _time_slice_ns(device)
    log.schedulerPolicy, log.entriesCount = _policy(device), len(runs)
    for entry, run in zip(log.logEntries, reversed(runs), strict=False):
        entry.timestamp, entry.timeRun, entry.swRunlistId = run.end_ns, run.ran_ns, run.runlist
        entry.timeRunTotal, entry.targetTimeSlice = run.ran_total_ns, slice_ns
    return SUCCESS


def _vm_id(vgpu: HostedVgpu, buffer: Any, length: Any, kind: Any) -> int:
    try:
        uuid.UUID(vgpu.vm_id)
    except ValueError:
        store(kind, pynvml.NVML_VGPU_VM_ID_DOMAIN_ID)
    else:
        store(kind, pynvml.NVML_VGPU_VM_ID_UUID)
    return write_text(buffer, vgpu.vm_id)


def _licensable_features(device: Device, reference: Any) -> int:
    features = boundary.target(reference)
    is_guest = device.card.is_guest
    features.isGridLicenseSupported = features.licensableFeaturesCount = int(is_guest)
    if is_guest:
        licensed = _said(device).licensed
        feature = features.gridLicensableFeatures[0]
        feature.featureCode = pynvml.NVML_GRID_LICENSE_FEATURE_CODE_COMPUTE
        feature.featureState = feature.featureEnabled = int(licensed)
        feature.licenseInfo = b"NVIDIA Virtual Compute Server"
        feature.productName = b"NVIDIA Virtual Compute Server"
    return SUCCESS


def _max_count(device: Device, type_id: Any, reference: Any) -> int:
    row = vgpu_type_with_id(boundary.number(type_id))
    return boundary.INVALID_ARGUMENT if row is None else store(reference, row.max_count)


def _license(vgpu: HostedVgpu, reference: Any) -> int:
    licence = boundary.target(reference)
    licensed = vgpu.said.licensed
    licence.isLicensed = int(licensed)
    licence.currentState = (
        pynvml.NVML_GRID_LICENSE_STATE_LICENSED
        if licensed
        else pynvml.NVML_GRID_LICENSE_STATE_UNLICENSED
    )
    return SUCCESS


def _used_bytes(vgpu: HostedVgpu) -> int:
    return int(vgpu.said.memory_used_bytes.at(vgpu.device.now_seconds()))


def _type_name(type_id: Any, buffer: Any, length: Any) -> int:
    row = vgpu_type_with_id(boundary.number(type_id))
    if row is None:
        return boundary.INVALID_ARGUMENT
    return write_text(buffer, f"{VENDOR} {row.name}")


def _framebuffer(type_id: Any, reference: Any) -> int:
    row = vgpu_type_with_id(boundary.number(type_id))
    return boundary.INVALID_ARGUMENT if row is None else store(reference, row.framebuffer_bytes)


ON_CARDS: dict[str, boundary.Function] = {
    "nvmlDeviceGetHostVgpuMode": _host_mode,
    "nvmlDeviceGetActiveVgpus": _active,
    "nvmlDeviceGetVgpuUtilization": _utilisation,
    "nvmlDeviceGetVgpuSchedulerState": _scheduler_state,
    "nvmlDeviceGetVgpuSchedulerState_v2": _scheduler_state_v2,
    "nvmlDeviceGetVgpuSchedulerLog": _scheduler_log,
    "nvmlDeviceGetVgpuSchedulerLog_v2": _scheduler_log,
    "nvmlDeviceGetGridLicensableFeatures_v4": _licensable_features,
    "nvmlVgpuTypeGetMaxInstances": _max_count,
}
ON_INSTANCES: dict[str, boundary.Function] = {
    "nvmlVgpuInstanceGetUUID": lambda vgpu, buffer, length: write_text(buffer, vgpu.uuid),
    "nvmlVgpuInstanceGetType": lambda vgpu, reference: store(reference, vgpu.type.id),
    # The binding hands over 32 bits for this 64-bit number, and so sees it modulo 4 GiB.
    "nvmlVgpuInstanceGetFbUsage": lambda vgpu, reference: store(reference, _used_bytes(vgpu)),
    "nvmlVgpuInstanceGetLicenseInfo_v2": _license,
    "nvmlVgpuInstanceGetVmID": _vm_id,
    "nvmlVgpuInstanceGetGpuInstanceId": lambda vgpu, reference: store(reference, boundary.ALL_ONES),
}
ON_TYPES: dict[str, boundary.Function] = {
    "nvmlVgpuTypeGetName": _type_name,
    "nvmlVgpuTypeGetFramebufferSize": _framebuffer,
}
