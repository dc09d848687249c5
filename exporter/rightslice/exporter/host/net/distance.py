"""How near two PCI functions are, by where sysfs has them; the words are those of nvidia-smi."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rightslice.exporter.host.net.sysfs import read_whole

# One bridge or switch between; several; the host bridge; the same processor; farther.
PIX, PXB, PHB, NODE, SYS = DISTANCES = ("pix", "pxb", "phb", "node", "sys")
# A host bridge among the folders of sysfs, such as "pci0000:3a".
HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
# Below one switch, each of two functions has its downstream port and itself.
BELOW_ONE_SWITCH = 2


def distance(sysfs: Path, bus_id: str, other_bus_id: str) -> str | None:
    """Compare two places such as "0000:3b:00.0"; None where they cannot be told.

    Functions of different host bridges are on the same processor if the kernel says the same NUMA
    node of both; it says -1 where it does not know.
    """
    one, other = _way(sysfs, bus_id), _way(sysfs, other_bus_id)
    if not one or not other:
        return None
    shared_count = _shared_count(one, other)
    if shared_count == 0:
        nodes = {_numa_node(sysfs, bus_id), _numa_node(sysfs, other_bus_id)}
        return None if None in nodes else NODE if len(nodes) == 1 else SYS
    if shared_count == 1:
        return PHB
    below = max(len(one), len(other)) - shared_count
    return PIX if below <= BELOW_ONE_SWITCH else PXB


def nearest(sysfs: Path, bus_id: str, devices: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """Give the shortest distance, and the names of all devices at it; None where none is known.

    `devices` are places by name.
    """
    names_by_distance: dict[str, list[str]] = {}
    for name, place in sorted(devices.items()):
        found = distance(sysfs, bus_id, place)
        if found is not None:
            names_by_distance.setdefault(found, []).append(name)
    best = next((each for each in DISTANCES if each in names_by_distance), None)
    return None if best is None else (best, names_by_distance[best])


def _shared_count(one: list[str], other: list[str]) -> int:
    for count, (step, other_step) in enumerate(zip(one, other, strict=False)):
        if step != other_step:
            return count
    return min(len(one), len(other))


def _way(sysfs: Path, bus_id: str) -> list[str]:
    """Give the bridges from the host bridge to a function, and the function itself."""
    place = os.path.realpath(sysfs / "bus/pci/devices" / bus_id)
    parts = place.split(os.sep)
    host_bridge = next((n for n, part in enumerate(parts) if HOST_BRIDGE.fullmatch(part)), None)
    return [] if host_bridge is None or not os.path.isdir(place) else parts[host_bridge:]


def _numa_node(sysfs: Path, bus_id: str) -> int | None:
    node = read_whole(sysfs / "bus/pci/devices" / bus_id / "numa_node")
    return None if node is None or node < 0 else node
