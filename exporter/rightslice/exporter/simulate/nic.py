"""What a scenario says of its network cards: values of a file, not yet a running simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rightslice.exporter.host.net.distance import PIX
from rightslice.exporter.simulate.card import NEVER
from rightslice.exporter.simulate.load import Level

INFINIBAND, ETHERNET = LINK_LAYERS = ("infiniband", "ethernet")
UP, DOWN = LINKS = ("up", "down")
# By the id of a driver in the table of facts: its kernel module, the names of its RDMA devices
# before their number, their model and firmware, and the vendor and device on the PCI bus.
DRIVERS = ("mlx5", "bnxt", "ice")
MODULES = {"mlx5": "mlx5_core", "bnxt": "bnxt_en", "ice": "ice"}
DEVICE_STEMS = {"mlx5": "mlx5_", "bnxt": "bnxt_re", "ice": "irdma"}
MODELS = {"mlx5": "MT4129", "bnxt": "BCM57608", "ice": ""}
FIRMWARES = {"mlx5": "28.43.1014", "bnxt": "231.0.153.0", "ice": "1.71"}
VENDORS = {"mlx5": "0x15b3", "bnxt": "0x14e4", "ice": "0x8086"}
PRIORITIES = range(8)
USUAL_PFC_PRIORITY = 3
# What a port of a rate is called, by the Gb/s of one of its lanes.
LANE_SPEEDS = {
    2.5: "SDR",
    5.0: "DDR",
    10.0: "QDR",
    14.0: "FDR",
    25.0: "EDR",
    50.0: "HDR",
    100.0: "NDR",
    200.0: "XDR",
}
BYTES_PER_GIGABIT = 125_000_000
# Words of the table of facts for what hardware, firmware or settings may lack.
CAPABILITIES = ("stall_detect", "sbcam", "per_lane_counters", "p5_p7", "ext_stats", "gen2")

# A counter by its metric, without the prefix, and the values of its labels.
CounterKey = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Pause:
    """How a priority is held: shares of time, by the peer and by us, and how long each pause is."""

    received_ratio: Level = NEVER
    transmitted_ratio: Level = NEVER
    mean_seconds: float = 20e-6


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The link to the host, and the most that there could be."""

    width: int = 16
    width_max: int = 16
    generation: int = 5
    generation_max: int = 5


@dataclass(frozen=True, slots=True)
class SimulatedNic:
    """One PCI function with a network port, and what goes through it.

    `card` is the position of the card that it is placed by, as far away as `distance` says.
    `physical` is the position of the function that this is a virtual one of. Those with the same
    `bond` are its members, and have one RDMA device together. `representors` are interfaces that
    stand for others' virtual functions; with some, the driver is in switchdev mode. Where it hangs
    (`rail`, `switch`, `switch_port`) is empty where nobody tells. RDMA goes by the first priority
    with PFC, all else by 0.
    """

    driver: str
    name: str
    netdev: str
    link_layer: str = ETHERNET
    rate_gigabits: float = 400.0
    lanes: int = 4
    pci_bus_id: str = ""
    card: int = 0
    distance: str = PIX
    pcie: PcieLink = PcieLink()
    firmware: str = ""
    model: str = ""
    physical: int | None = None
    bond: str = ""
    representors: int = 0
    lacks: frozenset[str] = frozenset()
    rail: str = ""
    switch: str = ""
    switch_port: str = ""
    link: str = UP
    pfc_priorities: tuple[int, ...] = (USUAL_PFC_PRIORITY,)
    link_pause: bool = False
    pfc_watchdog_milliseconds: int = 100
    rdma_rx_bytes_per_second: Level = NEVER
    rdma_tx_bytes_per_second: Level = NEVER
    ethernet_rx_bytes_per_second: Level = NEVER
    ethernet_tx_bytes_per_second: Level = NEVER
    rdma_packet_bytes: int = 4096
    pauses: Mapping[int, Pause] = field(default_factory=dict)
    pcie_stalled_reads_ratio: Level = NEVER
    pcie_stalled_writes_ratio: Level = NEVER
    # In the units of their metrics; the registers' own values at the start.
    counters_per_second: Mapping[CounterKey, Level] = field(default_factory=dict)
    first_registers: Mapping[CounterKey, int] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return MODULES[self.driver]

    @property
    def netdevs(self) -> tuple[str, ...]:
        """Give its interfaces: its own first, then those that stand for others."""
        return (self.netdev, *(f"{self.netdev}_{number}" for number in range(self.representors)))

    @property
    def is_virtual(self) -> bool:
        return self.physical is not None

    @property
    def is_up(self) -> bool:
        return self.link == UP

    @property
    def is_switchdev(self) -> bool:
        return self.representors > 0

    @property
    def bytes_per_second(self) -> float:
        return self.rate_gigabits * BYTES_PER_GIGABIT

    @property
    def rdma_priority(self) -> int:
        return self.pfc_priorities[0] if self.pfc_priorities else 0

    @property
    def rate_text(self) -> str:
        """Spell the rate as sysfs does; a port of RoCE that is down shows a rate that is none."""
        if not self.is_up and self.link_layer == ETHERNET:
            return "40 Gb/sec (4X QDR)"
        speed = LANE_SPEEDS[self.rate_gigabits / self.lanes]
        return f"{self.rate_gigabits:g} Gb/sec ({self.lanes}X {speed})"


@dataclass(frozen=True, slots=True)
class NicEvent:
    """Changes of one network card at one time after the node's start.

    `changes` are values of SimulatedNic by name. `present` takes the driver out, or loads it anew:
    then all counts from 0. `reset` lets all counters begin at 0 where they are.
    """

    at_seconds: float
    nic: int
    changes: Mapping[str, Any] = field(default_factory=dict)
    present: bool | None = None
    reset: bool = False
