"""Calls on one NVML object: what it lacks is asked for once and then left alone.

The C functions are called through the binding's table, with buffers of our own that are used again
and again: the binding's wrappers ask each list's size first, which doubles the calls of the
sampling loop, and some of them fail on answers that are well defined (a size query that finds no
samples raises "Success").
"""

from ctypes import c_uint, create_string_buffer
from enum import Enum, auto
from threading import get_ident
from typing import Any

import pynvml

from rightslice.exporter.host.nvml.errors import (
    ABSENT_CODES,
    DOWN_REASONS,
    EMPTY_CODES,
    NvmlError,
    Reason,
    text_of,
)

SUCCESS = int(pynvml.NVML_SUCCESS)
INVALID_ARGUMENT = int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
INSUFFICIENT_SIZE = int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)


class Answer(Enum):
    """How a call that did not fail ended."""

    VALUE = auto()
    EMPTY = auto()
    ABSENT = auto()


# How many calls each thread has begun: who watches a thread tells one that hangs in a call from one
# that makes many.
_begun: dict[int, int] = {}


def calls_begun(thread_id: int) -> int:
    """Count the calls that a thread has begun."""
    return _begun.get(thread_id, 0)


def forget_thread(thread_id: int) -> None:
    """Drop the count of a thread that ends: its id will be another's."""
    _begun.pop(thread_id, None)


def call(name: str, *arguments: Any) -> int:
    """Call a C function; give its return code, "function not found" where the driver has none."""
    thread_id = get_ident()
    _begun[thread_id] = _begun.get(thread_id, 0) + 1
    try:
        function = pynvml._nvmlGetFunctionPointer(name)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(function(*arguments))


def call_for_text(name: str, target: Any, size: int) -> tuple[int, str]:
    """Call a C function that writes a text of at most `size` bytes; give its code and the text.

    The binding's own functions fail on bytes that are not UTF-8.
    """
    text = create_string_buffer(size)
    code = call(name, target, text, c_uint(size))
    return code, text_of(text.value)


class Calls:
    """Remembers what one object lacks, and whether it answered in this round."""

    __slots__ = ("_absent", "_kept", "_worked", "answered", "down_reason", "failed", "generation")

    def __init__(self) -> None:
        self._absent: set[str] = set()
        self._kept: set[str] = set()
        self._worked: set[str] = set()
        # Grows when what is absent is forgotten; who keeps such knowledge itself compares it.
        self.generation = 0
        self.begin_round()

    def begin_round(self) -> None:
        """Forget how the calls of the round before ended."""
        self.answered = self.failed = False
        self.down_reason: Reason | None = None

    @property
    def is_up(self) -> bool:
        """Tell whether the object answers: no call said that it is gone, and not every one failed.

        A round without calls says nothing against it.
        """
        return self.down_reason is None and (self.answered or not self.failed)

    def ask(self, name: str, *arguments: Any, key: str = "") -> Answer:
        """Make one call. `key` tells apart what one function is asked for in several ways.

        Raises NvmlError when the call failed.
        """
        return self.settle(name, self.attempt(name, *arguments, key=key), key=key)

    def attempt(self, name: str, *arguments: Any, key: str = "") -> int:
        """Make one call unless it is known to be absent; give the bare code, to be settled."""
        if (key or name) in self._absent:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return call(name, *arguments)

    def settle(self, name: str, code: int, key: str = "") -> Answer:
        """Sort a return code. Raises NvmlError for a failure."""
        if code == SUCCESS:
            self.answered = True
            self._worked.add(key or name)
            return Answer.VALUE
        # What never worked on an object that answers otherwise is an argument that this driver does
        # not know: as good as absent. The handle would be wrong for every call.
        is_unknown = code == INVALID_ARGUMENT and self._worked and (key or name) not in self._worked
        if code in ABSENT_CODES or is_unknown:
            self._absent.add(key or name)
            return Answer.ABSENT
        if code in EMPTY_CODES:
            self.answered = True
            return Answer.EMPTY
        self.failed = True
        error = NvmlError(name, code)
        if error.reason in DOWN_REASONS:
            self.down_reason = error.reason
        raise error

    def forget_absent(self) -> None:
        """Ask anew for what is lacking: a link may have come up since, an instance gone."""
        self._absent &= self._kept
        self.generation += 1

    def lacks(self, key: str) -> bool:
        """Tell whether a call is known to be absent."""
        return key in self._absent

    def mark_absent(self, key: str) -> None:
        """Remember for good that something is not to be asked for."""
        self._absent.add(key)
        self._kept.add(key)
