"""GPM: means between two samples that the caller takes; on Hopper and newer."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import pynvml

from rightslice.exporter.simulate import boundary
from rightslice.exporter.simulate.boundary import SUCCESS
from rightslice.exporter.simulate.device import Device
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.slices import GpuInstance, MigDevice

FIRST_SAMPLE = 1 << 61
PERCENT = 100.0


class Source(Protocol):
    """What a sample is taken of: a card, or one GPU instance, whose ratios are its own."""

    @property
    def sm_active_ratio(self) -> Level: ...
    @property
    def busy_ratio(self) -> Level | None: ...
    @property
    def dram_active_ratio(self) -> Level | None: ...
    @property
    def sm_occupancy_ratio(self) -> Level | None: ...


METRICS: dict[int, Callable[[Source], Level | None]] = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: lambda source: source.busy_ratio,
    pynvml.NVML_GPM_METRIC_SM_UTIL: lambda source: source.sm_active_ratio,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: lambda source: source.sm_occupancy_ratio,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: lambda source: source.dram_active_ratio,
}


@dataclass(frozen=True, slots=True)
class Taken:
    """A sample as taken: of what, and when."""

    source: Source
    owner: Device | GpuInstance
    at_seconds: float


class GpmSamples:
    """The samples that callers hold; an allocated one is empty at first."""

    def __init__(self) -> None:
        self._samples: dict[int, Taken | None] = {}
        self._numbers = count(FIRST_SAMPLE)

    def on_cards(self) -> dict[str, boundary.Function]:
        return {
            "nvmlGpmQueryDeviceSupport": _support,
            "nvmlGpmSampleGet": self._take_of_card,
            "nvmlGpmMigSampleGet": self._take_of_instance,
        }

    def on_mig_devices(self) -> dict[str, boundary.Function]:
        return {
            "nvmlGpmQueryDeviceSupport": _support,
            "nvmlGpmSampleGet": lambda mig, sample: self._take(mig.gpu_instance, sample),
        }

    def plain(self) -> dict[str, boundary.Function]:
        return {
            "nvmlGpmSampleAlloc": self._allocate,
            "nvmlGpmSampleFree": self._free,
            "nvmlGpmMetricsGet": self._metrics,
        }

    def clear(self) -> None:
        self._samples = {}

    def _allocate(self, reference: Any) -> int:
        number = next(self._numbers)
        self._samples[number] = None
        boundary.write_handle(reference, number)
        return SUCCESS

    def _free(self, sample: Any) -> int:
        number = boundary.address(sample)
        if number not in self._samples:
            return boundary.INVALID_ARGUMENT
        del self._samples[number]
        return SUCCESS

    def _take_of_card(self, device: Device, sample: Any) -> int:
        if device.mig.enabled:  # per GPU instance then
            return boundary.NOT_SUPPORTED
        return self._take(device, sample)

    def _take_of_instance(self, device: Device, instance_id: Any, sample: Any) -> int:
        wanted = boundary.number(instance_id)
        for instance in device.gpu_instances:
            if instance.id == wanted:
                return self._take(instance, sample)
        return boundary.NOT_FOUND

    def _take(self, owner: Device | GpuInstance, sample: Any) -> int:
        device, number = owner.device, boundary.address(sample)
        if not device.has_gpm:
            return boundary.NOT_SUPPORTED
        if number not in self._samples:
            return boundary.INVALID_ARGUMENT
        source: Source = owner.said if isinstance(owner, GpuInstance) else owner.card
        self._samples[number] = Taken(source, owner, device.now_seconds())
        return SUCCESS

    def _metrics(self, reference: Any) -> int:
        request = boundary.target(reference)
        if request.version != pynvml.NVML_GPM_METRICS_GET_VERSION:
            return boundary.ARGUMENT_VERSION_MISMATCH
        first = self._samples.get(boundary.address(request.sample1))
        second = self._samples.get(boundary.address(request.sample2))
        if first is None or second is None or first.owner is not second.owner:
            return boundary.INVALID_ARGUMENT
        for position in range(request.numMetrics):
            _fill(request.metrics[position], first, second)
        return SUCCESS


def _fill(metric: Any, first: Taken, second: Taken) -> None:
    if metric.metricId == pynvml.NVML_GPM_METRIC_GR0_CTXSW_REQUESTS:
        _count_switches(metric, first, second)
        return
    level_of = METRICS.get(metric.metricId)
    level = level_of(second.source) if level_of is not None else None
    if level is None:
        metric.nvmlReturn = boundary.NOT_SUPPORTED
    elif second.at_seconds <= first.at_seconds:
        metric.nvmlReturn = boundary.NO_DATA
    else:
        metric.nvmlReturn = SUCCESS
        metric.value = PERCENT * level.mean(first.at_seconds, second.at_seconds)


def _count_switches(metric: Any, first: Taken, second: Taken) -> None:
    """Count the switches between two samples of a whole card; instances have no count."""
    is_card = isinstance(second.owner, Device)
    level = second.owner.device.card.context_switches_per_second if is_card else None
    metric.nvmlReturn = boundary.NOT_SUPPORTED if level is None else SUCCESS
    if level is not None:
        metric.value = level.total(first.at_seconds, second.at_seconds)


def _support(found: Device | MigDevice, reference: Any) -> int:
    boundary.target(reference).isSupportedDevice = int(found.device.has_gpm)
    return SUCCESS
