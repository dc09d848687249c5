"""The table of our exporter's metrics: of what each tells, which field of its hour, and how.

This is the one place that knows; what a feeder has to fetch of ours follows from it.
"""

from collections.abc import Mapping

from rightslice.contract import metrics, nic_metrics, oom_metrics, workload_metrics
from rightslice.contract.metrics import SIGNAL_ALLOCATION, SIGNAL_BUSY, SIGNAL_COMPUTE
from rightslice.contract.metrics import SIGNAL_MEMORY as MEMORY
from rightslice.contract.spec import MetricSpec, Unit
from rightslice.feeders.ours.port_metrics import PORT_RULES
from rightslice.feeders.ours.rules import GROWING, How, Rule, Thing
from rightslice.profile.flags import FLAG_WAIT_MAY_BE_LOW

# Far above what there is, far below what a counter shows that is none.
MOST_WATTS = 5_000.0
MOST_LINK_BYTES_PER_SECOND = 1e13
MOST_PROCESSORS = 1_024.0
# A workload waits for at most a second in each second and context.
MOST_CONTEXTS = 256.0
MOST_EVENTS_PER_SECOND = 1e9
UNCORRECTED = "uncorrected"


def _signal(thing: Thing, spec: MetricSpec, signal: str, field: str) -> Rule:
    return Rule(spec, thing, field, only={"signal": signal})


_OBSERVED = metrics.GPU_OBSERVED_SECONDS_TOTAL
CARD_RULES = (
    _signal(Thing.CARD, _OBSERVED, MEMORY, "observed_seconds"),
    _signal(Thing.CARD, _OBSERVED, SIGNAL_BUSY, "busy_observed_seconds"),
    _signal(Thing.CARD, _OBSERVED, SIGNAL_ALLOCATION, "allocation_observed_seconds"),
    Rule(metrics.GPU_ALLOCATED_SECONDS_TOTAL, Thing.CARD, "allocated_seconds"),
    Rule(metrics.GPU_BUSY_SECONDS_TOTAL, Thing.CARD, "busy_seconds"),
    Rule(metrics.GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, Thing.CARD, "unrequested_busy_seconds"),
    Rule(metrics.GPU_SM_OBSERVED_SECONDS_TOTAL, Thing.CARD, "sm_observed_seconds"),
    Rule(metrics.GPU_SM_ACTIVE_SECONDS_TOTAL, Thing.CARD, "sm_active_seconds"),
    Rule(metrics.GPU_DRAM_ACTIVE_SECONDS_TOTAL, Thing.CARD, "dram_active_seconds"),
    # The exporter tells only reasons that hold a working card back: none that mean that it is idle,
    # or that its user set its clocks.
    Rule(metrics.GPU_THROTTLE_SECONDS_TOTAL, Thing.CARD, "throttled_seconds", part="reason"),
    Rule(metrics.GPU_ENERGY_JOULES_TOTAL, Thing.CARD, "energy_joules", most_per_second=MOST_WATTS),
    Rule(
        metrics.GPU_NVLINK_BYTES_TOTAL,
        Thing.CARD,
        "nvlink_bytes",
        most_per_second=MOST_LINK_BYTES_PER_SECOND,
    ),
    Rule(
        metrics.GPU_PCIE_BYTES_TOTAL,
        Thing.CARD,
        "pcie_bytes",
        most_per_second=MOST_LINK_BYTES_PER_SECOND,
    ),
    Rule(
        metrics.GPU_XID_ERRORS_TOTAL,
        Thing.CARD,
        "xid_count",
        How.EVENTS,
        most_per_second=MOST_EVENTS_PER_SECOND,
    ),
    Rule(
        metrics.GPU_ECC_ERRORS_TOTAL,
        Thing.CARD,
        "ecc_uncorrected_count",
        How.EVENTS,
        most_per_second=MOST_EVENTS_PER_SECOND,
        only={"type": UNCORRECTED},
    ),
    Rule(metrics.GPU_MEMORY_TOTAL_BYTES, Thing.CARD, "memory_total_bytes", How.LAST),
    Rule(metrics.GPU_MEMORY_USED_PEAK_BYTES, Thing.CARD, "memory_used_peak_bytes", How.PEAK),
    Rule(metrics.GPU_MEMORY_USED_RATIO, Thing.CARD, "memory", How.BINS, signal=MEMORY),
    Rule(metrics.GPU_BUSY_RATIO, Thing.CARD, "busy", How.BINS, signal=SIGNAL_COMPUTE),
    Rule(metrics.GPU_SM_ACTIVE_RATIO, Thing.CARD, "sm_active", How.BINS, signal=SIGNAL_COMPUTE),
)
SLICE_RULES = (
    Rule(metrics.MIG_INSTANCE_OBSERVED_SECONDS_TOTAL, Thing.SLICE, "observed_seconds"),
    Rule(metrics.GPU_SM_OBSERVED_SECONDS_TOTAL, Thing.SLICE, "busy_observed_seconds"),
    Rule(metrics.GPU_SM_ACTIVE_SECONDS_TOTAL, Thing.SLICE, "busy_seconds"),
    Rule(metrics.GPU_DRAM_ACTIVE_SECONDS_TOTAL, Thing.SLICE, "dram_active_seconds"),
    Rule(metrics.MIG_INSTANCE_MEMORY_TOTAL_BYTES, Thing.SLICE, "memory_total_bytes", How.LAST),
    Rule(
        metrics.MIG_INSTANCE_MEMORY_USED_PEAK_BYTES,
        Thing.SLICE,
        "memory_used_peak_bytes",
        How.PEAK,
    ),
    Rule(metrics.GPU_SM_ACTIVE_RATIO, Thing.SLICE, "sm_active", How.BINS, signal=SIGNAL_COMPUTE),
    Rule(metrics.VGPU_MEMORY_TOTAL_BYTES, Thing.VGPU, "memory_total_bytes", How.LAST),
    Rule(metrics.VGPU_MEMORY_USED_BYTES, Thing.VGPU, "memory_used_peak_bytes", How.PEAK),
)
WORKLOAD_RULES = (
    Rule(workload_metrics.WORKLOAD_ALLOCATED_SECONDS_TOTAL, Thing.WORKLOAD, "allocated_seconds"),
    _signal(
        Thing.WORKLOAD,
        workload_metrics.WORKLOAD_OBSERVED_SECONDS_TOTAL,
        MEMORY,
        "observed_seconds",
    ),
    _signal(
        Thing.WORKLOAD,
        workload_metrics.WORKLOAD_OBSERVED_SECONDS_TOTAL,
        SIGNAL_BUSY,
        "busy_observed_seconds",
    ),
    Rule(workload_metrics.WORKLOAD_BUSY_SECONDS_TOTAL, Thing.WORKLOAD, "busy_seconds"),
    Rule(
        workload_metrics.WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL,
        Thing.WORKLOAD,
        "wait_seconds",
        most_per_second=MOST_CONTEXTS,
        part="source",
    ),
    Rule(
        workload_metrics.WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL,
        Thing.WORKLOAD,
        "wait_bound_seconds",
        most_per_second=MOST_CONTEXTS,
    ),
    Rule(
        workload_metrics.WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW,
        Thing.WORKLOAD,
        FLAG_WAIT_MAY_BE_LOW,
        How.FLAG,
    ),
    Rule(
        workload_metrics.WORKLOAD_CPU_SECONDS_TOTAL,
        Thing.WORKLOAD,
        "cpu_seconds",
        most_per_second=MOST_PROCESSORS,
    ),
    Rule(
        workload_metrics.WORKLOAD_MEMORY_LIMIT_BYTES,
        Thing.WORKLOAD,
        "memory_limit_bytes",
        How.LAST,
        part="source",
    ),
    Rule(
        workload_metrics.WORKLOAD_MEMORY_USED_PEAK_BYTES,
        Thing.WORKLOAD,
        "memory_used_peak_bytes",
        How.PEAK,
    ),
    Rule(
        workload_metrics.WORKLOAD_MEMORY_USED_RATIO,
        Thing.WORKLOAD,
        "memory",
        How.BINS,
        signal=MEMORY,
    ),
    Rule(
        workload_metrics.WORKLOAD_BUSY_RATIO,
        Thing.WORKLOAD,
        "busy",
        How.BINS,
        signal=SIGNAL_COMPUTE,
    ),
)
OOM_RULES = (
    Rule(
        oom_metrics.OOM_EVENTS_TOTAL,
        Thing.OOM,
        "count",
        How.EVENTS,
        most_per_second=MOST_EVENTS_PER_SECOND,
        part="cause",
    ),
)
RULES = (*CARD_RULES, *SLICE_RULES, *WORKLOAD_RULES, *OOM_RULES, *PORT_RULES)

# What tells no value of an hour, but what is there and what it is called.
INFO_SPECS = (
    metrics.NODE_INFO,
    metrics.GPU_INFO,
    metrics.SIGNAL_INTERVAL_SECONDS,
    metrics.MIG_INSTANCE_INFO,
    metrics.MIG_INSTANCES,
    metrics.MIG_FREE_MEMORY_SLICES,
    metrics.VGPU_INSTANCE_INFO,
    metrics.VGPU_SHARE_RATIO,
    workload_metrics.WORKLOAD_INFO,
    nic_metrics.RDMA_PORT_INFO,
    nic_metrics.RDMA_PORT_NETDEV_INFO,
    nic_metrics.RDMA_PORT_TOPOLOGY_INFO,
    nic_metrics.RDMA_PORT_RATE_BYTES_PER_SECOND,
    nic_metrics.RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND,
)


def _rules_by_name() -> Mapping[str, tuple[Rule, ...]]:
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in RULES:
        found[rule.name] = (*found.get(rule.name, ()), rule)
    return found


RULES_BY_NAME = _rules_by_name()


def _names(*kinds: How) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rule.name for rule in RULES if rule.how in kinds))


# Counters, and buckets of histograms: an hour's part is what lies between two edges.
COUNTER_NAMES = _names(*GROWING, How.BINS)
# Those that money rests on: to the second, their values after the edge are needed as well.
SECONDS_NAMES = tuple(
    dict.fromkeys(
        rule.name
        for rule in (*CARD_RULES, *SLICE_RULES, *WORKLOAD_RULES)
        if rule.how is How.COUNTER and rule.spec.unit is Unit.SECONDS
    )
)
GAUGE_NAMES = (*(spec.name for spec in INFO_SPECS), *_names(How.LAST, How.FLAG))
# Of these the highest of the hour's readings counts.
PEAK_NAMES = _names(How.PEAK)
RESET_NAME = metrics.PROCESS_START_TIME_SECONDS.name
INFO_NAMES = frozenset(spec.name for spec in INFO_SPECS)
