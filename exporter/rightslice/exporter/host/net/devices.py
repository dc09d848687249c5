"""The RDMA devices of the node, their ports, and the interfaces that belong to each."""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rightslice.exporter.host.net.netdevs import (
    REPRESENTOR,
    class_folder,
    is_virtual_function,
    members_of,
)
from rightslice.exporter.host.net.sysfs import link_name, names_in, read_text, read_whole

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
# The kernel's number for a node that speaks iWARP, before the colon in `node_type`.
RNIC = "4"
EFA_DRIVER = "efa"
HEX = re.compile(r"0x([0-9a-f]{1,4})")
# A port has up to some hundred slots for addresses; those in use come first.
SLOTS_READ = 16


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port. `netdevs` are the interfaces with hardware of its own: of a bond each member."""

    number: int
    link_layer: str
    protocol: str
    netdevs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """A device as sysfs shows it. What cannot be read is empty.

    `driver` is the kernel module's name, by the PCI function below.
    """

    name: str
    driver: str
    pci_bus_id: str
    is_virtual: bool
    firmware: str
    model: str
    ports: tuple[RdmaPort, ...]


def class_of(sysfs: Path) -> Path:
    return sysfs / "class/infiniband"


def find_rdma_devices(sysfs: Path, excluded: Collection[str] = ()) -> tuple[RdmaDevice, ...]:
    """List the devices, in order. Of those that a pattern excludes no file is read.

    A node without the folder has no RDMA driver loaded, and no devices.
    """
    folder = class_of(sysfs)
    names = [
        name
        for name in names_in(folder)
        if not any(fnmatchcase(name, pattern) for pattern in excluded)
    ]
    return tuple(_device(sysfs, folder / name) for name in names)


def _device(sysfs: Path, folder: Path) -> RdmaDevice:
    place = folder / "device"
    driver = link_name(place / "driver") or ""
    return RdmaDevice(
        name=folder.name,
        driver=driver,
        pci_bus_id=os.path.basename(os.path.realpath(place)) if place.exists() else "",
        is_virtual=is_virtual_function(place),
        firmware=read_text(folder / "fw_ver") or "",
        model=read_text(folder / "hca_type") or "",
        ports=tuple(_ports(sysfs, folder, driver)),
    )


def _ports(sysfs: Path, folder: Path, driver: str) -> Iterator[RdmaPort]:
    is_rnic = (read_text(folder / "node_type") or "").partition(":")[0] == RNIC
    numbers = sorted(int(name) for name in names_in(folder / "ports") if name.isdecimal())
    for number in numbers:
        port = folder / "ports" / str(number)
        link_layer = read_text(port / "link_layer") or ""
        protocol = {INFINIBAND: "infiniband", ETHERNET: "iwarp" if is_rnic else "roce"}.get(
            link_layer, ""
        )
        if driver == EFA_DRIVER:
            protocol = "efa"
        yield RdmaPort(number, link_layer, protocol, _netdevs(sysfs, folder, port, number))


def _netdevs(sysfs: Path, folder: Path, port: Path, number: int) -> tuple[str, ...]:
    """Find the port's interfaces: those of its addresses, else those of its PCI function.

    The names of addresses are also told of interfaces that another network namespace hides.
    """
    named = (read_text(port / "gid_attrs/ndevs" / str(slot)) for slot in range(SLOTS_READ))
    found = list(dict.fromkeys(name for name in named if name))
    if not found:
        beside = folder / "device/net"
        found = [name for name in names_in(beside) if _is_of_port(beside / name, number)]
    members = (member for name in found for member in members_of(sysfs, name))
    shown = (name for name in members if (class_folder(sysfs) / name).exists())
    return tuple(dict.fromkeys(name for name in shown if not _is_representor(sysfs, name)))


def _is_of_port(netdev: Path, number: int) -> bool:
    """Tell by the interface's own port number, which counts from 0; old kernels write it in hex."""
    port = read_whole(netdev / "dev_port")
    if not port:
        match = HEX.fullmatch(read_text(netdev / "dev_id") or "")
        port = int(match[1], 16) if match else 0
    return port == number - 1


def _is_representor(sysfs: Path, netdev: str) -> bool:
    name = read_text(class_folder(sysfs) / netdev / "phys_port_name") or ""
    return bool(REPRESENTOR.fullmatch(name))
