"""The flags that say where this node's network ports hang."""

import argparse

from rightslice.exporter.flag_types import parts, path
from rightslice.exporter.host.net.network_options import LLDPD_SOCKET, NetworkOptions


def add_network_flags(flags: argparse.ArgumentParser) -> None:
    """Add them to the program's flags."""
    flags.add_argument(
        "--rdma.exclude",
        dest="rdma_exclude",
        type=parts,
        default="",
        metavar="PATTERNS",
        help="RDMA devices that are not to be read, such as mlx5_1[0-3], parted by commas: on some "
        "systems with NVLink switches the kernel logs an error at each look at those that only "
        "the fabric manager may use (default: none)",
    )
    flags.add_argument(
        "--rdma.idle-priorities",
        dest="rdma_idle_priorities",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="tell of priorities as well that never carried anything, some hundred series a port",
    )
    flags.add_argument(
        "--rdma.virtual-functions",
        dest="rdma_virtual_functions",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="read virtual functions and subfunctions as well of which the physical function is on "
        "this node; they show nothing of the port, and there may be hundreds",
    )
    flags.add_argument(
        "--topology.file",
        dest="topology_file",
        type=path,
        metavar="PATH",
        help="a TOML file of which rail, switch and switch port each network port hangs on "
        "(default: none; docs/network-topology.md says how to write one)",
    )
    flags.add_argument(
        "--topology.lldp-file",
        dest="topology_lldp_file",
        type=path,
        metavar="PATH",
        help="a file that 'lldpcli -f json show neighbors' writes every minute, for where the "
        "exporter cannot ask lldpd itself (default: none: lldpd is asked where it runs)",
    )
    flags.add_argument(
        "--path.lldpd-socket",
        dest="path_lldpd_socket",
        type=path,
        default=str(LLDPD_SOCKET),
        metavar="PATH",
        help="the socket of lldpd, which tells the switches at the other end of the cables "
        "(default %(default)s)",
    )


def given_network_flags(given: argparse.Namespace) -> list[str]:
    """Name the flags of this module that were given, but for those of paths."""
    return [
        f"--topology.{name.replace('_', '-')}"
        for name in ("file", "lldp_file")
        if getattr(given, f"topology_{name}")
    ]


def network_options(given: argparse.Namespace, *, is_simulated: bool = False) -> NetworkOptions:
    """Give what the flags say. Raises ValueError where the file of places is none.

    A simulated node has cables of its own: the file is not looked at.
    """
    if given.topology_file is not None and not is_simulated:
        # Only here: most nodes have no such file.
        from rightslice.exporter.host.net.topology_file import load_topology

        load_topology(given.topology_file)
    return NetworkOptions(
        given.topology_file,
        given.topology_lldp_file,
        given.path_lldpd_socket,
        given.rdma_exclude,
        given.rdma_idle_priorities,
        given.rdma_virtual_functions,
    )
