"""What the kernel's own network stack sent and received on an interface."""

from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.netdevs import class_folder
from rightslice.exporter.host.net.sysfs import read_whole


@dataclass(frozen=True, slots=True)
class Traffic:
    """Running totals in bytes since the interface was created; None for what is not told."""

    received_bytes: int | None
    transmitted_bytes: int | None


def read_traffic(sysfs: Path, netdev: str) -> Traffic:
    """Read the kernel's statistics, which any container sees of its own interfaces."""
    folder = class_folder(sysfs) / netdev / "statistics"
    return Traffic(read_whole(folder / "rx_bytes"), read_whole(folder / "tx_bytes"))
