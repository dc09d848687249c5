"""Whom the checks ask beside files: the kernel, or a simulated node in its place."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rightslice.exporter.host.net.dcb_priorities import DcbPriorities
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.net.network_calls import NetworkCalls


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is asked by an interface's name.

    `enabled` says of priorities whether PFC is on, None where nobody tells.
    """

    ethtool: Ethtool
    enabled: Callable[[str], Mapping[str, bool] | None]


@contextmanager
def real_kernel() -> Iterator[Kernel]:
    """Ask the kernel of the network namespace that this process is in, for the block's length."""
    ethtool, link = Ethtool(), Netlink(socket.NETLINK_ROUTE)
    try:
        yield Kernel(ethtool, DcbPriorities(link).enabled)
    finally:
        ethtool.close()
        link.close()


def simulated_kernel(calls: NetworkCalls) -> Kernel:
    """Give that of a simulated node."""
    return Kernel(Ethtool(calls.ethtool), DcbPriorities(calls.dcb).enabled)
