"""The node's RDMA devices and network interfaces as they stand, each with its reader."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.net import distance
from rightslice.exporter.host.net.devices import (
    RdmaDevice,
    RdmaFinder,
    RdmaPort,
    excluded_functions,
)
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.netdevs import Netdev, NetdevFinder
from rightslice.exporter.host.net.nic_reader import NicReader
from rightslice.exporter.host.net.pci_function import VIRTUAL
from rightslice.exporter.host.net.pfc_sight import (
    DRIVER,
    PFC_OFF,
    VIRTUAL_FUNCTION,
    Sight,
    sight_of_port,
)
from rightslice.exporter.host.net.rdma_reader import RdmaReader
from rightslice.exporter.host.net.topology import Topology
from rightslice.exporter.host.net.topology_file import Place
from rightslice.exporter.host.part import NodePart
from rightslice.facts.nics import ETHTOOL, find_nic_driver

FIND_SECONDS = 10.0
# Of an interface whose driver's counters are not known.
NOT_READ = Sight(False, DRIVER)
# What a driver hides of a part of a function, it hides because it is one.
HIDDEN_BY_DRIVER = (DRIVER, PFC_OFF)


@dataclass(eq=False)
class Network(NodePart):
    """Looks every ten seconds for what has come and gone. What stays keeps its reader.

    `cards` gives the places of the node's cards on the PCI bus by their UUIDs. `excluded` are
    patterns of names of RDMA devices that are never read, nor are their interfaces; functions of
    which the physical one is on this node are, if `reads_virtual` says so. Read by one thread; the
    readers may be listed by any.
    """

    sysfs: Path
    clock: Clock
    ethtool: Ethtool
    enabled_by_kernel: Callable[[str], Mapping[str, bool] | None]
    cards: Callable[[], Mapping[str, str]]
    topology: Topology
    excluded: tuple[str, ...] = ()
    shows_idle_priorities: bool = False
    rdma: tuple[RdmaReader, ...] = ()
    nics: tuple[NicReader, ...] = ()
    reads_virtual: bool = False
    _rdma_finder: RdmaFinder = field(init=False)
    _netdev_finder: NetdevFinder = field(init=False)
    _found_seconds: float = field(default=float("-inf"))
    # Names of devices and interfaces that were there at any time.
    _seen: set[str] = field(default_factory=set)
    _ethtool_lock: threading.Lock = field(default_factory=threading.Lock)
    _nearest_key: object = None
    _nearest: tuple[tuple[str, str, str], ...] = ()

    id = lane = "network"
    asks_driver = False

    def __post_init__(self) -> None:
        self._rdma_finder = RdmaFinder(self.sysfs, self.excluded, with_virtual=self.reads_virtual)
        self._netdev_finder = NetdevFinder(self.sysfs)

    def refresh(self) -> None:
        """Look, if it is time. Who has gone is closed by the lane that read it.

        Raises ReadingError where no file can be opened any more: what was known stays, and the next
        call looks again.
        """
        now_seconds = self.clock.monotonic_seconds()
        self.topology.refresh(now_seconds)
        if now_seconds - self._found_seconds < FIND_SECONDS:
            return
        netdevs = self._netdev_finder.find()
        devices = self._rdma_finder.find(netdevs, now_seconds)
        not_read = excluded_functions(self.sysfs, self.excluded)
        self._found_seconds = now_seconds
        known_rdma = {_hardware(reader.device): reader for reader in self.rdma}
        self.rdma = tuple(
            self._rdma_reader(device, known_rdma.get(_hardware(device))) for device in devices
        )
        self._seen |= {reader.id for reader in self.rdma}
        known_nics = {reader.netdev: reader for reader in self.nics}
        self.nics = tuple(
            known_nics.get(netdev) or self._nic_reader(netdev)
            for netdev in netdevs
            if self._is_read(netdev) and netdev.pci_bus_id not in not_read
        )
        self._seen |= {_interface(reader.netdev) for reader in self.nics}

    def _is_read(self, netdev: Netdev) -> bool:
        if netdev.is_virtual and not self.reads_virtual:
            return False
        return not (netdev.is_representor or netdev.is_child) and _has_counters(netdev.driver)

    def _rdma_reader(self, device: RdmaDevice, known: RdmaReader | None) -> RdmaReader:
        """Give the reader that there is for the same hardware, which goes on with its counters."""
        if known is not None:
            known.device = device
            return known
        return RdmaReader(self.sysfs, device, self.clock, has_returned=device.name in self._seen)

    def _nic_reader(self, netdev: Netdev) -> NicReader:
        return NicReader(
            self.sysfs,
            netdev,
            self.ethtool,
            self.enabled_by_kernel,
            self.clock,
            self.shows_idle_priorities,
            has_returned=_interface(netdev) in self._seen,
            lock=self._ethtool_lock,
        )

    def sights(self) -> Iterator[tuple[str, RdmaPort, Sight]]:
        """Tell of each port, by its device's name, whether its pauses are seen."""
        by_netdev = {reader.netdev.name: reader.sight for reader in self.nics}
        for reader in self.rdma:
            for port in reader.device.ports:
                sights = [by_netdev.get(netdev, NOT_READ) for netdev in port.netdevs]
                is_virtual = reader.device.function == VIRTUAL
                sight = sight_of_port(port, is_virtual, sights)
                if sight is None:
                    continue
                if is_virtual and not sight.is_seen and sight.reason in HIDDEN_BY_DRIVER:
                    sight = Sight(False, VIRTUAL_FUNCTION)
                yield reader.device.name, port, sight

    def places(self) -> Iterator[tuple[str, RdmaPort, Place]]:
        """Tell of each port, by its device's name, where it hangs."""
        for reader in self.rdma:
            for port in reader.device.ports:
                place = self.topology.of(reader.device.name, port.number, port.netdevs)
                if place is not None:
                    yield reader.device.name, port, place

    def nearest(self) -> tuple[tuple[str, str, str], ...]:
        """Give each card's UUID, the devices that are nearest to it, and how near they are.

        Only those with an active port count, if any has one.
        """
        cards = tuple(self.cards().items())
        physical = [
            reader
            for reader in self.rdma
            if reader.device.pci_bus_id and not reader.device.is_virtual
        ]
        active = [
            reader
            for reader in physical
            if any(state.is_up for state in tuple(reader.states.values()))
        ]
        places = {reader.id: reader.device.pci_bus_id for reader in active or physical}
        key = (cards, tuple(places.items()))
        if key != self._nearest_key:  # some hundred calls of the kernel
            self._nearest_key, self._nearest = key, tuple(self._find_nearest(cards, places))
        return self._nearest

    def _find_nearest(
        self, cards: tuple[tuple[str, str], ...], places: Mapping[str, str]
    ) -> Iterator[tuple[str, str, str]]:
        for uuid, bus_id in cards:
            found = distance.nearest(self.sysfs, bus_id, places)
            if found is not None:
                how_near, devices = found
                yield from ((uuid, device, how_near) for device in devices)


def _hardware(device: RdmaDevice) -> tuple[str, str, str]:
    """Tell what stays while firmware, addresses and interfaces of a device may change."""
    return device.name, device.driver, device.pci_bus_id


def _interface(netdev: Netdev) -> str:
    """Name an interface so that it is no RDMA device, and no other card's."""
    return f"{netdev.name} {netdev.pci_bus_id}"


def _has_counters(driver: str) -> bool:
    facts = find_nic_driver(driver)
    return facts is not None and bool(facts.rows[ETHTOOL])
