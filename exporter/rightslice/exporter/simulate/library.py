"""A simulated NVML: plain functions with the C library's names and arguments.

It stands where `ctypes.CDLL` would, so that all of pynvml above it runs as on a real node.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard

# The driver's utilisation ring: one sample per second (products differ, 1/6 s to 1 s).
SAMPLE_PERIOD_US = 1_000_000
RING_SAMPLE_COUNT = 20
FIRST_HANDLE = 0x1000
FIRST_PROCESS_ID = 4242
MICROSECONDS_PER_SECOND = 1_000_000

Function = Callable[..., int]


def _target(reference: Any) -> Any:
    """Give the ctypes object that a `byref` argument points to."""
    return reference._obj


class SimulatedLibrary:
    """The NVML functions that a scenario answers; any other name is missing, as in an old driver.

    `now_seconds` is the node's wall time.
    """

    def __init__(self, scenario: Scenario, now_seconds: Callable[[], float]) -> None:
        self._scenario = scenario
        self._now_seconds = now_seconds
        self.call_count = 0
        for name in dir(self):
            if name.startswith("nvmlDevice") and "Handle" not in name and "Count" not in name:
                setattr(self, name, self._for_card(name, getattr(self, name)))

    def _for_card(self, name: str, function: Function) -> Function:
        """Look the handle's card up, and let its faults answer first."""
        cards = self._scenario.cards

        def call(handle: Any, *arguments: Any) -> int:
            self.call_count += 1
            index = (ctypes.cast(handle, ctypes.c_void_p).value or 0) - FIRST_HANDLE
            if not 0 <= index < len(cards):
                return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            fault = cards[index].faults.get(name)
            return fault if fault is not None else function(cards[index], *arguments)

        return call

    def nvmlInitWithFlags(self, flags: Any) -> int:
        return int(pynvml.NVML_SUCCESS)

    def nvmlShutdown(self) -> int:
        return int(pynvml.NVML_SUCCESS)

    def nvmlSystemGetDriverVersion(self, buffer: Any, length: Any) -> int:
        buffer.value = self._scenario.driver_version.encode()
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        _target(count).value = len(self._scenario.cards)
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        if index.value >= len(self._scenario.cards):
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        ctypes.c_void_p.from_buffer(_target(device)).value = FIRST_HANDLE + index.value
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetUUID(self, card: SimulatedCard, buffer: Any, length: Any) -> int:
        buffer.value = card.uuid.encode()
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetName(self, card: SimulatedCard, buffer: Any, length: Any) -> int:
        buffer.value = card.name.encode()
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetPciInfo_v3(self, card: SimulatedCard, info: Any) -> int:
        bus = 0x07 + self._scenario.cards.index(card)
        _target(info).busId = f"00000000:{bus:02X}:00.0".encode()
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetMigMode(self, card: SimulatedCard, current: Any, pending: Any) -> int:
        _target(current).value = _target(pending).value = 0
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetVirtualizationMode(self, card: SimulatedCard, mode: Any) -> int:
        _target(mode).value = 0
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetMemoryInfo_v2(self, card: SimulatedCard, memory: Any) -> int:
        reading = _target(memory)
        reading.total = card.memory_total_bytes
        reading.reserved = card.memory_reserved_bytes
        reading.used = int(card.memory_used_bytes.at(self._now_seconds()))
        reading.free = reading.total - reading.reserved - reading.used
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetMemoryInfo(self, card: SimulatedCard, memory: Any) -> int:
        reading = _target(memory)
        reading.total = card.memory_total_bytes
        used_bytes = int(card.memory_used_bytes.at(self._now_seconds()))
        reading.used = used_bytes + card.memory_reserved_bytes
        reading.free = reading.total - reading.used
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetUtilizationRates(self, card: SimulatedCard, rates: Any) -> int:
        reading = _target(rates)
        reading.gpu = round(100 * card.busy_ratio.at(self._now_seconds()))
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetSamples(
        self,
        card: SimulatedCard,
        kind: Any,
        since_us: Any,
        value_type: Any,
        count: Any,
        samples: Any,
    ) -> int:
        if kind.value != pynvml.NVML_GPU_UTILIZATION_SAMPLES:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        _target(value_type).value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        newest = int(self._now_seconds() * MICROSECONDS_PER_SECOND) // SAMPLE_PERIOD_US
        oldest = max(newest - RING_SAMPLE_COUNT, since_us.value // SAMPLE_PERIOD_US)
        if newest <= oldest:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        if samples is None:
            _target(count).value = RING_SAMPLE_COUNT
            return int(pynvml.NVML_SUCCESS)
        for slot, step in enumerate(range(oldest + 1, newest + 1)):
            sample = samples[slot]
            sample.timeStamp = step * SAMPLE_PERIOD_US
            busy_ratio = card.busy_ratio.at(step * SAMPLE_PERIOD_US / MICROSECONDS_PER_SECOND)
            sample.sampleValue.uiVal = round(100 * busy_ratio)
        _target(count).value = newest - oldest
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetComputeRunningProcesses_v3(
        self, card: SimulatedCard, count: Any, processes: Any
    ) -> int:
        if not card.process_count:
            _target(count).value = 0
            return int(pynvml.NVML_SUCCESS)
        if processes is None:
            _target(count).value = card.process_count
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        used_bytes = int(card.memory_used_bytes.at(self._now_seconds()))
        for slot in range(card.process_count):
            processes[slot].pid = FIRST_PROCESS_ID + slot
            processes[slot].usedGpuMemory = used_bytes // card.process_count
        _target(count).value = card.process_count
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetGraphicsRunningProcesses_v3(
        self, card: SimulatedCard, count: Any, processes: Any
    ) -> int:
        _target(count).value = 0
        return int(pynvml.NVML_SUCCESS)


@contextmanager
def installed(scenario: Scenario, now_seconds: Callable[[], float]) -> Iterator[SimulatedLibrary]:
    """Put a simulated library under pynvml for the length of the block."""
    library = SimulatedLibrary(scenario, now_seconds)
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
