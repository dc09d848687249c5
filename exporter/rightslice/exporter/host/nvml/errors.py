"""What NVML's return codes mean to us: absent, empty, or failed for a reason."""

from enum import StrEnum

import pynvml

from rightslice.exporter.host.reading_error import ReadingError


class Reason(StrEnum):
    """Why a reading failed, as far as it tells somebody what to do."""

    LOST = "lost"
    PERMISSION = "permission"
    BLOCKED = "blocked"
    DRIVER = "driver"
    MISMATCH = "version_mismatch"
    STALE = "stale_handle"
    LATER = "not_ready"
    STUCK = "stuck"
    UNKNOWN = "unknown"


# Not there on this card, in this mode, with this driver: not an error, and not asked again.
ABSENT_CODES = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    )
)
# Nothing new to tell.
EMPTY_CODES = frozenset((pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA))
REASONS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: Reason.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Reason.LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Reason.LOST,
    pynvml.NVML_ERROR_NO_PERMISSION: Reason.PERMISSION,
    # The operating system keeps the device from us: its cgroup's device rules were reset.
    pynvml.NVML_ERROR_OPERATING_SYSTEM: Reason.BLOCKED,
    pynvml.NVML_ERROR_UNINITIALIZED: Reason.DRIVER,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Reason.DRIVER,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Reason.DRIVER,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Reason.MISMATCH,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Reason.STALE,
    pynvml.NVML_ERROR_TIMEOUT: Reason.LATER,
    pynvml.NVML_ERROR_IN_USE: Reason.LATER,
    pynvml.NVML_ERROR_NOT_READY: Reason.LATER,
    pynvml.NVML_ERROR_INVALID_STATE: Reason.LATER,
}
# One call that fails so tells that the whole card is gone; the others fail call by call. A stale
# handle is not among them: drivers call an argument invalid for much else, and if it is the handle,
# no call answers.
DOWN_REASONS = frozenset((Reason.LOST, Reason.DRIVER, Reason.MISMATCH))

NOT_AVAILABLE_32 = 0xFFFFFFFF
NOT_AVAILABLE_64 = 0xFFFFFFFFFFFFFFFF


class NvmlError(ReadingError):
    """An NVML call failed; `reason` classifies the code."""

    reason: Reason

    def __init__(self, call: str, code: int) -> None:
        # Never the library's own text: its lookup may itself call a library that is gone.
        text = pynvml.NVMLError._errcode_to_string.get(code, "unknown error")
        super().__init__(REASONS.get(code, Reason.UNKNOWN), f"{call}: {text} (NVML code {code})")
        self.code = code


def text_of(value: str | bytes) -> str:
    """Give text whatever release of the binding handed it out, and whatever bytes are in it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
