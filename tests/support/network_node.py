"""A node of a test's own with RDMA devices and interfaces, below the exporter's real readers."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.net.ethtool_messages import DRIVER, GDRVINFO
from rightslice.exporter.host.net.ethtool_socket import (
    INTERFACE_REQUEST,
    EthtoolCalls,
    EthtoolSocket,
)
from rightslice.exporter.host.net.network_calls import NetworkCalls
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import SimulatedCard
from rightslice.facts.nics import (
    ETHTOOL,
    HARDWARE_FILE,
    PORT_FILE,
    CounterRow,
    NicDriver,
    find_nic_driver,
)
from support.ethtool_kernel import EthtoolKernel, Set
from support.simulated import START_SECONDS, SimulatedNode, simulated_scenario
from support.sysfs_tree import SysfsTree, write

NETWORK_COLLECTORS = ("network", "rdma", "rdma_nic")
PORT_FOLDERS = {PORT_FILE: "counters", HARDWARE_FILE: "hw_counters"}


@dataclass
class EthtoolKernels:
    """The interfaces that the kernel knows, each with its own answers."""

    by_name: dict[str, EthtoolKernel] = field(default_factory=dict)

    def ioctl(self, descriptor: int, request: int, interface_request: bytes) -> None:
        name, _ = INTERFACE_REQUEST.unpack(interface_request)
        kernel = self.by_name.get(name.rstrip(b"\0").decode())
        if kernel is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        kernel.ioctl(descriptor, request, interface_request)


def kernel_of(statistics: Set, driver: str = "mlx5_core", bus: str = "") -> EthtoolKernel:
    """Answer for one interface."""
    info = DRIVER.pack(GDRVINFO, driver.encode(), b"", b"", bus.encode())
    return EthtoolKernel(statistics, replies={GDRVINFO: info})


def driver_of(module: str) -> NicDriver:
    driver = find_nic_driver(module)
    assert driver is not None, module
    return driver


def own_names(driver: NicDriver, source: str) -> dict[str, CounterRow]:
    """Give the rows of one source by their first names, without their aliases."""
    return {row.name: row for row in driver.rows[source].values()}


def write_counters(
    port: Path, driver: NicDriver, value_of: Callable[[CounterRow], int] = lambda _: 7
) -> None:
    """Write all files of counters that a driver may have for a port."""
    for source, folder in PORT_FOLDERS.items():
        rows = own_names(driver, source)
        if rows:
            write(port / folder, {name: str(value_of(row)) for name, row in rows.items()})


def all_statistics(
    driver: NicDriver, value_of: Callable[[CounterRow], int] = lambda _: 7
) -> list[tuple[bytes, int]]:
    """Give all ethtool statistics that a driver may have."""
    rows = own_names(driver, ETHTOOL)
    return [(name.encode(), value_of(row)) for name, row in rows.items()]


def add_interface(
    tree: SysfsTree,
    name: str,
    module: str,
    bus_id: str,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write a network interface without an RDMA device."""
    tree.add_netdev(name, tree.add_function(bus_id, driver=module), files)


@contextmanager
def network_node(
    tree: SysfsTree,
    kernels: Mapping[str, EthtoolKernel] | None = None,
    *cards: SimulatedCard,
    enabled: Mapping[str, Mapping[str, bool]] | None = None,
    calls: EthtoolCalls | None = None,
) -> Iterator[SimulatedNode]:
    """Start a node over a tree. `enabled` is what the kernel's DCB says of interfaces.

    `calls` answer instead of `kernels`.
    """
    clock = ManualClock(START_SECONDS)
    calls = calls or EthtoolSocket(EthtoolKernels(dict(kernels or {})).ioctl)
    with installed(simulated_scenario(*cards), clock.now_seconds) as library:
        host = Host("node-a", tree.paths, clock.clock(), network_calls=NetworkCalls(calls))
        host.network.enabled_by_kernel = dict(enabled or {}).get
        try:
            yield SimulatedNode(clock, library, host)
        finally:
            calls.close()


def sampled(node: SimulatedNode, rounds: int = 2) -> Sampler:
    """Sample a node with the network's collectors: in the second round all devices are known."""
    sampler = node.sampler(NETWORK_COLLECTORS)
    node.sample_rounds(sampler, rounds)
    return sampler
