"""The node that is checked: its network devices, and its cards by their places on the PCI bus."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rightslice.exporter.check.kernel import Kernel
from rightslice.exporter.host.net.devices import (
    ETHERNET,
    RdmaDevice,
    RdmaPort,
    class_of,
    find_rdma_devices,
)
from rightslice.exporter.host.net.netdevs import Netdev, find_netdevs
from rightslice.exporter.host.net.pci_function import FUNCTION
from rightslice.exporter.host.net.port_state import PortState, read_port_state
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.host.pci import card_bus_ids


@dataclass(frozen=True, slots=True)
class Node:
    """What checks look at. `cards` are NVIDIA's, but for those of virtual machines."""

    sysfs: Path
    procfs: Path
    rdma: tuple[RdmaDevice, ...]
    netdevs: dict[str, Netdev]
    cards: tuple[str, ...]
    kernel: Kernel

    @property
    def nics(self) -> tuple[RdmaDevice, ...]:
        """Give the devices that are whole PCI functions: no virtual ones, none of software."""
        return tuple(
            device
            for device in self.rdma
            if FUNCTION.fullmatch(device.pci_bus_id) and not device.is_virtual
        )

    def asking_anew(self) -> "Node":
        """Give the same node, whose kernel is asked without what others are in the midst of."""
        anew = self.kernel.anew
        return self if anew is None else replace(self, kernel=anew())

    def pci(self, bus_id: str) -> Path:
        """Give the folder of a PCI function, where it hangs below its bridges."""
        return Path(os.path.realpath(self.sysfs / "bus/pci/devices" / bus_id))

    def port_state(self, device: RdmaDevice, port: RdmaPort) -> PortState:
        return read_port_state(self.port_folder(device, port))

    def port_folder(self, device: RdmaDevice, port: RdmaPort) -> Path:
        return class_of(self.sysfs) / device.name / "ports" / str(port.number)

    def ports(self) -> Iterator[tuple[RdmaDevice, RdmaPort]]:
        """Give the ports of whole PCI functions."""
        for device in self.nics:
            for port in device.ports:
                yield device, port

    def roce_netdevs(self) -> Iterator[tuple[RdmaDevice, RdmaPort, str]]:
        """Give the Ethernet interfaces of those ports."""
        for device, port in self.ports():
            for netdev in port.netdevs if port.link_layer == ETHERNET else ():
                yield device, port, netdev


def look_at(paths: Paths, kernel: Kernel, excluded: Sequence[str] = ()) -> Node:
    """List what the node has. Of RDMA devices that a pattern excludes, no file is read."""
    return Node(
        sysfs=paths.sysfs,
        procfs=paths.procfs,
        rdma=find_rdma_devices(paths.sysfs, excluded),
        netdevs={netdev.name: netdev for netdev in find_netdevs(paths.sysfs)},
        cards=_cards(paths.sysfs),
        kernel=kernel,
    )


def slot_of(bus_id: str) -> str:
    """Give the place that the functions of one piece of hardware share."""
    return bus_id.rpartition(".")[0]


def port_name(device: RdmaDevice, port: RdmaPort) -> str:
    """Name a port as rdma(8) does; its number matters only beside others."""
    return device.name if len(device.ports) == 1 else f"{device.name}/{port.number}"


def _cards(sysfs: Path) -> tuple[str, ...]:
    try:
        return tuple(card_bus_ids(sysfs))
    except OSError:
        return ()
