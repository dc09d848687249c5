"""Whether a network device is a whole PCI function, or a part of one."""

import os
import re
from pathlib import Path

from rightslice.exporter.host.net.sysfs import link_name, read_text

PHYSICAL, VIRTUAL, NOT_TOLD = "physical", "virtual", ""
FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# A part of a physical function with devices of its own, such as "mlx5_core.sf.4".
SUBFUNCTION = re.compile(r"[a-z0-9_]+\.sf\.[0-9]+")
# Of cards that hosts only ever give parts of to their guests.
VIRTUAL_DRIVERS = frozenset(("iavf", "mana"))
MELLANOX = "0x15b3"
# Whose virtual functions have device ids of their own: of ConnectX-3 to BlueField.
DRIVERS_WITH_IDS = frozenset(("mlx4_core", "mlx5_core"))
VIRTUAL_IDS = frozenset(
    ("0x1002", "0x1004", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e", "0xa2d3")
)


def bus_id_of(place: Path) -> str:
    """Give the name of the PCI function, or other device, that a link leads to."""
    name = link_name(place)
    if name is not None and FUNCTION.fullmatch(name):  # as nearly always; the rest costs more
        return name
    return os.path.basename(os.path.realpath(place))


def is_virtual_function(place: Path) -> bool:
    """Tell of a device's folder whether the function that it is a part of is on this node."""
    return (place / "physfn").exists() or bool(SUBFUNCTION.fullmatch(bus_id_of(place)))


def function_of(place: Path, driver: str) -> str:
    """Tell what the function is; NOT_TOLD for what may be the one or the other.

    A virtual machine is not shown whether what it was given is a part of something. Only a whole
    function has the file that says how many parts it may have, and many have none.
    """
    if is_virtual_function(place) or driver in VIRTUAL_DRIVERS:
        return VIRTUAL
    if (place / "sriov_totalvfs").exists():
        return PHYSICAL
    if driver in DRIVERS_WITH_IDS and read_text(place / "vendor") == MELLANOX:
        device = read_text(place / "device")
        if device:
            return VIRTUAL if device in VIRTUAL_IDS else PHYSICAL
    return NOT_TOLD


def are_of_one_card(bus_id: str, other_bus_id: str) -> bool:
    """Tell whether two places are one, or functions of one slot."""
    if bus_id == other_bus_id:
        return True
    both = (bus_id, other_bus_id)
    return all(map(FUNCTION.fullmatch, both)) and bus_id[:-1] == other_bus_id[:-1]
