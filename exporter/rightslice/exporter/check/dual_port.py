"""Cards with two ports of which one is not used."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node, port_name, slot_of
from rightslice.exporter.host.net.devices import RdmaDevice, RdmaPort
from rightslice.exporter.host.net.netdevs import class_folder
from rightslice.exporter.host.net.port_state import ACTIVE
from rightslice.exporter.host.net.sysfs import link_name, names_in, read_text
from rightslice.exporter.host.pci import PASSED_THROUGH_DRIVER

ID = "dual_port"
NETWORK_CLASS = "0x02"
# An interface's own words; any other says nothing of its link.
OPERATING = {"up": True, "down": False, "lowerlayerdown": False}


@dataclass(frozen=True, slots=True)
class Outlet:
    """A port of a card. `is_active` is None where it cannot be told."""

    name: str
    is_active: bool | None


def check(node: Node) -> Iterator[Finding]:
    """Look at all ports that a slot of the PCI bus has; of a bond at each member."""
    outlets: defaultdict[str, list[Outlet]] = defaultdict(list)
    known_functions = set()
    for device, port in node.ports():
        for bus_id, outlet in _outlets(node, device, port):
            known_functions |= {bus_id, device.pci_bus_id}
            outlets[slot_of(bus_id)].append(outlet)
    for bus_id in names_in(node.sysfs / "bus/pci/devices"):
        if slot_of(bus_id) in outlets and bus_id not in known_functions:
            outlets[slot_of(bus_id)].extend(_without_rdma(node, bus_id))
    for slot, of_slot in outlets.items():
        if len(of_slot) > 1:
            yield _of_card(slot, of_slot)


def _outlets(node: Node, device: RdmaDevice, port: RdmaPort) -> Iterator[tuple[str, Outlet]]:
    if len(port.netdevs) <= 1:
        logical = node.port_state(device, port).logical
        is_active = None if logical is None else logical == ACTIVE
        yield device.pci_bus_id, Outlet(port_name(device, port), is_active)
        return
    for netdev in port.netdevs:
        shown = node.netdevs.get(netdev)
        bus_id = device.pci_bus_id if shown is None else shown.pci_bus_id
        state = read_text(class_folder(node.sysfs) / netdev / "operstate") or ""
        yield bus_id, Outlet(f"{netdev} of {device.name}", OPERATING.get(state))


def _without_rdma(node: Node, bus_id: str) -> Iterator[Outlet]:
    """Give a whole function for networks that has no RDMA device of its own."""
    folder = node.pci(bus_id)
    is_network = (read_text(folder / "class") or "").startswith(NETWORK_CLASS)
    # One that has a device after all is not to be looked at (--rdma.exclude), or not to be seen.
    has_rdma = (folder / "infiniband").exists()
    if not is_network or has_rdma or (folder / "physfn").exists():
        return
    if link_name(folder / "driver") == PASSED_THROUGH_DRIVER:
        yield Outlet(f"{bus_id} (given to a virtual machine)", None)
    else:
        yield Outlet(f"{bus_id} (without an RDMA device)", False)


def _of_card(slot: str, outlets: list[Outlet]) -> Finding:
    names = {
        state: ", ".join(outlet.name for outlet in outlets if outlet.is_active is state)
        for state in (True, False, None)
    }
    if names[True] and names[False]:
        return Finding(
            ID,
            slot,
            WARNING,
            f"the card has {len(outlets)} ports, of which {names[True]} is active and "
            f"{names[False]} is not",
            "connect and configure the other port, or leave it so if one is what was meant",
        )
    if names[None]:
        text = f"the card has {len(outlets)} ports; whether {names[None]} is used is not told"
        return Finding(ID, slot, UNKNOWN, text)
    state = "all active" if names[True] else "none active"
    return Finding(ID, slot, OK, f"the card has {len(outlets)} ports, {state}")
