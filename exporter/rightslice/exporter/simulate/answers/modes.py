"""What a card refuses because of its mode: MIG on, inside a virtual machine, no memory of its own.

The tables follow what NVML documents for each mode.
"""

from collections.abc import Mapping

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.device import Device

MEMORY = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
PROCESSES = tuple(
    f"nvmlDeviceGet{kind}RunningProcesses_{version}"
    for kind in ("Compute", "Graphics", "MPSCompute")
    for version in ("v2", "v3")
)
UTILISATION = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetSamples")
VGPU_SCHEDULER = ("nvmlDeviceGetVgpuSchedulerState", "nvmlDeviceGetVgpuSchedulerState_v2")
# Root, or the monitor capability, is asked for.
MIG_OVERVIEW = (
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceRemainingCapacity",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGpuInstanceById",
)
# The board is the host's; a guest sees its share of memory and multiprocessors.
BOARD = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceRegisterEvents",
)


def refusals(device: Device) -> Mapping[str, int]:
    """Give the functions that answer with a code only, as the card is now."""
    card, mig = device.card, device.mig
    refused: dict[str, int] = {}
    if mig.enabled:
        refused |= dict.fromkeys((*UTILISATION, *VGPU_SCHEDULER), boundary.NOT_SUPPORTED)
    if mig.enabled and not mig.privileged:
        refused |= dict.fromkeys((*MEMORY, *PROCESSES), boundary.NO_PERMISSION)
    if not mig.privileged:
        refused |= dict.fromkeys(MIG_OVERVIEW, boundary.NO_PERMISSION)
    if card.is_guest:
        refused |= dict.fromkeys(BOARD, boundary.NOT_SUPPORTED)
    if card.memory_kind == "unified":
        refused |= dict.fromkeys(MEMORY, boundary.NOT_SUPPORTED)
    return refused
