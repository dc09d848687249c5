"""The network cards of a simulated node as sysfs shows them."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightslice.exporter.simulate.nic import ETHERNET, INFINIBAND, MODELS, VENDORS
from rightslice.exporter.simulate.nic_counters import is_of_device, rows_of
from rightslice.exporter.simulate.nic_state import NicState
from rightslice.exporter.simulate.pci_tree import Place, add_function, bind, link_files, resources
from rightslice.facts.nics import HARDWARE_FILE, PORT_FILE

CLASSES = {ETHERNET: "0x020000", INFINIBAND: "0x020700"}
LAYERS = {ETHERNET: "Ethernet", INFINIBAND: "InfiniBand"}
CHANNEL_ADAPTER = "1: CA"
FOLDERS = {PORT_FILE: "counters", HARDWARE_FILE: "hw_counters"}
BAR_BYTES = 32 * 1024**2
TOTAL_VFS = 16
LIFESPAN_MILLISECONDS = "10"
# The kernel's numbers of kinds of links.
ARP_TYPES = {ETHERNET: "1", INFINIBAND: "32"}
MEGABITS_PER_GIGABIT = 1000
FLAGS, FILE_MODE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644


class NicTree:
    """Writes the folders of one network card: its function, its interfaces, its RDMA device.

    `members` are the states that its RDMA device shows, in a bond all of its members; empty for a
    function without one. `physical` is where the function is that this is a virtual one of.
    """

    def __init__(
        self,
        sysfs: Path,
        place: Place,
        state: NicState,
        members: Sequence[NicState],
        verbs_number: int,
        virtual_count: int,
        physical: Place | None,
    ) -> None:
        self._sysfs = sysfs
        self._place = place
        self._state = state
        self._members = members
        self._verbs_number = verbs_number
        self._virtual_count = virtual_count
        self._physical = physical
        self._texts: dict[str, str] = {}
        self._links: list[Path] = []
        self._folder = sysfs.joinpath("devices", *place.way)

    def build(self) -> None:
        """Write the function, which stays, and all that the driver makes below it."""
        nic = self._state.nic
        pcie = nic.pcie
        files = {
            "vendor": VENDORS[nic.driver],
            "class": CLASSES[nic.link_layer],
            "resource": resources(BAR_BYTES),
            **link_files(pcie.width, pcie.width_max, pcie.generation, pcie.generation_max),
        }
        if self._physical is None:
            files |= {"sriov_numvfs": str(self._virtual_count), "sriov_totalvfs": str(TOTAL_VFS)}
        add_function(self._sysfs, self._place, files)
        if self._physical is not None:
            physical = self._sysfs.joinpath("devices", *self._physical.way)
            (self._folder / "physfn").symlink_to(physical)
            number = len(list(physical.glob("virtfn*")))
            (physical / f"virtfn{number}").symlink_to(self._folder)

    def appear(self, now_seconds: float) -> None:
        """Write what is there while the driver is loaded."""
        nic = self._state.nic
        self._links.append(bind(self._sysfs, self._folder, nic.module))
        self._add_netdev(nic.netdev, {})
        for number, name in enumerate(nic.netdevs[1:]):
            self._add_netdev(name, {"phys_port_name": f"pf0vf{number}", "phys_switch_id": "a0b1c2"})
        if self._members:
            self._add_device()
        self.update(now_seconds)

    def vanish(self) -> None:
        """Take away what the driver made. Who holds a file open reads nothing from it any more."""
        for path in self._texts:
            os.truncate(path, 0)
        self._texts = {}
        for link in self._links:
            link.unlink(missing_ok=True)
        self._links = []
        for name in ("net", "infiniband", "infiniband_verbs"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def update(self, now_seconds: float) -> None:
        """Write what is another text than before, into the same files."""
        for path, text in self._wanted(now_seconds).items():
            if self._texts.get(path) != text:
                _write(path, text)
                self._texts[path] = text

    def _add_netdev(self, name: str, files: Mapping[str, str]) -> None:
        folder = self._folder / "net" / name
        (folder / "statistics").mkdir(parents=True)
        usual = {"dev_port": "0", "dev_id": "0x0", "type": ARP_TYPES[self._state.nic.link_layer]}
        for file, text in (usual | dict(files)).items():
            _write(folder / file, text)
        (folder / "device").symlink_to(self._folder)
        self._link(folder, self._sysfs / "class/net" / name)

    def _add_device(self) -> None:
        nic = self._state.nic
        folder = self._device_folder
        (folder / "ports/1/gid_attrs/ndevs").mkdir(parents=True)
        (folder / "device").symlink_to(self._folder)
        self._link(folder, self._sysfs / "class/infiniband" / nic.name)
        verbs = self._folder / "infiniband_verbs" / f"uverbs{self._verbs_number}"
        verbs.mkdir(parents=True)
        _write(verbs / "ibdev", nic.name)
        (verbs / "device").symlink_to(self._folder)
        self._link(verbs, self._sysfs / "class/infiniband_verbs" / verbs.name)
        _write(folder / "node_type", CHANNEL_ADAPTER)
        _write(folder / "fw_ver", nic.firmware)
        _write(folder / "hca_type", nic.model or MODELS[nic.driver])
        netdev = nic.bond or nic.netdev
        for slot in range(2):
            _write(folder / "ports/1/gid_attrs/ndevs" / str(slot), netdev)

    @property
    def has_device(self) -> bool:
        return bool(self._members)

    @property
    def _device_folder(self) -> Path:
        return self._folder / "infiniband" / self._state.nic.name

    def _wanted(self, now_seconds: float) -> dict[str, str]:
        """Give the text that each file that changes should have, by its path."""
        nic = self._state.nic
        pcie = nic.pcie
        link = link_files(pcie.width, pcie.width_max, pcie.generation, pcie.generation_max)
        wanted = {f"{self._folder}/{name}": text for name, text in link.items()}
        for name in nic.netdevs:
            folder = f"{self._folder}/net/{name}"
            wanted |= {f"{folder}/{file}": text for file, text in self._link_texts().items()}
        wanted |= self._traffic_texts(now_seconds)
        if self._members:
            wanted |= self._device_texts(now_seconds)
        return wanted

    def _link_texts(self) -> dict[str, str]:
        state = self._state
        nic = state.nic
        down, up = state.carrier_down_count, state.carrier_up_count
        return {
            "carrier": str(int(nic.is_up)),
            "carrier_changes": str(down + up),
            "carrier_down_count": str(down),
            "carrier_up_count": str(up),
            "operstate": nic.link,
            "speed": str(int(nic.rate_gigabits * MEGABITS_PER_GIGABIT)) if nic.is_up else "-1",
        }

    def _traffic_texts(self, now_seconds: float) -> dict[str, str]:
        """Give what the kernel's network stack sent and received, by the card's own interface."""
        folder = f"{self._folder}/net/{self._state.nic.netdev}/statistics"
        keys = {
            "rx_bytes": "rdma_vport_ethernet_receive_unicast_bytes_total",
            "tx_bytes": "rdma_vport_ethernet_transmit_unicast_bytes_total",
        }
        return {
            f"{folder}/{file}": str(int(self._state.count((metric, ()), now_seconds)))
            for file, metric in keys.items()
        }

    def _device_texts(self, now_seconds: float) -> dict[str, str]:
        nic, folder = self._state.nic, str(self._device_folder)
        port = f"{folder}/ports/1"
        is_up = any(member.nic.is_up for member in self._members)
        down_text = "3: Disabled" if nic.link_layer == ETHERNET else "2: Polling"
        texts = {
            f"{port}/state": "4: ACTIVE" if is_up else "1: DOWN",
            f"{port}/phys_state": "5: LinkUp" if is_up else down_text,
            f"{port}/rate": nic.rate_text,
            f"{port}/link_layer": LAYERS[nic.link_layer],
        }
        for source, name in FOLDERS.items():
            for file, row in rows_of(nic, source).items():
                place = folder if is_of_device(nic, row) else port
                # A bond's device counts what goes through all members.
                registers = (member.register(row, now_seconds) for member in self._members)
                texts[f"{place}/{name}/{file}"] = str(sum(registers))
                if source == HARDWARE_FILE:
                    texts[f"{place}/{name}/lifespan"] = LIFESPAN_MILLISECONDS
        return texts

    def _link(self, target: Path, link: Path) -> None:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        self._links.append(link)


def add_bond(sysfs: Path, name: str, members: Sequence[str]) -> None:
    """Write an interface of software that joins others."""
    folder = sysfs / "devices/virtual/net" / name
    (folder / "bonding").mkdir(parents=True)
    _write(folder / "bonding/slaves", " ".join(members))
    _write(folder / "bonding/mode", "802.3ad 4")
    _write(folder / "carrier", "1")
    _write(folder / "type", ARP_TYPES[ETHERNET])
    link = sysfs / "class/net" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)


def _write(path: Path | str, text: str) -> None:
    """Write a file as sysfs has them; one that is there keeps its inode, and is never empty."""
    line = f"{text}\n".encode()
    try:
        descriptor = os.open(path, FLAGS, FILE_MODE)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True)
        descriptor = os.open(path, FLAGS, FILE_MODE)
    try:
        os.pwrite(descriptor, line, 0)
        os.ftruncate(descriptor, len(line))
    finally:
        os.close(descriptor)
