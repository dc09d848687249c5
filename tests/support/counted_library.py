"""Counts NVML calls where they leave Python, whoever makes them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.library import SimulatedLibrary

Function = Callable[..., int]


class CountedLibrary:
    """Hands calls on to a library, or to `others` for what that lacks; used from many threads."""

    def __init__(self, library: SimulatedLibrary, others: Mapping[str, Function]) -> None:
        self._library = library
        self._others = others
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._cpu_seconds = 0.0

    def __getattr__(self, name: str) -> Function:
        # Not found in either: an AttributeError, as from a C library.
        function = self._others.get(name) or getattr(self._library, name)

        def call(*arguments: Any) -> int:
            started_seconds = time.thread_time()
            code: int = function(*arguments)
            took_seconds = time.thread_time() - started_seconds
            with self._lock:
                self._counts[name] += 1
                self._cpu_seconds += took_seconds
            return code

        return call

    def totals(self) -> tuple[Counter[str], float]:
        """Give the calls so far by function, and the CPU seconds spent below the boundary."""
        with self._lock:
            return self._counts.copy(), self._cpu_seconds


@contextmanager
def counted(
    library: SimulatedLibrary, others: Mapping[str, Function] | None = None
) -> Iterator[CountedLibrary]:
    """Put a counter between pynvml and the library installed under it, for the block."""
    counter = CountedLibrary(library, others or {})
    pynvml.nvmlLib = counter
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield counter
    finally:
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()


def functions_of_others(process_ids: tuple[int, ...]) -> dict[str, Function]:
    """Answer what other exporters ask of a card and our simulation has no need of."""

    def constant(value: int) -> Function:
        def answer(*arguments: Any) -> int:
            return boundary.store(arguments[-1], value)

        return answer

    def codec_use(_: Any, percent: Any, period_us: Any) -> int:
        boundary.target(period_us).value = 167_000
        return boundary.store(percent, 0)

    def process_use(_: Any, samples: Any, count: Any, since_us: Any) -> int:
        refusal = boundary.told_size(count, samples, len(process_ids))
        if refusal is not None:
            return refusal
        for slot, process_id in enumerate(process_ids):
            samples[slot].pid, samples[slot].smUtil = process_id, 20
            samples[slot].timeStamp = boundary.number(since_us) + 1
        return boundary.SUCCESS

    return {
        "nvmlSystemGetCudaDriverVersion": constant(13000),
        "nvmlDeviceGetClockInfo": constant(1410),
        "nvmlDeviceGetPowerManagementLimit": constant(700_000),
        "nvmlDeviceGetPcieThroughput": constant(300_000),
        "nvmlDeviceGetFanSpeed": lambda *_: boundary.NOT_SUPPORTED,  # boards without fans
        "nvmlDeviceGetEncoderUtilization": codec_use,
        "nvmlDeviceGetDecoderUtilization": codec_use,
        "nvmlDeviceGetProcessUtilization": process_use,
    }
