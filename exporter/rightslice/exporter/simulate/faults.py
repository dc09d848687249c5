"""Faults by word: the return code that an NVML function gives instead of a value."""

from collections.abc import Mapping

import pynvml

# Every function of a card, unless named itself.
ALL = "all"
# No code of NVML's: the call does not come back.
HANG = -1

FAULTS: Mapping[str, int] = {
    "hang": HANG,
    "uninitialized": pynvml.NVML_ERROR_UNINITIALIZED,
    "invalid_argument": pynvml.NVML_ERROR_INVALID_ARGUMENT,
    "not_supported": pynvml.NVML_ERROR_NOT_SUPPORTED,
    "no_permission": pynvml.NVML_ERROR_NO_PERMISSION,
    "not_found": pynvml.NVML_ERROR_NOT_FOUND,
    "insufficient_size": pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
    "driver_not_loaded": pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    "timeout": pynvml.NVML_ERROR_TIMEOUT,
    "function_not_found": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    "lost": pynvml.NVML_ERROR_GPU_IS_LOST,
    "reset_required": pynvml.NVML_ERROR_RESET_REQUIRED,
    "operating_system": pynvml.NVML_ERROR_OPERATING_SYSTEM,
    "in_use": pynvml.NVML_ERROR_IN_USE,
    "memory": pynvml.NVML_ERROR_MEMORY,
    "no_data": pynvml.NVML_ERROR_NO_DATA,
    "argument_version_mismatch": pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    "not_ready": pynvml.NVML_ERROR_NOT_READY,
    "gpu_not_found": pynvml.NVML_ERROR_GPU_NOT_FOUND,
    "invalid_state": pynvml.NVML_ERROR_INVALID_STATE,
    "unknown": pynvml.NVML_ERROR_UNKNOWN,
}


def fault_of(faults: Mapping[str, int], function: str) -> int | None:
    """Give the code that a function answers with; None where it works."""
    code = faults.get(function)
    return faults.get(ALL) if code is None else code
