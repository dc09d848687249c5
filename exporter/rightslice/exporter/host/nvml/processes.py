"""Which processes NVML lists on a card, and the memory of each."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.errors import (
    DOWN_REASONS,
    NOT_AVAILABLE_32,
    NOT_AVAILABLE_64,
    NvmlError,
    Reason,
)
from rightslice.exporter.host.nvml.rows import Rows

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

FIRST_BUFFER_LENGTH = 64
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"
MPS = "nvmlDeviceGetMPSComputeRunningProcesses"
QUIET_ROUNDS = 5
# Drivers in which the v3 list has a longer row than the binding knows, so that every second process
# id is garbage; the v2 list is right there.
LONG_ROW_DRIVERS = ((535, 43), (535, 104))


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on a card, by its id on the host. None: not told, or without MIG."""

    process_id: int
    used_bytes: int | None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


def version_of(driver_version: str) -> tuple[int, ...]:
    """Read a driver version into numbers that compare; what is no number ends it."""
    match = re.match(r"\d+(\.\d+)*", driver_version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


class ProcessLists:
    """The lists of one card: compute and graphics contexts, and the clients of an MPS server."""

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._rows = Rows(pynvml.c_nvmlProcessInfo_v2_t, FIRST_BUFFER_LENGTH)
        self._lists: dict[str, list[GpuProcess] | None] = {}
        self._round = -1
        self._quiet_until: dict[str, int] = {}
        # Why a list of this round is missing.
        self.failure: NvmlError | None = None
        first, end = LONG_ROW_DRIVERS
        has_long_rows = first <= version_of(card.driver_version) < end
        self._endings = ("_v2",) if has_long_rows else ("_v3", "_v2")

    def compute(self) -> list[GpuProcess] | None:
        return self._read("nvmlDeviceGetComputeRunningProcesses")

    def graphics(self) -> list[GpuProcess] | None:
        return self._read(GRAPHICS)

    def mps(self) -> list[GpuProcess] | None:
        return self._read(MPS)

    def every(self) -> list[GpuProcess] | None:
        """Merge the lists: a process in several of them holds its memory once.

        None where no list is told. Keyed by process and instance, with the larger memory. Most
        cards have neither graphics nor MPS: a list that was empty is asked for again only after
        some rounds. Where one of those two fails, the others are still true: `failure` tells of it.
        """
        lists = [self.compute(), self._if_told(GRAPHICS), self._if_told(MPS)]
        if all(rows is None for rows in lists):
            return None
        merged: dict[tuple[int, int | None, int | None], GpuProcess] = {}
        for row in (row for rows in lists for row in rows or ()):
            key = (row.process_id, row.gpu_instance_id, row.compute_instance_id)
            known = merged.get(key)
            if known is None or (known.used_bytes or 0) < (row.used_bytes or 0):
                merged[key] = row
        return list(merged.values())

    def _if_told(self, function: str) -> list[GpuProcess] | None:
        try:
            return self._unless_quiet(function)
        except NvmlError as error:
            if error.reason in (*DOWN_REASONS, Reason.PERMISSION):
                raise
            self._lists[function], self.failure = None, error
            return None

    def _unless_quiet(self, function: str) -> list[GpuProcess] | None:
        until_round = self._quiet_until.get(function, 0)
        if function in self._lists or self._card.round_number >= until_round:
            return self._read(function)
        return []

    def _read(self, function: str) -> list[GpuProcess] | None:
        """Read a list, once per round."""
        if self._round != self._card.round_number:
            self._round = self._card.round_number
            self._lists.clear()
            self.failure = None
        if function not in self._lists:
            rows = self._lists[function] = self._read_first(function)
            self._quiet_until[function] = self._round + (QUIET_ROUNDS if rows == [] else 0)
        return self._lists[function]

    def _read_first(self, function: str) -> list[GpuProcess] | None:
        """Read the list by the newest function that the driver has."""
        for ending in self._endings:
            rows = self._read_list(function + ending)
            if rows is not None:
                return rows
        return None

    def _read_list(self, name: str) -> list[GpuProcess] | None:
        rows = self._rows.read(self._card.calls, name, self._card.handle)
        if rows is None:
            return None
        return [_process(row) for row in rows if row.pid not in (0, NOT_AVAILABLE_32)]


def _process(row: Any) -> GpuProcess:
    return GpuProcess(
        row.pid,
        None if row.usedGpuMemory == NOT_AVAILABLE_64 else row.usedGpuMemory,
        None if row.gpuInstanceId == NOT_AVAILABLE_32 else row.gpuInstanceId,
        None if row.computeInstanceId == NOT_AVAILABLE_32 else row.computeInstanceId,
    )
