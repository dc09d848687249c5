"""What a container without the host's network does not see of the network cards."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.interface import interface_of
from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.devices import ETHERNET, RdmaDevice, RdmaPort, class_of
from rightslice.facts.nics import HARDWARE_FILE, find_nic_driver

ID = "namespace"
REMEDY = (
    "run with the host's network (in Kubernetes hostNetwork: true), mount the host's whole /sys, "
    "and name it with --path.sysfs"
)
HARDWARE_FOLDER = "hw_counters"


def check(node: Node) -> Iterator[Finding]:
    """Look at each device, virtual ones too."""
    for device in node.rdma:
        hidden, unknown, seen = _sights(node, device)
        if hidden:
            yield Finding(ID, device.name, WARNING, "; ".join(hidden), REMEDY)
        elif unknown:
            yield Finding(ID, device.name, UNKNOWN, "; ".join(unknown))
        elif seen:
            yield Finding(ID, device.name, OK, f"seen from here: {', '.join(seen)}")


def _sights(node: Node, device: RdmaDevice) -> tuple[list[str], list[str], list[str]]:
    hidden: list[str] = []
    unknown: list[str] = []
    seen: list[str] = []
    if _has_hardware_counters(device.driver):
        if _shows_hardware_counters(node, device):
            seen.append("its counters")
        else:
            hidden.append(f"its counters ({HARDWARE_FOLDER}) are not shown")
    for port in device.ports:
        if _lacks_netdev(device, port):
            hidden.append(f"no interface of its port {port.number} is shown")
        for netdev in port.netdevs:
            interface = interface_of(node, netdev)
            if interface.is_seen is None:
                unknown.append(interface.text)
            elif interface.is_seen:
                seen.append(f"its interface {netdev}")
            else:
                hidden.append(interface.text)
    return hidden, unknown, seen


def _has_hardware_counters(driver: str) -> bool:
    facts = find_nic_driver(driver)
    return facts is not None and bool(facts.rows[HARDWARE_FILE])


def _shows_hardware_counters(node: Node, device: RdmaDevice) -> bool:
    """Look at the ports, and the device itself, which has all where it is a switch's."""
    folders = [node.port_folder(device, port) for port in device.ports]
    folders.append(class_of(node.sysfs) / device.name)
    return any((folder / HARDWARE_FOLDER).is_dir() for folder in folders)


def _lacks_netdev(device: RdmaDevice, port: RdmaPort) -> bool:
    """Tell of ports of Ethernet cards. Devices made by software, and EFA, need none here."""
    is_ethernet = port.link_layer == ETHERNET and port.protocol != "efa"
    return is_ethernet and bool(device.driver) and not port.netdevs
