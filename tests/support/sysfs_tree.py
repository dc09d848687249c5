"""A small sysfs and procfs, written by a test: bridges, cards, network cards and their ports."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.check.kernel import Kernel
from rightslice.exporter.check.node import Node, look_at
from rightslice.exporter.host.paths import Paths, paths_below
from support.interfaces import silent_kernel

NVIDIA, MELLANOX = "0x10de", "0x15b3"
CARD_CLASS, ETHERNET_CLASS = "0x030200", "0x020000"
HOST_BRIDGE = "pci0000:3a"
ROOT_PORT = "0000:3a:00.0"
NIC, CARD = "0000:3b:00.0", "0000:3c:00.0"
ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"
RATE = "200 Gb/sec (4X HDR)"


@dataclass(frozen=True, slots=True)
class SysfsTree:
    """Writes below one folder. A function hangs below `way`, from the host bridge down."""

    root: Path

    @property
    def paths(self) -> Paths:
        return paths_below(self.root)

    @property
    def sysfs(self) -> Path:
        return self.root / "sys"

    def node(self, kernel: Kernel | None = None, excluded: Sequence[str] = ()) -> Node:
        return look_at(self.paths, kernel or silent_kernel(), excluded)

    def add_function(
        self,
        bus_id: str,
        files: Mapping[str, str] | None = None,
        *,
        way: Sequence[str] = (HOST_BRIDGE, ROOT_PORT),
        driver: str = "",
    ) -> Path:
        """Write a PCI function and, as folders, the bridges above; give its folder."""
        folder = self.sysfs.joinpath("devices", *way, bus_id)
        write(folder, files or {})
        link(self.sysfs / "bus/pci/devices" / bus_id, folder)
        if driver:
            module = self.sysfs / "bus/pci/drivers" / driver
            module.mkdir(parents=True, exist_ok=True)
            link(folder / "driver", module)
        return folder

    def add_card(
        self,
        bus_id: str = CARD,
        files: Mapping[str, str] | None = None,
        *,
        way: Sequence[str] = (HOST_BRIDGE, "0000:3a:01.0"),
        driver: str = "nvidia",
    ) -> Path:
        usual = {"vendor": NVIDIA, "class": CARD_CLASS}
        return self.add_function(bus_id, usual | dict(files or {}), way=way, driver=driver)

    def add_nic(
        self,
        name: str = "mlx5_0",
        bus_id: str = NIC,
        files: Mapping[str, str] | None = None,
        *,
        netdev: str = "",
        way: Sequence[str] = (HOST_BRIDGE, ROOT_PORT),
        driver: str = "mlx5_core",
        link_layer: str = "InfiniBand",
        state: str = ACTIVE,
        rate: str = RATE,
        model: str = "MT4123",
        ports: int = 1,
        hw_counters: bool = True,
    ) -> Path:
        """Write a function with an RDMA device; with a `netdev` it is one of Ethernet."""
        usual = {"vendor": MELLANOX, "class": ETHERNET_CLASS}
        function = self.add_function(bus_id, usual | dict(files or {}), way=way, driver=driver)
        folder = function / "infiniband" / name
        write(folder, {"node_type": "1: CA", "hca_type": model})
        link(folder / "device", function)
        link(self.sysfs / "class/infiniband" / name, folder)
        for number in range(1, ports + 1):
            port = folder / "ports" / str(number)
            layer = "Ethernet" if netdev else link_layer
            write(port, {"state": state, "rate": rate, "link_layer": layer})
            if hw_counters:
                write(port / "hw_counters", {"lifespan": "10"})
        if netdev:
            self.add_netdev(netdev, function)
        return folder

    def add_netdev(self, name: str, function: Path, files: Mapping[str, str] | None = None) -> None:
        folder = function / "net" / name
        write(folder, {"dev_port": "0", "operstate": "up"} | dict(files or {}))
        link(folder / "device", function)
        link(self.sysfs / "class/net" / name, folder)

    def add_bond(self, name: str, members: Sequence[str]) -> None:
        folder = self.sysfs / "class/net" / name
        write(folder / "bonding", {"slaves": " ".join(members)})

    def write_proc(self, name: str, text: str) -> None:
        path = self.root / "proc" / name
        write(path.parent, {path.name: text})


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files as sysfs has them, with a line's end."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")


def link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def pcie(current: str, most: str) -> dict[str, str]:
    """Give the files of a link from words such as "16.0 x8"."""
    files: dict[str, str] = {}
    for which, words in (("current", current), ("max", most)):
        speed, _, lanes = words.partition(" x")
        files |= {f"{which}_link_speed": f"{speed} GT/s PCIe", f"{which}_link_width": lanes}
    return files


def make_unreadable(path: Path) -> None:
    """Put a folder where a file was: no user, root neither, can read it."""
    path.unlink(missing_ok=True)
    os.mkdir(path)
