"""Runs one collector on one device, and keeps its failure to itself."""

from dataclasses import dataclass

from rightslice.contract.spec import Sample
from rightslice.exporter.collector import AnyCollector, Device
from rightslice.exporter.host.nvml.errors import NvmlError, Reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave: samples, or the reason why there are none."""

    samples: tuple[Sample, ...]
    reason: Reason | None = None
    error: Exception | None = None


def run(collector: AnyCollector, device: Device, covered_seconds: float) -> Outcome:
    """Collect from one device. The only place in the exporter that catches everything."""
    try:
        return Outcome(tuple(collector.collect(device, covered_seconds)))
    except NvmlError as error:
        return Outcome((), error.reason, error)
    except Exception as error:
        return Outcome((), Reason.UNKNOWN, error)
