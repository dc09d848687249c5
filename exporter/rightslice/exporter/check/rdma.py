"""Whether there is anything to check of RDMA."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import NODE, OK, UNKNOWN, Finding
from rightslice.exporter.check.node import Node

ID = "rdma"


def check(node: Node) -> Iterator[Finding]:
    """Say so where there is not, and of which devices nothing can be checked."""
    if not node.rdma:
        yield Finding(ID, NODE, OK, "no RDMA devices")
    for device in node.rdma:
        if not device.driver:
            yield Finding(
                ID,
                device.name,
                UNKNOWN,
                "neither driver nor PCI function is shown, as of a device of software: it is not "
                "checked",
                "for one with hardware mount the host's whole /sys",
            )
