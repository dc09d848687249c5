"""The network as a whole: what there is, whether pauses are seen, what hangs where."""

from collections.abc import Iterator

from rightslice.contract.nic_metrics import (
    GPU_NEAREST_RDMA_DEVICE_INFO,
    RDMA_PFC_OBSERVABLE,
    RDMA_PORT_TOPOLOGY_INFO,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.net.network import Network


def collect(network: Network, covered_seconds: float) -> Iterator[Sample]:
    network.refresh()
    for device, port, sight in network.sights():
        labels = (device, str(port.number), sight.reason)
        yield Sample(RDMA_PFC_OBSERVABLE, sight.is_seen, labels)
    for device, port, place in network.places():
        words = (place.rail or "", place.switch or "", place.switch_port or "")
        yield Sample(RDMA_PORT_TOPOLOGY_INFO, 1, (device, str(port.number), *words))
    for uuid, device, distance in network.nearest():
        yield Sample(GPU_NEAREST_RDMA_DEVICE_INFO, 1, (uuid, device, distance))


COLLECTOR = Collector(
    (RDMA_PFC_OBSERVABLE, RDMA_PORT_TOPOLOGY_INFO, GPU_NEAREST_RDMA_DEVICE_INFO),
    devices=lambda host: (host.network,),
    collect=collect,
)
