"""Calls on one NVML object: what it lacks is asked for once and then left alone.

The C functions are called through the binding's table, with buffers of our own that are used again
and again: the binding's wrappers ask each list's size first, which doubles the calls of the
sampling loop, and some of them fail on answers that are well defined (a size query that finds no
samples raises "Success").
"""

from enum import Enum, auto
from typing import Any

import pynvml

from rightslice.exporter.host.nvml.errors import (
    ABSENT_CODES,
    DOWN_REASONS,
    EMPTY_CODES,
    NvmlError,
    Reason,
)

SUCCESS = int(pynvml.NVML_SUCCESS)
INSUFFICIENT_SIZE = int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)


class Answer(Enum):
    """How a call that did not fail ended."""

    VALUE = auto()
    EMPTY = auto()
    ABSENT = auto()


def call(name: str, *arguments: Any) -> int:
    """Call a C function; give its return code, "function not found" where the driver has none."""
    try:
        function = pynvml._nvmlGetFunctionPointer(name)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(function(*arguments))


class Calls:
    """Remembers what one object lacks, and whether it answered in this round."""

    __slots__ = ("_absent", "answered", "answered_before", "down_reason", "failed")

    def __init__(self) -> None:
        self._absent: set[str] = set()
        # Whether the object ever gave a value: what is checked once is checked before that.
        self.answered_before = False
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
            self.answered = self.answered_before = True
            return Answer.VALUE
        if code in ABSENT_CODES:
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

    def lacks(self, key: str) -> bool:
        """Tell whether a call is known to be absent."""
        return key in self._absent

    def mark_absent(self, key: str) -> None:
        """Remember that something is not to be asked for again."""
        self._absent.add(key)
