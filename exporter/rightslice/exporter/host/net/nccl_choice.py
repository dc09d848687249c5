"""What a job's environment makes NCCL do about RDMA. Only names that we know ever leave here."""

from collections.abc import Collection, Mapping

from rightslice.exporter.host.net.port_now import PortNow

NET, IB_DISABLE, IB_HCA, FABRIC = CHOICE_NAMES = (
    "NCCL_NET",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "FI_PROVIDER",
)
# Networks of NCCL's that are TCP, or made of it: its own, and Google's plug-ins. Who names one
# means it.
TCP_NETS = ("socket", "gpudirecttcpx", "fastrak")
TCP_PROVIDERS = ("tcp", "sockets")


def is_meant_for_tcp(variables: Mapping[str, str]) -> bool:
    """Tell whether TCP was chosen by name.

    To switch InfiniBand off is no such choice: it is often left over from somewhere else.
    """
    return variables.get(NET, "").strip().lower().startswith(TCP_NETS)


def is_infiniband_off(variables: Mapping[str, str]) -> bool:
    """Tell whether NCCL was told to leave RDMA alone: by any number but 0."""
    text = variables.get(IB_DISABLE, "").strip()
    return text.isdecimal() and int(text[:9]) != 0


def is_fabric_tcp(variables: Mapping[str, str]) -> bool:
    """Tell whether libfabric, below NCCL's plug-in for EFA, was told to use TCP."""
    return variables.get(FABRIC, "").strip().lower().startswith(TCP_PROVIDERS)


def wanted_ports(variables: Mapping[str, str], ports: Collection[PortNow]) -> list[PortNow] | None:
    """Give the node's ports that NCCL was told to use; None where it was not told.

    As NCCL reads it: names by their beginnings, a port behind a colon, "=" for whole names and "^"
    for all but these.
    """
    text = variables.get(IB_HCA, "")
    is_not = text.startswith("^")
    text = text.removeprefix("^")
    is_whole = text.startswith("=")
    wanted = [part.partition(":") for part in text.removeprefix("=").split(",") if part]
    if not wanted:
        return None
    return [
        port
        for port in ports
        if is_not
        != any(
            (port.device == name if is_whole else port.device.startswith(name))
            and (not number.isdecimal() or int(number[:9]) == port.number)
            for name, _, number in wanted
        )
    ]
