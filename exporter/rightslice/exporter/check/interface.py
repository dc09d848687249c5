"""Whether an interface of sysfs is the one that this network namespace knows by its name."""

from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.exporter.check.node import Node, port_name
from rightslice.exporter.host.net.ethtool import NO_SUCH_NETDEV
from rightslice.exporter.host.net.netdevs import is_same_interface
from rightslice.exporter.host.reading_error import ReadingError


@dataclass(frozen=True, slots=True)
class Interface:
    """`is_seen` is None where it cannot be told. The text says why it is not seen."""

    is_seen: bool | None
    text: str = ""


def interface_of(node: Node, netdev: str) -> Interface:
    """Ask its driver where it is. Names such as eth0 are used again in each namespace."""
    shown = node.netdevs.get(netdev)
    try:
        info = node.kernel.ethtool.driver(netdev)
    except ReadingError as error:
        if error.reason == NO_SUCH_NETDEV:
            return Interface(False, f"its interface {netdev} is not in this network namespace")
        return Interface(None, str(error))
    if shown is None or is_same_interface(shown, info):
        return Interface(True)
    other = f"{info.driver or 'an unknown driver'} at {info.bus or 'no place'}"
    return Interface(
        False,
        f"its interface {netdev} ({shown.pci_bus_id}) is not in this network namespace, whose own "
        f"{netdev} is another ({other})",
    )


def roce_interfaces(node: Node) -> Iterator[tuple[str, str]]:
    """Give the port's name and the interface of each RoCE port that is not hidden.

    Of one that is hidden, the check of the namespace tells.
    """
    for device, port, netdev in node.roce_netdevs():
        if interface_of(node, netdev).is_seen is not False:
            yield port_name(device, port), netdev
