"""Activity of the multiprocessors, from NVML's GPU performance monitoring (Hopper and later)."""

from ctypes import byref, c_uint
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, Calls, call

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

METRICS = {
    "sm_active": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "dram_active": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}


# What is counted between two samples, whole engines only: context switches of the compute engine.
COUNTS = {"context_switches": pynvml.NVML_GPM_METRIC_GR0_CTXSW_REQUESTS}


class GpmReader:
    """Reads means over the time between two readings, of the card or of one GPU instance.

    Two samples are kept per subject and change places; the driver wants at least 100 ms between
    them, which the sampling interval keeps.
    """

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._pairs: dict[int | None, SamplePair] = {}
        self._is_supported: bool | None = None
        self._generation = card.calls.generation

    def read(self, gpu_instance_id: int | None = None) -> dict[str, float] | None:
        """Give percentages since the last reading of this subject, by the names of METRICS.

        None where the card has no such monitoring; empty at the first reading.
        """
        if not self._supported():
            return None
        pair = self._pairs.get(gpu_instance_id)
        if pair is None:
            pair = self._pairs[gpu_instance_id] = SamplePair(
                # What an instance that is gone answers says nothing about the card.
                self._card.calls if gpu_instance_id is None else Calls()
            )
        return pair.advance(self._card.handle, gpu_instance_id)

    def counts(self, gpu_instance_id: int | None = None) -> dict[str, float]:
        """Give what the last reading of this subject counted, by the names of COUNTS."""
        pair = self._pairs.get(gpu_instance_id)
        return pair.counts if pair is not None else {}

    def forget(self, gpu_instance_id: int | None) -> None:
        """Drop a subject's samples: what has this id now is another instance."""
        pair = self._pairs.pop(gpu_instance_id, None)
        if pair is not None:
            pair.free()

    def close(self) -> None:
        """Give all samples back to the library."""
        for gpu_instance_id in list(self._pairs):
            self.forget(gpu_instance_id)

    def _supported(self) -> bool:
        if self._generation != self._card.calls.generation:  # what is lacking is asked for anew
            self._generation = self._card.calls.generation
            self._is_supported = self._is_supported or None
        if self._is_supported is None:
            support = pynvml.c_nvmlGpmSupport_t()
            support.version = pynvml.NVML_GPM_SUPPORT_VERSION
            answer = self._card.calls.ask(
                "nvmlGpmQueryDeviceSupport", self._card.handle, byref(support)
            )
            self._is_supported = answer is Answer.VALUE and bool(support.isSupportedDevice)
        return self._is_supported


class SamplePair:
    """The last sample of one subject, and room for the next."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._older: Any = None
        self._newer: Any = None
        self.counts: dict[str, float] = {}

    def advance(self, handle: Any, gpu_instance_id: int | None) -> dict[str, float] | None:
        """Take a sample; give the means since the one before, None where it cannot be taken."""
        # Kept before the call that may fail: a sample that nobody holds is never freed.
        target = self._older = self._older if self._older is not None else self._allocate()
        if gpu_instance_id is None:
            answer = self._calls.ask("nvmlGpmSampleGet", handle, target)
        else:
            answer = self._calls.ask("nvmlGpmMigSampleGet", handle, c_uint(gpu_instance_id), target)
        if answer is not Answer.VALUE:
            return None
        self._older, self._newer = self._newer, target
        self.counts = {}
        return self._means() if self._older is not None else {}

    def _allocate(self) -> Any:
        sample = pynvml.c_nvmlGpmSample_t()
        self._calls.ask("nvmlGpmSampleAlloc", byref(sample))
        return sample

    def _means(self) -> dict[str, float]:
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        names = {**METRICS, **COUNTS}
        request.numMetrics = len(names)
        request.sample1, request.sample2 = self._older, self._newer
        for slot, metric_id in enumerate(names.values()):
            request.metrics[slot].metricId = metric_id
        if self._calls.ask("nvmlGpmMetricsGet", byref(request)) is not Answer.VALUE:
            return {}
        told = {
            name: metric.value
            for name, metric in zip(names, request.metrics, strict=False)
            if metric.nvmlReturn == SUCCESS
        }
        self.counts = {name: told.pop(name) for name in COUNTS if name in told}
        return told

    def free(self) -> None:
        """Give the samples back to the library; one that it does not know any more is gone."""
        for sample in (self._older, self._newer):
            if sample is not None:
                call("nvmlGpmSampleFree", sample)
        self._older = self._newer = None
