"""Runs one collector on one device, and keeps its failure to itself."""

from dataclasses import dataclass

from rightslice.contract.spec import Sample
from rightslice.exporter.collector import AnyCollector, Device
from rightslice.exporter.host.nvml.errors import DOWN_REASONS, Reason
from rightslice.exporter.host.reading_error import ReadingError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave: samples, and the reason why some or all of them are missing."""

    samples: tuple[Sample, ...]
    reason: str | None = None
    error: Exception | None = None


def run(collector: AnyCollector, device: Device, covered_seconds: float) -> Outcome:
    """Collect from one device. The only place in the exporter that catches everything.

    What was read before a failure is kept, unless the device itself is gone.
    """
    samples: list[Sample] = []
    try:
        for sample in collector.collect(device, covered_seconds):
            samples.append(sample)  # one by one: what comes before a failure must not be lost
    except ReadingError as error:
        kept = () if error.reason in DOWN_REASONS else tuple(samples)
        return Outcome(kept, error.reason, error)
    except Exception as error:
        return Outcome(tuple(samples), Reason.UNKNOWN, error)
    return Outcome(tuple(samples))
