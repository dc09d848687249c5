"""What ends a pause that does not end: the watchdog of a network card."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.interface import roce_interfaces
from rightslice.exporter.check.node import Node
from rightslice.exporter.check.pfc import in_words, pfc_priorities
from rightslice.exporter.host.net.ethtool import PFC_WATCHDOG_AUTOMATIC
from rightslice.exporter.host.reading_error import ReadingError

ID = "pfc_watchdog"


def check(node: Node) -> Iterator[Finding]:
    """Look at the Ethernet interfaces of RDMA ports."""
    for subject, netdev in roce_interfaces(node):
        yield _of(node, subject, netdev)


def _of(node: Node, subject: str, netdev: str) -> Finding:
    try:
        milliseconds = node.kernel.ethtool.pfc_watchdog_milliseconds(netdev)
    except ReadingError as error:
        return Finding(ID, subject, UNKNOWN, f"the PFC watchdog cannot be read: {error}")
    if milliseconds is None:
        return Finding(
            ID,
            subject,
            UNKNOWN,
            f"the driver of {netdev} does not tell whether it has a PFC watchdog",
            "rely on the watchdog of the switch, and see that it is on",
        )
    if milliseconds > 0:
        time = (
            "after the time that the driver chooses"
            if milliseconds == PFC_WATCHDOG_AUTOMATIC
            else f"after {milliseconds} ms"
        )
        text = f"the PFC watchdog of {netdev} ends a pause of its own {time}"
        return Finding(ID, subject, OK, text)
    priorities = pfc_priorities(node, netdev)
    if priorities == ():
        text = f"the PFC watchdog of {netdev} is off (0 ms), and so is PFC"
        return Finding(ID, subject, OK, text)
    return Finding(
        ID,
        subject,
        WARNING,
        f"the PFC watchdog of {netdev} is off (0 ms)"
        + (f", and {in_words(priorities)}" if priorities else "")
        + ": if this node stops receiving, its pauses can stop the fabric",
        f"ethtool --set-tunable {netdev} pfc-prevention-tout 65535 (automatic, 100 ms)",
    )
