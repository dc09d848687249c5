"""Xid errors of each card: how many of each number, and when the last one was."""

import logging
from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_XID_ERRORS_TOTAL,
    GPU_XID_LAST_TIMESTAMP_SECONDS,
    XID_SOURCE_AVAILABLE,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.xid_source import XidSource

log = logging.getLogger(__name__)

# Told as 0 from the start, so that the first one is seen as a rise: errors of the hardware, which
# call for a reset or a repair (NVIDIA, Xid Errors). The others are mostly an application's own.
HARDWARE_XIDS = (48, 63, 64, 74, 79, 94, 95, 119, 120)


def collect(xids: XidSource, covered_seconds: float) -> Iterator[Sample]:
    for uuid in xids.new_cards():
        for xid in HARDWARE_XIDS:
            yield Sample(GPU_XID_ERRORS_TOTAL, 0, (uuid, str(xid)))
    for event in xids.read_new():
        labels = (event.uuid, str(event.xid))
        if event.is_new:
            log.warning("Xid %d on card %s", event.xid, event.uuid or "unknown")
        yield Sample(GPU_XID_ERRORS_TOTAL, event.is_new, labels)
    for (uuid, xid), seconds in xids.last_seconds.items():
        yield Sample(GPU_XID_LAST_TIMESTAMP_SECONDS, seconds, (uuid, str(xid)))
    is_readable = xids.log_unavailable_reason is None
    yield Sample(XID_SOURCE_AVAILABLE, is_readable, ("kmsg",))


COLLECTOR = Collector(
    (GPU_XID_ERRORS_TOTAL, GPU_XID_LAST_TIMESTAMP_SECONDS, XID_SOURCE_AVAILABLE),
    devices=lambda host: (host.xids,),
    collect=collect,
)
