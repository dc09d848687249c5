"""The hours that feeders put into the ledger: of cards, slices, workloads and ports.

None means that the source tells no such thing; 0 that it told none happened. Bins count
observations in the contract's edges, each of which stands for the signal's interval.
"""

from dataclasses import dataclass
from datetime import datetime

SECONDS_PER_HOUR = 3600

SOURCE_RIGHTSLICE, SOURCE_DCGM = "rightslice", "dcgm"
# Who is believed where two sources tell of the same card and hour; any other exporter comes last.
SOURCE_PRECEDENCE = {SOURCE_RIGHTSLICE: 2, SOURCE_DCGM: 1}

KIND_MIG, KIND_VGPU = "mig", "vgpu"
KIND_RDMA, KIND_NETDEV = "rdma", "netdev"

Bins = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CardHour:
    """What was seen of one card in one hour.

    Seconds of each signal are those covered by its samples; `sm_active_seconds` and
    `dram_active_seconds` are seconds times the active share, of `sm_observed_seconds`.
    `busy_signal` names the reading behind `busy_bins`. `throttled_seconds` are those of the reason
    that held the clocks down longest, since reasons overlap.
    """

    uuid: str
    hour: datetime
    source: str
    owned_seconds: float = SECONDS_PER_HOUR
    observed_seconds: float = 0.0
    allocation_observed_seconds: float = 0.0
    allocated_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    unrequested_busy_seconds: float = 0.0
    memory_total_bytes: int | None = None
    memory_used_peak_bytes: int | None = None
    memory_bins: Bins | None = None
    busy_bins: Bins | None = None
    sm_active_bins: Bins | None = None
    busy_signal: str = ""
    memory_interval_seconds: float = 0.0
    busy_interval_seconds: float = 0.0
    sm_active_interval_seconds: float = 0.0
    quality: tuple[str, ...] = ()
    # The last reading in the hour; None where there was none.
    seen_until: datetime | None = None
    sm_observed_seconds: float = 0.0
    sm_active_seconds: float = 0.0
    dram_active_seconds: float = 0.0
    throttled_seconds: float | None = None
    throttle_reason: str = ""
    energy_joules: float | None = None
    nvlink_bytes: float | None = None
    pcie_bytes: float | None = None
    xid_count: int | None = None
    ecc_uncorrected_count: int | None = None


@dataclass(frozen=True, slots=True)
class SliceHour:
    """What was seen of one MIG instance or vGPU in one hour.

    `slice_uuid` is the MIG UUID of the instance's first compute instance, or the vGPU's UUID; where
    the source tells none, "CARD/gi/ID/PROFILE". `units` of the card's `card_units` placement units
    are its share of the card's money. Busy seconds are those of its multiprocessors' activity.
    """

    uuid: str
    slice_uuid: str
    kind: str
    gpu_instance_id: str
    profile: str
    units: int
    card_units: int
    hour: datetime
    source: str
    owned_seconds: float = SECONDS_PER_HOUR
    observed_seconds: float = 0.0
    allocation_observed_seconds: float = 0.0
    allocated_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    unrequested_busy_seconds: float = 0.0
    dram_active_seconds: float | None = None
    memory_total_bytes: int | None = None
    memory_used_peak_bytes: int | None = None
    sm_active_bins: Bins | None = None
    sm_active_interval_seconds: float = 0.0
    quality: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadHour:
    """What was seen of one workload on one card, or slice of it, in one hour.

    `observed_seconds` are those in which its memory was seen. Wait and its bound are of its
    contexts together; `wait_source` tells the method.
    """

    kind: str
    namespace: str
    pod: str
    container: str
    uuid: str
    hour: datetime
    source: str
    allocated_seconds: float
    slice_uuid: str = ""
    observed_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    wait_seconds: float | None = None
    wait_bound_seconds: float | None = None
    wait_source: str = ""
    cpu_seconds: float | None = None
    memory_limit_bytes: int | None = None
    memory_limit_source: str = ""
    memory_used_peak_bytes: int | None = None
    memory_bins: Bins | None = None
    busy_bins: Bins | None = None
    memory_interval_seconds: float = 0.0
    busy_interval_seconds: float = 0.0
    quality: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OomHour:
    """How often a workload ran out of memory in one hour, by cause; on whichever card."""

    kind: str
    namespace: str
    pod: str
    container: str
    hour: datetime
    source: str
    cause: str
    count: int


@dataclass(frozen=True, slots=True)
class EngineHour:
    """What a workload's serving engine told of itself in one hour.

    Peaks are of the readings. Quantiles are of the requests that ended in the hour, interpolated
    in the engine's own edges.
    """

    kind: str
    namespace: str
    pod: str
    container: str
    hour: datetime
    source: str
    engine: str
    model: str = ""
    kv_cache_peak_ratio: float | None = None
    kv_cache_capacity_tokens: int | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    request_count: float | None = None
    request_p99_seconds: float | None = None
    first_token_p99_seconds: float | None = None
    preemption_count: float | None = None
    # How much of the card's memory it was told to take.
    memory_share_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class OwnerHour:
    """How many replicas an owner of workloads (a Deployment and the like) had in one hour."""

    cluster: str
    namespace: str
    owner_kind: str
    owner: str
    hour: datetime
    source: str
    observed_seconds: float
    replicas_mean: float
    replicas_min: int
    replicas_max: int
    scale_up_count: int
    scale_down_count: int
    # Whether an autoscaler sets their number; None where nobody tells of autoscalers.
    is_autoscaled: bool | None = None


@dataclass(frozen=True, slots=True)
class PortHour:
    """What passed one port in one hour: of an RDMA port, or of a network device.

    The two are never added: an RDMA port's bytes pass its network device as well. A network
    device has no `device`, and its name is the `port`. Pause seconds are of the priority that was
    held longest; received means that the peer stopped us.
    """

    node: str
    device: str
    port: str
    kind: str
    hour: datetime
    source: str
    observed_seconds: float = 0.0
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    pause_received_seconds: float | None = None
    pause_transmitted_seconds: float | None = None
    pause_received_peak_ratio: float | None = None
    pause_transmitted_peak_ratio: float | None = None
    loss_count: float | None = None
    congestion_count: float | None = None
    error_count: float | None = None
    link_down_count: float | None = None
