"""Runs one collector on one device, and keeps its failure to itself."""

import logging
from dataclasses import dataclass

from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml import NvmlCard, NvmlError, Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave: samples, or the reason why there are none."""

    samples: tuple[Sample, ...]
    reason: Reason | None = None


def run(name: str, collector: Collector, device: NvmlCard, covered_seconds: float) -> Outcome:
    """Collect from one device. The only place in the exporter that catches everything."""
    try:
        return Outcome(tuple(collector.collect(device, covered_seconds)))
    except NvmlError as error:
        log.warning("%s on %s: %s", name, device.id, error)
        return Outcome((), error.reason)
    except Exception:
        log.exception("%s on %s failed", name, device.id)
        return Outcome((), Reason.UNKNOWN)
