"""Ports as jobs could use them."""

from pathlib import Path

from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.net.devices import INFINIBAND, RdmaDevice, RdmaPort
from rightslice.exporter.host.net.port_now import PortNow, ports_of
from rightslice.exporter.host.net.port_state import PortState
from rightslice.exporter.host.net.rdma_reader import RdmaReader

UP, DOWN, UNREADABLE = PortState(4, 5, 1.0), PortState(1, 3, None), PortState(None, None, None)


def reader(name: str, driver: str = "mlx5_core", *states: PortState) -> RdmaReader:
    """Give a reader that has read these states, by port from 1 on."""
    ports = tuple(RdmaPort(number, INFINIBAND, "infiniband", ()) for number in range(1, 4))
    device = RdmaDevice(name, driver, "0000:01:00.0", False, "", "", ports)
    made = RdmaReader(Path("/nonexistent"), device, real_clock())
    made.states = dict(enumerate(states, 1))
    return made


def test_ports_are_told_with_whether_they_are_active() -> None:
    assert ports_of([reader("mlx5_0", "mlx5_core", UP, DOWN)]) == [
        PortNow("mlx5_0", 1, is_up=True),
        PortNow("mlx5_0", 2, is_up=False),
    ]


def test_a_port_of_which_nothing_is_known_is_none() -> None:
    assert ports_of([reader("mlx5_0", "mlx5_core", UNREADABLE)]) == []


def test_a_fabric_that_is_used_without_queue_pairs_does_not_count() -> None:
    assert ports_of([reader("hfi1_0", "hfi1", UP)]) == []
