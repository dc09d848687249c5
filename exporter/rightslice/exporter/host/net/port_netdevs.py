"""Which network interfaces belong to a port of an RDMA device."""

import re
from collections.abc import Mapping
from pathlib import Path

from rightslice.exporter.host.net.netdevs import Netdev, class_folder, members_of
from rightslice.exporter.host.net.pci_function import are_of_one_card
from rightslice.exporter.host.net.sysfs import names_in, read_text, read_whole

HEX = re.compile(r"0x([0-9a-f]{1,4})")
# A port has up to some hundred slots for addresses; those in use come first.
SLOTS_READ = 16
# Whose devices borrow the interface of another function.
BORROWING_DRIVERS = frozenset(("erdma",))
# No card has more of its own: where there are, they are those of an embedded switch.
MOST_OWN_PORTS = 2


def netdevs_of_port(
    sysfs: Path,
    device: Path,
    number: int,
    bus_id: str,
    driver: str,
    netdevs: Mapping[str, Netdev],
) -> tuple[str, ...]:
    """Find the port's interfaces: those of its addresses, else those of its PCI function.

    The names of addresses are also told of interfaces that another network namespace hides, and one
    here may be called the same: it counts only if it is hardware of the same card. `netdevs` are
    all interfaces with hardware, by name.
    """

    def is_own(name: str) -> bool:
        if not bus_id:  # a device of software, on whatever interface
            return (class_folder(sysfs) / name).exists()
        if name not in netdevs or netdevs[name].is_child:
            return False
        return driver in BORROWING_DRIVERS or are_of_one_card(netdevs[name].pci_bus_id, bus_id)

    slots = f"{device}/ports/{number}/gid_attrs/ndevs"
    named = (read_text(f"{slots}/{slot}") for slot in range(SLOTS_READ))
    of_addresses = dict.fromkeys(name for name in named if name)
    members = (member for name in of_addresses for member in members_of(sysfs, name))
    found = tuple(dict.fromkeys(name for name in members if is_own(name)))
    if found:
        return found
    beside = device / "device/net"
    own = (name for name in names_in(beside) if is_own(name) and not is_representor(name, netdevs))
    return tuple(name for name in own if _is_of_port(beside / name, number))


def of_vports(
    found: Mapping[int, tuple[str, ...]], bus_id: str, netdevs: Mapping[str, Netdev]
) -> frozenset[int]:
    """Tell which ports lead not to a wire, but to functions behind the card's own switch.

    Such a port has the interface that stands for the function, or one that nobody here sees.
    """
    wires = {
        number
        for number, names in found.items()
        if not all(is_representor(name, netdevs) for name in names)
    }
    is_switch = bool(wires) and (
        len(found) > MOST_OWN_PORTS
        or any(each.is_representor and each.pci_bus_id == bus_id for each in netdevs.values())
    )
    return frozenset(
        number for number, names in found.items() if number not in wires and (names or is_switch)
    )


def is_representor(name: str, netdevs: Mapping[str, Netdev]) -> bool:
    return name in netdevs and netdevs[name].is_representor


def _is_of_port(netdev: Path, number: int) -> bool:
    """Tell by the interface's own port number, which counts from 0; old kernels write it in hex."""
    port = read_whole(netdev / "dev_port")
    if not port:
        match = HEX.fullmatch(read_text(netdev / "dev_id") or "")
        port = int(match[1], 16) if match else 0
    return port == number - 1
