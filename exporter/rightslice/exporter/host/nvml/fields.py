"""NVML field values: many numbers of a card in one call, each with its own return code."""

from ctypes import byref, c_int32
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer
from rightslice.exporter.host.nvml.errors import (
    ABSENT_CODES,
    DOWN_REASONS,
    NOT_AVAILABLE_32,
    NOT_AVAILABLE_64,
    REASONS,
    Reason,
)

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

CALL = "nvmlDeviceGetFieldValues"
# The scope that stands for all links of a card.
EVERY_LINK = 0xFFFFFFFF
MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
NOT_AVAILABLE = {pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: NOT_AVAILABLE_32}
WIDE_TYPES = frozenset(
    (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
)

FieldKey = tuple[int, int]


class FieldReader:
    """Reads a set of fields of one card; those that it lacks are left out from then on.

    A key is (field id, scope). `wide` names ids that are of use only as 64-bit counters: a byte
    counter of 32 bits wraps several times between two readings.
    """

    def __init__(
        self, card: "NvmlCard", keys: tuple[FieldKey, ...], wide: frozenset[int] = frozenset()
    ) -> None:
        self._card = card
        self._wide = wide
        self._every_key = keys
        self._generation = card.calls.generation
        self.keys = keys
        self._values = self._array()

    def _array(self) -> Any:
        values = (pynvml.c_nvmlFieldValue_t * len(self.keys))()
        for value, (field_id, scope) in zip(values, self.keys, strict=True):
            value.fieldId, value.scopeId = field_id, scope
        return values

    def read(self) -> dict[FieldKey, float]:
        """Give the fields that have a value now. Raises NvmlError when the call failed."""
        calls = self._card.calls
        if self._generation != calls.generation:  # what was lacking is asked for anew
            self._generation = calls.generation
            self.keys = self._every_key
            self._values = self._array()
        if not self.keys:
            return {}
        answer = calls.ask(CALL, self._card.handle, c_int32(len(self.keys)), byref(self._values))
        if answer is Answer.ABSENT:
            self.keys = ()
        if answer is not Answer.VALUE:
            return {}
        found: dict[FieldKey, float] = {}
        lacking: set[FieldKey] = set()
        for key, value in zip(self.keys, self._values, strict=True):
            if self._is_lacking(key[0], value):
                lacking.add(key)
            elif value.nvmlReturn == SUCCESS:
                number = getattr(value.value, MEMBERS[value.valueType])
                if number != NOT_AVAILABLE.get(value.valueType, NOT_AVAILABLE_64):
                    found[key] = number
            elif REASONS.get(value.nvmlReturn) in DOWN_REASONS:
                calls.settle(CALL, value.nvmlReturn)
        if lacking:
            self.keys = tuple(key for key in self.keys if key not in lacking)
            self._values = self._array()
        return found

    def _is_lacking(self, field_id: int, value: Any) -> bool:
        code = value.nvmlReturn
        # For one field among others "invalid argument" means that this driver has no such field.
        if code in ABSENT_CODES or REASONS.get(code) is Reason.STALE:
            return True
        if code != SUCCESS:
            return False
        if value.valueType not in MEMBERS:
            return True
        return field_id in self._wide and value.valueType not in WIDE_TYPES
