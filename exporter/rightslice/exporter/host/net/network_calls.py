"""What the network side asks of the kernel by sockets; a simulated node answers in its place."""

from dataclasses import dataclass

from rightslice.exporter.host.net.ethtool_socket import EthtoolCalls
from rightslice.exporter.host.net.netlink import Link


@dataclass(frozen=True, slots=True)
class NetworkCalls:
    """None for this machine's kernel. Each is opened at the first use."""

    ethtool: EthtoolCalls | None = None
    dcb: Link | None = None
    rdma: Link | None = None
