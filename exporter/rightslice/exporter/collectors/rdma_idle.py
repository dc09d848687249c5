"""Jobs on several nodes that leave the node's RDMA ports alone, and what may be why."""

from collections.abc import Iterator

from rightslice.contract.nic_metrics import RDMA_IDLE_HINT, RDMA_IDLE_WORKLOAD
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.net.asleep import RdmaSleep


def collect(part: RdmaSleep, covered_seconds: float) -> Iterator[Sample]:
    for verdict in part.refresh():
        labels = verdict.workload.labels
        yield Sample(RDMA_IDLE_WORKLOAD, verdict.is_asleep, labels)
        for hint in verdict.hints:
            yield Sample(RDMA_IDLE_HINT, 1, (*labels, hint))


COLLECTOR = Collector(
    (RDMA_IDLE_WORKLOAD, RDMA_IDLE_HINT),
    devices=lambda host: (host.rdma_sleep,),
    collect=collect,
    every_seconds=30.0,
)
