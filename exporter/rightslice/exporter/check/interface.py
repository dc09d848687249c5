"""Whether an interface of sysfs is the one that this network namespace knows by its name."""

from dataclasses import dataclass

from rightslice.exporter.check.node import Node
from rightslice.exporter.host.net.ethtool import NO_SUCH_NETDEV
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
    if shown is None or info.bus == shown.pci_bus_id:
        return Interface(True)
    if not info.bus and info.driver == shown.driver:
        return Interface(True)
    other = f"{info.driver or 'an unknown driver'} at {info.bus or 'no place'}"
    return Interface(
        False,
        f"its interface {netdev} ({shown.pci_bus_id}) is not in this network namespace, whose own "
        f"{netdev} is another ({other})",
    )
