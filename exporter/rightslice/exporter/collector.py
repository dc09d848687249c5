"""What a collector is: the metrics it may yield, the devices it reads, the reading itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml import NvmlCard


@dataclass(frozen=True, slots=True)
class Collector:
    """`collect(device, covered_seconds)` reads one device.

    `covered_seconds` is the time since this collector last read this device, as far as one reading
    may stand for it; 0 at the first reading, which covers nothing.
    """

    specs: tuple[MetricSpec, ...]
    devices: Callable[[Host], Iterable[NvmlCard]]
    collect: Callable[[NvmlCard, float], Iterable[Sample]]
