"""The network interfaces that a physical function is behind, and what each is."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.sysfs import link_name, names_in, read_text, read_whole

# Of a port of an embedded switch that stands for somebody else's function: "pf0vf3", and "pf0" for
# the host's own behind a network card with processors. The wire is "p0".
REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:(?:vf|sf)[0-9]+)?")
# A part of a physical function with an interface of its own, such as "mlx5_core.sf.4".
SUBFUNCTION = re.compile(r"[a-z0-9_]+\.sf\.[0-9]+")
BYTES_PER_MEGABIT = 125_000


@dataclass(frozen=True, slots=True)
class Netdev:
    """An interface with hardware of its own. `driver` is the kernel module's name.

    `is_virtual` says that it is a virtual function or a subfunction: it sees nothing of the port.
    """

    name: str
    driver: str
    pci_bus_id: str
    is_virtual: bool
    is_representor: bool


def class_folder(sysfs: Path) -> Path:
    return sysfs / "class/net"


def find_netdevs(sysfs: Path) -> tuple[Netdev, ...]:
    """List the interfaces of PCI functions, in order."""
    folder = class_folder(sysfs)
    found = (_netdev(folder / name) for name in names_in(folder))
    return tuple(netdev for netdev in found if netdev is not None)


def _netdev(folder: Path) -> Netdev | None:
    driver = link_name(folder / "device/driver")
    if driver is None:
        return None
    return Netdev(
        name=folder.name,
        driver=driver,
        pci_bus_id=os.path.basename(os.path.realpath(folder / "device")),
        is_virtual=is_virtual_function(folder / "device"),
        is_representor=bool(REPRESENTOR.fullmatch(read_text(folder / "phys_port_name") or "")),
    )


def is_virtual_function(place: Path) -> bool:
    """Tell it of a device's folder, or of a link to it."""
    name = os.path.basename(os.path.realpath(place))
    return (place / "physfn").exists() or bool(SUBFUNCTION.fullmatch(name))


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
