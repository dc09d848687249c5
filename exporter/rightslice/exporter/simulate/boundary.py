"""The C boundary: return codes, what a reference points to, and how handles are written."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pynvml

SUCCESS: int = pynvml.NVML_SUCCESS
UNINITIALIZED: int = pynvml.NVML_ERROR_UNINITIALIZED
INVALID_ARGUMENT: int = pynvml.NVML_ERROR_INVALID_ARGUMENT
NOT_SUPPORTED: int = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_PERMISSION: int = pynvml.NVML_ERROR_NO_PERMISSION
NOT_FOUND: int = pynvml.NVML_ERROR_NOT_FOUND
INSUFFICIENT_SIZE: int = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
DRIVER_NOT_LOADED: int = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
TIMEOUT: int = pynvml.NVML_ERROR_TIMEOUT
LIBRARY_NOT_FOUND: int = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
GPU_IS_LOST: int = pynvml.NVML_ERROR_GPU_IS_LOST
LIB_RM_VERSION_MISMATCH: int = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
NO_DATA: int = pynvml.NVML_ERROR_NO_DATA
ARGUMENT_VERSION_MISMATCH: int = pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
UNKNOWN: int = pynvml.NVML_ERROR_UNKNOWN

# NVML's word for "no such id" and "all links".
ALL_ONES = 0xFFFFFFFF

# The first argument is what the handle stands for, the others are the C function's own.
Function = Callable[..., int]


def target(reference: Any) -> Any:
    """Give the ctypes object that a `byref` argument points to."""
    return getattr(reference, "_obj", reference)


def number(argument: Any) -> int:
    """Read an integer argument: the binding passes some as ctypes objects, some as they are."""
    return int(getattr(argument, "value", argument))


def address(handle: Any) -> int:
    """Read a handle, an opaque pointer; 0 for NULL."""
    try:
        # Three times as fast as a cast, and done in each call.
        return ctypes.c_void_p.from_buffer(handle).value or 0
    except TypeError:
        return ctypes.cast(handle, ctypes.c_void_p).value or 0


def write_handle(reference: Any, handle: int) -> None:
    """Store a handle in the pointer that a reference points to."""
    ctypes.c_void_p.from_buffer(target(reference)).value = handle


def write_handles(array: Any, handles: Sequence[int]) -> None:
    """Store handles in a caller's array of pointers."""
    slots = ctypes.cast(array, ctypes.POINTER(ctypes.c_void_p))
    for slot, handle in enumerate(handles):
        slots[slot] = handle


def slots_of(array: Any, struct: Any) -> Any:
    """Give a caller's array of structs, whether passed as array, pointer or reference."""
    return ctypes.cast(array, ctypes.POINTER(struct))


def told_size(count: Any, array: Any, needed: int) -> int | None:
    """Play NVML's size protocol: write the needed count; None if the array has room for it."""
    capacity = target(count).value if array is not None else 0
    target(count).value = needed
    if capacity >= needed:
        return None if needed else SUCCESS
    return INSUFFICIENT_SIZE


def store(reference: Any, value: int | None) -> int:
    """Answer with one number, or that the card has no such reading."""
    if value is None:
        return NOT_SUPPORTED
    target(reference).value = value
    return SUCCESS
