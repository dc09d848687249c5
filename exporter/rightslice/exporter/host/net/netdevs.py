"""The network interfaces that a physical function is behind, and what each is."""

import re
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.ethtool_messages import DriverInfo
from rightslice.exporter.host.net.pci_function import (
    NOT_TOLD,
    bus_id_of,
    function_of,
    is_virtual_function,
)
from rightslice.exporter.host.net.sysfs import (
    Entry,
    entries_in,
    link_name,
    names_in,
    read_text,
    read_whole,
)

# Of a port of an embedded switch that stands for somebody else's function: "pf0vf3", and "pf0" for
# the host's own behind a network card with processors. The wire is "p0".
REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:(?:vf|sf)[0-9]+)?")
# Where the kernel has interfaces without hardware, of containers for the most part.
WITHOUT_HARDWARE = "/devices/virtual/net/"
BYTES_PER_MEGABIT = 125_000


@dataclass(frozen=True, slots=True)
class Netdev:
    """An interface with hardware of its own. `driver` is the kernel module's name.

    `is_virtual` says that it is a virtual function or a subfunction, of a function on this node: it
    sees nothing of the port. `function` is of `pci_function`. `is_child` says that it is one more
    of an interface of InfiniBand, for another partition.
    """

    name: str
    driver: str
    pci_bus_id: str
    is_virtual: bool
    is_representor: bool
    is_child: bool = False
    function: str = NOT_TOLD


def class_folder(sysfs: Path) -> Path:
    return sysfs / "class/net"


class NetdevFinder:
    """Lists the interfaces, and reads of each only once what it is: there may be a thousand.

    One that is being made may lack files still: what is new is read at the next look once more.
    For one thread.
    """

    def __init__(self, sysfs: Path) -> None:
        self._folder = class_folder(sysfs)
        self._known: dict[Entry, Netdev | None] = {}
        self._new: set[Entry] = set()

    def find(self) -> tuple[Netdev, ...]:
        """List the interfaces of PCI functions, in order."""
        entries = [each for each in entries_in(self._folder) if WITHOUT_HARDWARE not in each.target]
        for entry in entries:
            is_known = entry in self._known
            if is_known and entry not in self._new:
                continue
            self._known[entry] = _netdev(self._folder / entry.name)
            (self._new.discard if is_known else self._new.add)(entry)
        self._known = {entry: self._known[entry] for entry in entries}
        self._new &= self._known.keys()
        return tuple(netdev for netdev in self._known.values() if netdev is not None)


def find_netdevs(sysfs: Path) -> tuple[Netdev, ...]:
    """List the interfaces of PCI functions, in order."""
    return NetdevFinder(sysfs).find()


def _netdev(folder: Path) -> Netdev | None:
    place = folder / "device"
    driver = link_name(place / "driver")
    if driver is None:
        return None
    is_virtual = is_virtual_function(place)
    # Asked of nobody who has none: the read waits for the kernel's lock of the network's settings.
    port_name = None if is_virtual else read_text(folder / "phys_port_name")
    return Netdev(
        name=folder.name,
        driver=driver,
        pci_bus_id=bus_id_of(place),
        is_virtual=is_virtual,
        is_representor=bool(REPRESENTOR.fullmatch(port_name or "")),
        is_child=_is_child(folder),
        function=function_of(place, driver),
    )


def _is_child(folder: Path) -> bool:
    """Tell it by the interface below, which the kernel gives all; else by the name, as "ib0.8001".

    An interface that is its own has its own number there.
    """
    own, below = read_whole(folder / "ifindex"), read_whole(folder / "iflink")
    if own is not None and below is not None:
        return own != below
    parent, dot, _ = folder.name.rpartition(".")
    return bool(dot) and (folder / "device/net" / parent).exists()


def members_of(sysfs: Path, netdev: str) -> tuple[str, ...]:
    """Give the interfaces with hardware below one: a bond's members, a VLAN's own; else itself."""
    folder = class_folder(sysfs) / netdev
    members = (read_text(folder / "bonding/slaves") or "").split()
    if not members:
        below = (name.partition("lower_") for name in names_in(folder))
        members = [name for before, mark, name in below if mark and not before and name != netdev]
    if not members:
        return (netdev,)
    return tuple(each for member in members for each in members_of(sysfs, member))


def bytes_per_second(sysfs: Path, netdev: str) -> int | None:
    """Give the speed that an interface has agreed on; None while it is down or not known.

    The read waits for the kernel's lock of the network's settings.
    """
    megabits = read_whole(class_folder(sysfs) / netdev / "speed")
    return megabits * BYTES_PER_MEGABIT if megabits is not None and megabits > 0 else None


@dataclass(frozen=True, slots=True)
class Carrier:
    """The interface's carrier, and its changes since the interface was created; None if not told.

    An interface that is down by its administrator tells no carrier.
    """

    is_there: bool | None
    loss_count: int | None
    change_count: int | None


def read_carrier(sysfs: Path, netdev: str) -> Carrier:
    """Read what the kernel itself keeps of the carrier."""
    folder = class_folder(sysfs) / netdev
    carrier = read_whole(folder / "carrier")
    return Carrier(
        None if carrier is None else bool(carrier),
        read_whole(folder / "carrier_down_count"),
        read_whole(folder / "carrier_changes"),
    )


def is_same_interface(netdev: Netdev, told: DriverInfo) -> bool:
    """Tell whether what goes by the name in this network namespace is what sysfs shows.

    Names such as eth0 are used again in each namespace; what says nothing of itself may be it.
    """
    if not told.bus:  # as of what has no hardware
        return told.driver in ("", netdev.driver)
    return told.bus == netdev.pci_bus_id or not netdev.pci_bus_id
