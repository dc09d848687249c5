"""What the user says of where this node's network ports hang."""

from dataclasses import dataclass
from pathlib import Path

LLDPD_SOCKET = Path("/run/lldpd.socket")


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """`topology_file` is the operator's own, `lldp_file` what lldpcli wrote; None for none.

    `lldpd_socket` is asked only where there is no `lldp_file`. `excluded` are patterns of names of
    RDMA devices of which no file is read. `shows_idle_priorities` has priorities told that never
    carried anything. `reads_virtual_functions` has functions read of which the physical one is on
    this node.
    """

    topology_file: Path | None = None
    lldp_file: Path | None = None
    lldpd_socket: Path = LLDPD_SOCKET
    excluded: tuple[str, ...] = ()
    shows_idle_priorities: bool = False
    reads_virtual_functions: bool = False


# For a simulated node, of whose cables nobody here tells, and whose parts are there to be shown.
NO_NETWORK = NetworkOptions(
    lldpd_socket=Path("/nonexistent/lldpd.socket"), reads_virtual_functions=True
)
