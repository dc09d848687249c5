"""What the kernel log tells of the health of network cards."""

from collections.abc import Iterator

from rightslice.contract.nic_metrics import RDMA_NIC_KERNEL_EVENTS_TOTAL
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.net.nic_events import NicEvents


def collect(events: NicEvents, covered_seconds: float) -> Iterator[Sample]:
    counts = events.take_new()
    for labels, count in counts.items() if events.is_readable else ():
        yield Sample(RDMA_NIC_KERNEL_EVENTS_TOTAL, count, labels)


COLLECTOR = Collector(
    (RDMA_NIC_KERNEL_EVENTS_TOTAL,), devices=lambda host: (host.nic_events,), collect=collect
)
