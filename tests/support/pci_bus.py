"""A PCI bus in sysfs, with the devices that a test puts on it."""

from pathlib import Path

OURS = "0x10de"
GPU_3D, GPU_VGA, SWITCH, AUDIO = "0x030200", "0x030000", "0x068000", "0x040300"


def plug(sysfs: Path, address: str, *, vendor: str = OURS, kind: str = GPU_3D) -> Path:
    """Put a device on the bus as the kernel shows it, a link to where it hangs; give its folder."""
    device = sysfs / "devices/pci0000:00" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n", encoding="ascii")
    (device / "class").write_text(f"{kind}\n", encoding="ascii")
    bus = sysfs / "bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / address).symlink_to(device)
    return device


def bind(sysfs: Path, device: Path, driver: str) -> None:
    """Let a device belong to a driver."""
    folder = sysfs / "bus/pci/drivers" / driver
    folder.mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(folder)
