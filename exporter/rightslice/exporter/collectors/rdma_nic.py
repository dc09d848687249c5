"""Network interfaces: ethtool's counters, and how pause frames hold each priority."""

from collections.abc import Iterator

from rightslice.contract.nic_metrics import (
    NETDEV_REGISTER_RESETS_TOTAL,
    NIC_COUNTERS,
    PFC_ENABLED,
    PFC_PAUSE_RECEIVED_BOUND_PEAK_RATIO,
    PFC_PAUSE_RECEIVED_MEAN_PEAK_SECONDS,
    PFC_PAUSE_RECEIVED_PEAK_RATIO,
    PFC_PAUSE_TRANSMITTED_BOUND_PEAK_RATIO,
    PFC_PAUSE_TRANSMITTED_MEAN_PEAK_SECONDS,
    PFC_PAUSE_TRANSMITTED_PEAK_RATIO,
    RDMA_NIC_CARRIER,
    RDMA_NIC_CARRIER_CHANGES_TOTAL,
    RDMA_NIC_CARRIER_DOWN_TOTAL,
    RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND,
    RDMA_NIC_NETDEV_RECEIVE_BYTES_TOTAL,
    RDMA_NIC_NETDEV_TRANSMIT_BYTES_TOTAL,
)
from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.net.nic_reader import RECEIVED, TRANSMITTED, NicReader
from rightslice.exporter.host.net.pfc_share import PauseShare
from rightslice.facts.nics import ETHTOOL, nic_metrics

# By direction: the share, its bound where no time is told, the mean length.
SHARES: dict[str, tuple[MetricSpec, MetricSpec, MetricSpec]] = {
    RECEIVED: (
        PFC_PAUSE_RECEIVED_PEAK_RATIO,
        PFC_PAUSE_RECEIVED_BOUND_PEAK_RATIO,
        PFC_PAUSE_RECEIVED_MEAN_PEAK_SECONDS,
    ),
    TRANSMITTED: (
        PFC_PAUSE_TRANSMITTED_PEAK_RATIO,
        PFC_PAUSE_TRANSMITTED_BOUND_PEAK_RATIO,
        PFC_PAUSE_TRANSMITTED_MEAN_PEAK_SECONDS,
    ),
}


def collect(reader: NicReader, covered_seconds: float) -> Iterator[Sample]:
    yield from every_part(_link(reader), _statistics(reader))


def _link(reader: NicReader) -> Iterator[Sample]:
    carrier, bytes_per_second = reader.read_link()
    labels = (reader.id,)
    if carrier.is_there is not None:
        yield Sample(RDMA_NIC_CARRIER, carrier.is_there, labels)
    if carrier.is_there and bytes_per_second is not None:
        yield Sample(RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND, bytes_per_second, labels)
    traffic = reader.read_traffic()
    for spec, total in (
        (RDMA_NIC_CARRIER_DOWN_TOTAL, carrier.loss_count),
        (RDMA_NIC_CARRIER_CHANGES_TOTAL, carrier.change_count),
        (RDMA_NIC_NETDEV_RECEIVE_BYTES_TOTAL, traffic.received_bytes),
        (RDMA_NIC_NETDEV_TRANSMIT_BYTES_TOTAL, traffic.transmitted_bytes),
    ):
        if total is not None:
            yield Sample(spec, total, labels, is_register=True)


def _statistics(reader: NicReader) -> Iterator[Sample]:
    netdev, reading = reader.id, reader.read()
    for row, value in reading.values:
        spec = NIC_COUNTERS[row.metric]
        yield Sample(spec, value, (netdev, *row.labels.values()), is_register=True)
    for priority, is_enabled in reading.enabled.items():
        yield Sample(PFC_ENABLED, is_enabled, (netdev, priority))
    for direction, priority, share in reading.shares:
        yield from _share(SHARES[direction], (netdev, priority), share, reader.netdev.pci_bus_id)
    yield Sample(NETDEV_REGISTER_RESETS_TOTAL, reading.reset_growth, (netdev,))


def _share(
    specs: tuple[MetricSpec, ...], labels: tuple[str, str], share: PauseShare, place: str
) -> Iterator[Sample]:
    """Tell a share. Peaks of another interface that had the name before are not this one's."""
    values = (share.ratio, share.bound_ratio, share.mean_seconds)
    for spec, value in zip(specs, values, strict=True):
        if value is not None:
            yield Sample(spec, value, labels, subject=place)


COLLECTOR = Collector(
    (
        *(NIC_COUNTERS[each.name] for each in nic_metrics() if each.source == ETHTOOL),
        PFC_ENABLED,
        *SHARES[RECEIVED],
        *SHARES[TRANSMITTED],
        NETDEV_REGISTER_RESETS_TOTAL,
        RDMA_NIC_CARRIER,
        RDMA_NIC_CARRIER_CHANGES_TOTAL,
        RDMA_NIC_CARRIER_DOWN_TOTAL,
        RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND,
        RDMA_NIC_NETDEV_RECEIVE_BYTES_TOTAL,
        RDMA_NIC_NETDEV_TRANSMIT_BYTES_TOTAL,
    ),
    devices=lambda host: host.network.nics,
    collect=collect,
)
