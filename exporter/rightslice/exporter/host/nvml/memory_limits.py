"""How much of a card's memory the driver lets the processes of a cgroup have (driver 615)."""

from ctypes import byref
from pathlib import Path
from typing import TYPE_CHECKING

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, call

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

LIMITS = "nvmlDeviceGetMemoryLimits_v1"


def tells_limits(card: "NvmlCard") -> bool:
    """Tell whether this driver may know of limits; most are too old."""
    return not card.calls.lacks(LIMITS)


def cgroup_limit_bytes(card: "NvmlCard", cgroup_folder: Path) -> int | None:
    """Give the hard limit of a cgroup, by the path of its folder, which NVML opens.

    None without one, where the folder is not to be seen, and on older drivers: a refusal is about
    this cgroup, and says nothing of others.
    """
    if not tells_limits(card):
        return None
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
    limits.nameSpace = str(cgroup_folder).encode(errors="surrogateescape")
    code = call(LIMITS, card.handle, byref(limits))
    if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
        card.calls.mark_absent(LIMITS)
    if code != SUCCESS:
        return None
    limit_bytes = int(limits.hardLimit)
    return limit_bytes if 0 < limit_bytes < pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX else None
