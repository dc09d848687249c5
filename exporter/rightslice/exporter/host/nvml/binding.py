"""Checks that the module `pynvml` is the one this program was written against."""

from types import ModuleType

import pynvml

# Each was added to nvidia-ml-py at another time; what other packages install under the name of
# `pynvml` lacks some.
NEEDED = (
    "nvmlMemory_v2",
    "c_nvmlMemory_v2_t",
    "nvmlInitWithFlags",
    "c_nvmlGpmMetricsGet_t",
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "c_nvmlVgpuSchedulerStateInfo_v2_t",
)


def wrong_binding_text(module: ModuleType = pynvml) -> str:
    """Say what is wrong with the binding and how to mend it; empty when nothing is."""
    missing = [name for name in NEEDED if not hasattr(module, name)]
    if not missing:
        return ""
    return (
        f"the module pynvml at {module.__file__} is not of nvidia-ml-py 13.595 or later: it has no "
        f"{missing[0]}; install nvidia-ml-py>=13.595, after uninstalling any other package that "
        "brings a module of this name"
    )
