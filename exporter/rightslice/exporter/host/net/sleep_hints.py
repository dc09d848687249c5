"""What is seen of a process that may be why it does not use RDMA, in a handful of words."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from rightslice.exporter.host.net.nccl_choice import (
    is_fabric_tcp,
    is_infiniband_off,
    wanted_ports,
)
from rightslice.exporter.host.net.port_now import PortNow
from rightslice.exporter.host.net.verbs_files import sees_verbs
from rightslice.exporter.host.owners.small_files import read_start

MEMLOCK_LOW, NO_DEVICE, IB_DISABLED, FILTER_MATCHES_NONE, PORT_DOWN, FABRIC_IS_TCP = HINTS = (
    "memlock_low",
    "no_device_in_container",
    "nccl_ib_disable",
    "nccl_ib_hca",
    "port_down",
    "fi_provider_tcp",
)
# What may be locked by default is 64 KiB or 8 MiB. One buffer of NCCL's has 4 MiB, and each of its
# channels has some: with less than this only the smallest jobs get by.
LEAST_MEMLOCK_BYTES = 64 * 1024**2
MEMLOCK_LINE = re.compile(rb"^Max locked memory\s+([0-9]{1,20})\s", re.MULTILINE)
CAPABILITIES_LINE = re.compile(rb"^CapEff:\s+([0-9a-f]{1,16})$", re.MULTILINE)
# Whoever has it may lock all they like (capability.h).
IPC_LOCK = 1 << 14
FILE_BYTES = 16 * 1024


def hints_of(
    procfs: Path, process_id: int, variables: Mapping[str, str], ports: Collection[PortNow]
) -> Iterator[str]:
    """Give the words that hold for a process. What cannot be read gives none."""
    if _is_memlock_low(procfs, process_id):
        yield MEMLOCK_LOW
    if sees_verbs(procfs, process_id) is False:
        yield NO_DEVICE
    if is_infiniband_off(variables):
        yield IB_DISABLED
    if is_fabric_tcp(variables):
        yield FABRIC_IS_TCP
    wanted = wanted_ports(variables, ports)
    if wanted is not None and not any(port.is_up for port in wanted):
        yield PORT_DOWN if wanted else FILTER_MATCHES_NONE


def _is_memlock_low(procfs: Path, process_id: int) -> bool:
    limits = read_start(f"{procfs}/{process_id}/limits", FILE_BYTES) or b""
    limit = MEMLOCK_LINE.search(limits)  # "unlimited" is no number
    if limit is None or int(limit[1]) >= LEAST_MEMLOCK_BYTES:
        return False
    status = read_start(f"{procfs}/{process_id}/status", FILE_BYTES) or b""
    capabilities = CAPABILITIES_LINE.search(status)
    return not (capabilities and int(capabilities[1], 16) & IPC_LOCK)
