"""Takes in what the driver reports of itself; the collector `xid` counts it.

On its own, because this call goes to the driver, and a driver that hangs writes why into the kernel
log, which must be read then above all.
"""

from collections.abc import Iterator

from rightslice.contract.metrics import XID_SOURCE_AVAILABLE
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.xid_source import DriverEvents


def collect(events: DriverEvents, covered_seconds: float) -> Iterator[Sample]:
    yield Sample(XID_SOURCE_AVAILABLE, events.poll() is not None, ("nvml",))


COLLECTOR = Collector(
    (XID_SOURCE_AVAILABLE,), devices=lambda host: (host.driver_events,), collect=collect
)
