"""The RDMA devices of the node, their ports, and the interfaces that belong to each."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rightslice.exporter.host.net.netdevs import Netdev, find_netdevs
from rightslice.exporter.host.net.pci_function import (
    NOT_TOLD,
    bus_id_of,
    function_of,
    is_virtual_function,
)
from rightslice.exporter.host.net.port_netdevs import is_representor, netdevs_of_port, of_vports
from rightslice.exporter.host.net.sysfs import Entry, entries_in, link_name, names_in, read_text

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
# The kernel's number for a node that speaks iWARP, before the colon in `node_type`.
RNIC = "4"
EFA_DRIVER = "efa"
# Addresses and firmware change without the device being made anew.
READ_AGAIN_SECONDS = 60.0


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

    `driver` is the kernel module's name, by the PCI function below. `is_virtual` says that it is a
    part of a function that is on this node; `function` is of `pci_function`.
    """

    name: str
    driver: str
    pci_bus_id: str
    is_virtual: bool
    firmware: str
    model: str
    ports: tuple[RdmaPort, ...]
    function: str = NOT_TOLD


def class_of(sysfs: Path) -> Path:
    return sysfs / "class/infiniband"


class RdmaFinder:
    """Lists the devices. Of those that a pattern excludes no file is read, at any time.

    What is known of a device is read again when interfaces come or go, from time to time, and at
    the second look, for it has its addresses a little later. Of a virtual function nothing is read,
    unless `with_virtual` says so. For one thread.
    """

    def __init__(
        self, sysfs: Path, excluded: Collection[str] = (), *, with_virtual: bool = True
    ) -> None:
        self.excluded = excluded
        self.with_virtual = with_virtual
        self._sysfs = sysfs
        self._netdevs: tuple[Netdev, ...] = ()
        self._known: dict[Entry, RdmaDevice] = {}
        self._new: set[Entry] = set()
        self._left_out: set[Entry] = set()
        self._read_seconds = float("-inf")

    def find(self, netdevs: tuple[Netdev, ...], now_seconds: float) -> tuple[RdmaDevice, ...]:
        """List the devices in order. `netdevs` are the interfaces that there are.

        A node without the folder has no RDMA driver loaded, and no devices.
        """
        entries = self._wanted(entries_in(class_of(self._sysfs)))
        is_due = now_seconds - self._read_seconds >= READ_AGAIN_SECONDS
        if is_due or netdevs != self._netdevs:
            read = self._read(entries, netdevs)
            self._netdevs, self._read_seconds = netdevs, now_seconds
        else:
            unsure = [each for each in entries if each not in self._known or each in self._new]
            read = self._read(unsure, netdevs)
        self._new = read.keys() - self._known.keys()
        known = self._known | read
        self._known = {each: known[each] for each in entries}
        return tuple(self._known.values())

    def _wanted(self, entries: list[Entry]) -> list[Entry]:
        """Leave out what is not to be read. A part of a function stays one."""
        shown = [each for each in entries if not is_excluded(each.name, self.excluded)]
        if self.with_virtual:
            return shown
        self._left_out &= set(shown)
        new = (each for each in shown if each not in self._known and each not in self._left_out)
        for entry in new:
            if is_virtual_function(class_of(self._sysfs) / entry.name / "device"):
                self._left_out.add(entry)
        return [each for each in shown if each not in self._left_out]

    def _read(
        self, entries: Iterable[Entry], netdevs: tuple[Netdev, ...]
    ) -> dict[Entry, RdmaDevice]:
        by_name = {netdev.name: netdev for netdev in netdevs}
        return {each: _device(self._sysfs, each.name, by_name) for each in entries}


def find_rdma_devices(sysfs: Path, excluded: Collection[str] = ()) -> tuple[RdmaDevice, ...]:
    """List the devices, in order. Of those that a pattern excludes no file is read."""
    return RdmaFinder(sysfs, excluded).find(find_netdevs(sysfs), 0.0)


def excluded_functions(sysfs: Path, excluded: Collection[str]) -> frozenset[str]:
    """Give the PCI functions of excluded devices, by where the links of the class lead."""
    if not excluded:
        return frozenset()
    entries = entries_in(class_of(sysfs))
    # As in ".../0000:3b:00.1/infiniband/mlx5_1".
    targets = (each.target.split("/") for each in entries if is_excluded(each.name, excluded))
    return frozenset(parts[-3] for parts in targets if parts[-2:-1] == ["infiniband"])


def is_excluded(name: str, excluded: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in excluded)


def _device(sysfs: Path, name: str, netdevs: dict[str, Netdev]) -> RdmaDevice:
    folder = class_of(sysfs) / name
    place = folder / "device"
    driver = link_name(place / "driver") or ""
    bus_id = bus_id_of(place) if place.exists() else ""
    is_rnic = (read_text(folder / "node_type") or "").partition(":")[0] == RNIC
    numbers = sorted(int(each) for each in names_in(folder / "ports") if each.isdecimal())
    found = {
        number: netdevs_of_port(sysfs, folder, number, bus_id, driver, netdevs)
        for number in numbers
    }
    vports = of_vports(found, bus_id, netdevs)
    return RdmaDevice(
        name=name,
        driver=driver,
        pci_bus_id=bus_id,
        is_virtual=is_virtual_function(place),
        firmware=read_text(folder / "fw_ver") or "",
        model=read_text(folder / "hca_type") or "",
        ports=tuple(
            _port(folder, number, driver, names, netdevs, is_rnic=is_rnic)
            for number, names in found.items()
            if number not in vports
        ),
        function=function_of(place, driver) if bus_id else NOT_TOLD,
    )


def _port(
    folder: Path,
    number: int,
    driver: str,
    names: tuple[str, ...],
    netdevs: dict[str, Netdev],
    *,
    is_rnic: bool,
) -> RdmaPort:
    link_layer = read_text(folder / "ports" / str(number) / "link_layer") or ""
    protocol = "iwarp" if is_rnic else "roce"
    if driver == EFA_DRIVER:
        protocol = "efa"
    elif link_layer != ETHERNET:
        protocol = "infiniband" if link_layer == INFINIBAND else ""
    wires = tuple(name for name in names if not is_representor(name, netdevs))
    return RdmaPort(number, link_layer, protocol, wires)
