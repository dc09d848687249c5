"""Which cards this node has on its PCI buses, whether or not the driver sees them."""

from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.part import NodePart

VENDOR = "0x10de"
# Display controllers: 0x0300 VGA, 0x0302 3D (cards without an output).
DISPLAY_CLASS = "0x03"
# Bound to this, a card belongs to a virtual machine, and is none of this node's driver.
PASSED_THROUGH_DRIVER = "vfio-pci"


@dataclass
class PciBuses(NodePart):
    """The node's PCI devices, in sysfs."""

    id = "pci"
    sysfs: Path

    def card_count(self) -> int | None:
        """Count the vendor's cards of this node's own; None where sysfs does not tell.

        The virtual functions of a vGPU host are parts of a card, not cards.
        """
        try:
            return len(card_bus_ids(self.sysfs))
        except OSError:
            return None


def card_bus_ids(sysfs: Path) -> list[str]:
    """List the vendor's cards of this node's own, in order. Raises OSError without PCI buses."""
    folder = sysfs / "bus/pci/devices"
    return sorted(device.name for device in folder.iterdir() if _is_card(device))


def kernel_bus_id(bus_id: str) -> str:
    """Spell a driver's address as the kernel does: four digits of domain, and small letters."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain[-4:]}:{rest}".lower()


def _is_card(device: Path) -> bool:
    if _word(device / "vendor") != VENDOR or not _word(device / "class").startswith(DISPLAY_CLASS):
        return False
    if (device / "physfn").exists():
        return False
    return (device / "driver").resolve().name != PASSED_THROUGH_DRIVER


def _word(path: Path) -> str:
    """Read a one-word file; empty for a device that goes away while it is looked at."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
