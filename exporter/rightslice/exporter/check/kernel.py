"""Whom the checks ask beside files: the kernel, or a simulated node in its place."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rightslice.exporter.host.net.dcb_priorities import DcbPriorities
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.net.network_calls import NetworkCalls


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is asked by an interface's name. For one thread.

    `enabled` says of priorities whether PFC is on, None where nobody tells. `anew` gives another
    such: a call that hangs may write into the memory of this one when it comes back.
    """

    ethtool: Ethtool
    enabled: Callable[[str], Mapping[str, bool] | None]
    anew: "Callable[[], Kernel] | None" = None


@contextmanager
def real_kernel() -> Iterator[Kernel]:
    """Ask the kernel of the network namespace that this process is in, for the block's length."""
    with ExitStack() as opened:
        yield _opened_kernel(opened)


def _opened_kernel(opened: ExitStack) -> Kernel:
    ethtool, link = Ethtool(), Netlink(socket.NETLINK_ROUTE)
    opened.callback(ethtool.close)
    opened.callback(link.close)
    return Kernel(ethtool, DcbPriorities(link).enabled, lambda: _opened_kernel(opened))


def simulated_kernel(calls: NetworkCalls) -> Kernel:
    """Give that of a simulated node, where no call hangs."""
    return Kernel(Ethtool(calls.ethtool), DcbPriorities(calls.dcb).enabled)
