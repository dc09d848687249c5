"""Pause of the whole link where single priorities have theirs."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.interface import roce_interfaces
from rightslice.exporter.check.node import Node
from rightslice.exporter.check.pfc import in_words, pfc_priorities
from rightslice.exporter.host.reading_error import ReadingError

ID = "link_pause"


def check(node: Node) -> Iterator[Finding]:
    """Look at the Ethernet interfaces of RDMA ports."""
    for subject, netdev in roce_interfaces(node):
        yield _of(node, subject, netdev)


def _of(node: Node, subject: str, netdev: str) -> Finding:
    try:
        pause = node.kernel.ethtool.link_pause(netdev)
    except ReadingError as error:
        return Finding(ID, subject, UNKNOWN, f"the pause of the link cannot be read: {error}")
    if pause is None:
        text = f"the driver of {netdev} does not tell of the pause of the link"
        return Finding(ID, subject, UNKNOWN, text)
    if not pause.receives and not pause.transmits:
        return Finding(ID, subject, OK, f"{netdev} has no pause of the whole link")
    on = " and ".join(
        word for word, is_on in (("rx", pause.receives), ("tx", pause.transmits)) if is_on
    )
    text = f"{netdev} has pause of the whole link on ({on})"
    remedy = (
        f"ethtool --pause {netdev} autoneg off rx off tx off, and the same on the switch's port"
    )
    priorities = pfc_priorities(node, netdev)
    if priorities is None:
        text = f"{text}; whether PFC is on beside it is not known"
        return Finding(ID, subject, UNKNOWN, text, f"if it is: {remedy}")
    if not priorities:
        return Finding(ID, subject, OK, f"{text}, and PFC off")
    text = f"{text} while {in_words(priorities)}: packets can be lost without a counter of it"
    return Finding(ID, subject, WARNING, text, remedy)
