"""The node's PCI buses as sysfs shows them: bridges, switches, and the functions below them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.distance import NODE, PHB, PIX, PXB, SYS

BRIDGE_CLASS = "0x060400"
BRIDGE_VENDOR = "0x1000"
# Cards 0 to 3 hang on the first processor, 4 to 7 on the second, and so on in turn.
CARDS_PER_PROCESSOR, PROCESSORS = 4, 2
# The buses of the host bridges of each processor: that of the cards, and another one.
HOST_BRIDGES = ((0x00, 0x40), (0x80, 0xC0))
# Buses of the ports of each card's switch, and of a second switch below it.
UPSTREAM_BUS, DOWNSTREAM_BUS, SECOND_UPSTREAM_BUS, SECOND_DOWNSTREAM_BUS = 0xD0, 0xE0, 0xA0, 0xB0
DEVICES_PER_BUS = 32
GIGATRANSFERS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
RESOURCE_COUNT = 13
# Memory, of 64 bits, that may be read ahead.
RESOURCE_FLAGS = 0x14220C


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function hangs: the folders below sys/devices down to it, and its processor."""

    way: tuple[str, ...]
    processor: int

    @property
    def bus_id(self) -> str:
        return self.way[-1]


def card_place(bus_id: str, position: int) -> Place:
    """Place a card below a PCIe switch of its own."""
    switch, processor = _switch(bus_id, position)
    downstream = f"{_domain(bus_id)}:{_bus(DOWNSTREAM_BUS, position)}:00.0"
    return Place((*switch, downstream, bus_id), processor)


def nic_place(bus_id: str, position: int, card: int, distance: str) -> Place:
    """Place a network card as far from a card as the word of `distance` says.

    `position` is of the first function of the network card: all of one card have one way.
    """
    domain, device = _domain(bus_id), 1 + position % (DEVICES_PER_BUS - 1)
    switch, processor = _switch(bus_id, card)
    downstream = f"{domain}:{_bus(DOWNSTREAM_BUS, card)}:{device:02x}.0"
    if distance == PIX:
        return Place((*switch, downstream, bus_id), processor)
    if distance == PXB:
        second = f"{domain}:{_bus(SECOND_UPSTREAM_BUS, card)}:00.0"
        below = f"{domain}:{_bus(SECOND_DOWNSTREAM_BUS, card)}:{device:02x}.0"
        return Place((*switch, downstream, second, below, bus_id), processor)
    if distance == SYS:
        processor = (processor + 1) % PROCESSORS
    host_bus = HOST_BRIDGES[processor][distance == NODE]
    # Below the root ports of the cards' switches.
    root_port = f"{domain}:{host_bus:02x}:{(device + 15) % DEVICES_PER_BUS:02x}.1"
    assert distance in (PHB, NODE, SYS)
    return Place((f"pci{domain}:{host_bus:02x}", root_port, bus_id), processor)


def add_function(sysfs: Path, place: Place, files: Mapping[str, str]) -> Path:
    """Write a function and the bridges above it, with the links of the bus to them."""
    folder = sysfs / "devices"
    for depth, name in enumerate(place.way):
        folder /= name
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        if 0 < depth < len(place.way) - 1:
            _write(folder, {"vendor": BRIDGE_VENDOR, "class": BRIDGE_CLASS})
            _link(sysfs / "bus/pci/devices" / name, folder)
    _write(folder, {"numa_node": str(place.processor), **files})
    _link(sysfs / "bus/pci/devices" / place.bus_id, folder)
    return folder


def bind(sysfs: Path, folder: Path, driver: str) -> Path:
    """Let a function belong to a driver; give the link that says so."""
    driver_folder = sysfs / "bus/pci/drivers" / driver
    driver_folder.mkdir(parents=True, exist_ok=True)
    link = folder / "driver"
    link.symlink_to(driver_folder)
    return link


def link_files(width: int, width_max: int, generation: int, generation_max: int) -> dict[str, str]:
    """Give the files of a function's PCIe link."""
    return {
        "current_link_width": str(width),
        "max_link_width": str(width_max),
        "current_link_speed": f"{GIGATRANSFERS[generation]} GT/s PCIe",
        "max_link_speed": f"{GIGATRANSFERS[generation_max]} GT/s PCIe",
    }


def resources(*sizes_bytes: int) -> str:
    """Spell the address ranges of a function; of a size 0 there is none."""
    rows, start = [], 1 << 40
    for size_bytes in (*sizes_bytes, *[0] * RESOURCE_COUNT)[:RESOURCE_COUNT]:
        row = (start, start + size_bytes - 1, RESOURCE_FLAGS) if size_bytes else (0, 0, 0)
        rows.append(" ".join(f"0x{number:016x}" for number in row))
        start += 2 * size_bytes
    return "\n".join(rows)


def _switch(bus_id: str, card: int) -> tuple[tuple[str, ...], int]:
    """Give the way to the upstream port of a card's switch, and the processor it hangs on."""
    domain = _domain(bus_id)
    processor = card // CARDS_PER_PROCESSOR % PROCESSORS
    host_bus = HOST_BRIDGES[processor][0]
    root_port = f"{domain}:{host_bus:02x}:{1 + card % (DEVICES_PER_BUS - 1):02x}.0"
    upstream = f"{domain}:{_bus(UPSTREAM_BUS, card)}:00.0"
    return (f"pci{domain}:{host_bus:02x}", root_port, upstream), processor


def _domain(bus_id: str) -> str:
    return bus_id.partition(":")[0]


def _bus(first: int, number: int) -> str:
    return f"{first + number % 16:02x}"


def _link(link: Path, target: Path) -> None:
    """Link to a folder, unless something has the name already."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n", encoding="ascii")
