"""Whether there is anything to check of RDMA."""

from collections.abc import Iterator

from rightslice.exporter.check.finding import NODE, OK, Finding
from rightslice.exporter.check.node import Node

ID = "rdma"


def check(node: Node) -> Iterator[Finding]:
    """Say so where there is not."""
    if not node.rdma:
        yield Finding(ID, NODE, OK, "no RDMA devices")
