"""What changes seldom on a card: ECC counts, remapped rows, the state of its links."""

from ctypes import byref, c_uint, c_ulonglong
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, call

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

ECC_TYPES = {
    "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
}
# Since the driver was loaded; with MIG only the counts over the board's life are told.
ECC_COUNTERS = {"volatile": pynvml.NVML_VOLATILE_ECC, "aggregate": pynvml.NVML_AGGREGATE_ECC}
REMAP_STATES = ("correctable", "uncorrectable", "pending", "failure")
PCIE_CALLS = {
    ("width", "current"): "nvmlDeviceGetCurrPcieLinkWidth",
    ("width", "max"): "nvmlDeviceGetMaxPcieLinkWidth",
    ("generation", "current"): "nvmlDeviceGetCurrPcieLinkGeneration",
    ("generation", "max"): "nvmlDeviceGetMaxPcieLinkGeneration",
}


# What a driver answers behind the last link.
LAST_LINK_CODES = frozenset((pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED))


@dataclass(frozen=True, slots=True)
class EccCount:
    """Errors so far; `counter` names the running total they are read from."""

    counter: str
    count: int


class HealthReader:
    """Reads one card, some thirty calls: for once a minute."""

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card

    def ecc_errors(self) -> dict[str, EccCount]:
        """Give the errors so far by type; empty on cards without ECC."""
        found = {}
        for kind, error_type in ECC_TYPES.items():
            for counter, counter_type in ECC_COUNTERS.items():
                count = self._number(
                    "nvmlDeviceGetTotalEccErrors", c_ulonglong(), error_type, counter_type
                )
                if count is not None:
                    found[kind] = EccCount(counter, count)
                    break
        return found

    def remapped_rows(self) -> dict[str, int]:
        """Give remapped rows by cause, and 0 or 1 for "pending" and "failure"; empty if untold."""
        counts = [c_uint() for _ in REMAP_STATES]
        answer = self._card.calls.ask(
            "nvmlDeviceGetRemappedRows", self._card.handle, *(byref(count) for count in counts)
        )
        if answer is not Answer.VALUE:
            return {}
        return {state: count.value for state, count in zip(REMAP_STATES, counts, strict=True)}

    def nvlink_states(self) -> dict[str, int]:
        """Count links by "active" and "inactive"; empty on cards without NVLink."""
        name, states = "nvmlDeviceGetNvLinkState", {"active": 0, "inactive": 0}
        if self._card.calls.lacks(name):
            return {}
        is_active = c_uint()
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            code = call(name, self._card.handle, c_uint(link), byref(is_active))
            # On the first link they say that the card has none.
            if code != SUCCESS and link and code in LAST_LINK_CODES:
                break
            if self._card.calls.settle(name, code) is not Answer.VALUE:
                return {}
            states["active" if is_active.value else "inactive"] += 1
        return states

    def pcie_links(self) -> dict[tuple[str, str], int]:
        """Give lanes and generation, each now and at most: {("width", "current"): 16, ...}."""
        numbers = {key: self._number(name, c_uint()) for key, name in PCIE_CALLS.items()}
        return {key: number for key, number in numbers.items() if number}

    def _number(self, name: str, target: c_uint | c_ulonglong, *arguments: int) -> int | None:
        key = f"{name} {arguments}" if arguments else name
        answer = self._card.calls.ask(
            name, self._card.handle, *map(c_uint, arguments), byref(target), key=key
        )
        return target.value if answer is Answer.VALUE else None
