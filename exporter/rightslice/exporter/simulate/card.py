"""What a scenario says of its cards: values of a file, not yet a running simulation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rightslice.exporter.simulate.load import Level

BYTES_PER_MIB = 1024**2
NEVER = Level(0.0, 0.0)

PROCESS_KINDS = ("compute", "graphics", "mps")
MEMORY_KINDS = ("dedicated", "unified", "os_managed")
# In the order of NVML's numbers, from 0.
VIRTUALIZATIONS = ("none", "passthrough", "vgpu", "host_vgpu")
# In the order of NVML's numbers, from 1.
SCHEDULERS = ("best_effort", "equal_share", "fixed_share")
# Why a card's clocks are held down.
THROTTLE_REASONS = (
    "sw_power_cap",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
    "sync_boost",
    "board_limit",
    "low_utilization",
    "reliability",
)


class ScenarioError(Exception):
    """A scenario is missing or malformed; the text says which, where and what to do."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Who holds a simulated card, as the kubelet would tell the companion exporter."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a card. `memory_bytes` is None where the driver does not tell it.

    `workload` names whose it is; it lives as long as that, in seconds from the node's start.
    `busy_ratio` is its own share of the card's time.
    """

    pid: int
    memory_bytes: int | None
    kind: str = "compute"
    workload: str = ""
    busy_ratio: Level = NEVER
    since_seconds: float = 0.0
    until_seconds: float = math.inf

    def is_there(self, after_seconds: float) -> bool:
        """Tell whether it runs so long after the node's start."""
        return self.since_seconds <= after_seconds < self.until_seconds


@dataclass(frozen=True, slots=True)
class Ecc:
    """Memory errors counted over the card's life."""

    corrected: int = 0
    uncorrected: int = 0


@dataclass(frozen=True, slots=True)
class RowRemap:
    """Rows of memory replaced by spares; `pending` waits for a reset of the card."""

    correctable: int = 0
    uncorrectable: int = 0
    pending: bool = False
    failure: bool = False


@dataclass(frozen=True, slots=True)
class NvLink:
    """Links to other cards. Traffic is that of all links together, and even among them."""

    links: int
    active: int
    tx_bytes_per_second: Level = NEVER
    rx_bytes_per_second: Level = NEVER


@dataclass(frozen=True, slots=True)
class Pcie:
    """The link to the host as it is, what it could be, and its traffic."""

    width: int
    width_max: int
    generation: int
    generation_max: int
    tx_bytes_per_second: Level = NEVER
    rx_bytes_per_second: Level = NEVER


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance; `start` is its first memory slice, ratios are of the instance.

    `compute` lists the compute slices of each compute instance; None is one that fills it all.
    """

    profile: str
    start: int
    memory_used_bytes: Level = NEVER
    sm_active_ratio: Level = NEVER
    busy_ratio: Level | None = None
    dram_active_ratio: Level | None = None
    sm_occupancy_ratio: Level | None = None
    compute: tuple[int, ...] | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Mig:
    """A card's MIG mode and instances; without `privileged` the driver refuses the overview."""

    enabled: bool = True
    pending: bool = True
    privileged: bool = True
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class VgpuInstance:
    """A virtual machine's part of a card; `busy_ratio` is of the whole physical card.

    `vm_id` is the machine's UUID or its domain id; None makes a UUID up.
    """

    type: str
    memory_used_bytes: Level = NEVER
    busy_ratio: Level = NEVER
    licensed: bool = True
    vm_id: str | None = None


@dataclass(frozen=True, slots=True)
class Vgpu:
    """The vGPU side of a host, or of a guest, for which only `licensed` matters."""

    scheduler: str = "best_effort"
    licensed: bool = True
    instances: tuple[VgpuInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulatedCard:
    """One card. None for a reading means that the card has no such thing.

    `faults` maps an NVML function, or "all", to the return code it gives instead of a value.
    `processes` says more than `process_count` and replaces it. Where `is_sum_of_processes`, the
    card's memory and busy time are those of the processes that are there.
    """

    uuid: str
    name: str
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: Level
    busy_ratio: Level
    sm_active_ratio: Level
    process_count: int
    workload: Workload | None = None
    faults: Mapping[str, int] = field(default_factory=dict)
    dram_active_ratio: Level | None = None
    sm_occupancy_ratio: Level | None = None
    context_switches_per_second: Level | None = None
    power_watts: Level | None = None
    temperature_celsius: Level | None = None
    memory_temperature_celsius: Level | None = None
    throttle: Mapping[str, Level] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    ecc: Ecc | None = None
    row_remap: RowRemap | None = None
    nvlink: NvLink | None = None
    pcie: Pcie | None = None
    memory_kind: str = "dedicated"
    virtualization: str = "none"
    mig: Mig | None = None
    vgpu: Vgpu | None = None
    pci_bus_id: str = ""
    is_sum_of_processes: bool = False

    @property
    def is_guest(self) -> bool:
        """Tell whether this is what a virtual machine sees of a card."""
        return self.virtualization == "vgpu"

    @property
    def is_vgpu_host(self) -> bool:
        return self.virtualization == "host_vgpu"

    def bus_id_at(self, index: int) -> str:
        """Give the PCI address, as NVML writes it; cards that name none stand side by side."""
        return self.pci_bus_id or f"00000000:{0x07 + index:02X}:00.0"
