"""RDMA devices: what each port is, how it stands, and its counters."""

from collections.abc import Iterator

from rightslice.contract.nic_metrics import (
    NIC_COUNTERS,
    RDMA_PORT_INFO,
    RDMA_PORT_NETDEV_INFO,
    RDMA_PORT_PHYSICAL_STATE,
    RDMA_PORT_RATE_BYTES_PER_SECOND,
    RDMA_PORT_STATE,
    RDMA_PORT_UP,
    RDMA_REGISTER_RESETS_TOTAL,
    RDMA_REGISTER_SATURATED,
    RDMA_UNREADABLE_REGISTERS,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.net.devices import RdmaDevice, RdmaPort
from rightslice.exporter.host.net.port_state import PortState
from rightslice.exporter.host.net.rdma_reader import PortReading, RdmaReader
from rightslice.facts.nics import ETHTOOL, nic_metrics


def collect(reader: RdmaReader, covered_seconds: float) -> Iterator[Sample]:
    for reading in reader.read():
        labels = (reader.id, reading.number)
        if reading.port is not None:
            yield from _info(reader.device, reading.port)
        if reading.state is not None:
            yield from _state(reading.state, labels)
        yield from _counters(reading, labels)


def _info(device: RdmaDevice, port: RdmaPort) -> Iterator[Sample]:
    labels = (device.name, str(port.number))
    yield Sample(
        RDMA_PORT_INFO,
        1,
        (
            *labels,
            device.driver,
            port.link_layer,
            port.protocol,
            device.firmware,
            device.model,
            device.pci_bus_id,
            device.function,
        ),
    )
    for netdev in port.netdevs:
        yield Sample(RDMA_PORT_NETDEV_INFO, 1, (*labels, netdev))


def _state(state: PortState, labels: tuple[str, str]) -> Iterator[Sample]:
    if state.logical is not None:
        yield Sample(RDMA_PORT_UP, state.is_up, labels)
        yield Sample(RDMA_PORT_STATE, state.logical, labels)
    if state.physical is not None:
        yield Sample(RDMA_PORT_PHYSICAL_STATE, state.physical, labels)
    if state.rate_bytes_per_second is not None:
        yield Sample(RDMA_PORT_RATE_BYTES_PER_SECOND, state.rate_bytes_per_second, labels)


def _counters(reading: PortReading, labels: tuple[str, str]) -> Iterator[Sample]:
    for row, value in reading.values:
        spec = NIC_COUNTERS[row.metric]
        yield Sample(spec, value, (*labels, *row.labels.values()), is_register=True)
    for metric in reading.saturated:
        yield Sample(RDMA_REGISTER_SATURATED, 1, (*labels, metric))
    if reading.unreadable_count is not None:
        yield Sample(RDMA_UNREADABLE_REGISTERS, reading.unreadable_count, labels)
        yield Sample(RDMA_REGISTER_RESETS_TOTAL, reading.reset_growth, labels)


COLLECTOR = Collector(
    (
        RDMA_PORT_INFO,
        RDMA_PORT_NETDEV_INFO,
        RDMA_PORT_UP,
        RDMA_PORT_STATE,
        RDMA_PORT_PHYSICAL_STATE,
        RDMA_PORT_RATE_BYTES_PER_SECOND,
        RDMA_UNREADABLE_REGISTERS,
        RDMA_REGISTER_SATURATED,
        RDMA_REGISTER_RESETS_TOTAL,
        *(NIC_COUNTERS[each.name] for each in nic_metrics() if each.source != ETHTOOL),
    ),
    devices=lambda host: host.network.rdma,
    collect=collect,
)
