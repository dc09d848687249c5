"""The part of the contract about workloads: who holds and uses a card, and who waits for it."""

from rightslice.contract.histogram import RATIO_EDGES
from rightslice.contract.sampling import MEAN_SECONDS, PEAK_WINDOW_SECONDS
from rightslice.contract.spec import Kind, MetricSpec, Unit

# What names a workload's part of a card; its series end with it.
# What names a workload on its node, whichever cards it has.
NODE_WORKLOAD_LABELS = ("workload_kind", "namespace", "pod", "container")
WORKLOAD_LABELS = ("uuid", "gpu_instance_id", *NODE_WORKLOAD_LABELS)
SUBJECT_LABEL_COUNT = len(WORKLOAD_LABELS)
LIST_SOURCE = "NVML, process lists; procfs, cgroups; kubelet, Slurm"
SHARED_ONLY = "until the workload shares its card or instance: alone, the card's own serves"
WAIT_ABSENT = (
    "with MPS, in guests, where several processes share a MIG instance, and where the driver does "
    "not tell the use of single processes or vGPUs"
)


def _of_workload(
    name: str,
    kind: Kind,
    unit: Unit,
    help: str,  # noqa: A002  # as in MetricSpec
    *,
    absent: str,
    more_labels: tuple[str, ...] = (),
    source: str = LIST_SOURCE,
    buckets: tuple[float, ...] = (),
    peak_window_seconds: float = 0.0,
    mean_seconds: float = 0.0,
) -> MetricSpec:
    """Make the row of a metric whose series end with their workload."""
    return MetricSpec(
        name,
        kind,
        unit,
        help,
        (*WORKLOAD_LABELS, *more_labels),
        buckets=buckets,
        absent=absent,
        source=source,
        peak_window_seconds=peak_window_seconds,
        mean_seconds=mean_seconds,
        subject_label_count=SUBJECT_LABEL_COUNT,
    )


WORKLOAD_INFO = _of_workload(
    "rightslice_workload_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a workload that holds or uses the card, and what its orchestrator says of it; empty labels "
    "are not told.",
    absent="where neither an orchestrator nor processes tell who is on the card",
    more_labels=("class", "owner_kind", "owner", "team", "protected"),
    source="labels of pods and containers, Slurm's account",
)
WORKLOAD_ALLOCATED_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_allocated_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds for which the card, instance or a share of it was granted to the workload; without an "
    "orchestrator: for which a process of it was on the card.",
    absent="while the orchestrator is silent",
)
WORKLOAD_OBSERVED_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_observed_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which the workload's memory (memory), or its busy time (busy), could be seen, "
    "whether or not it used the card.",
    absent="where a PID namespace hides its processes; busy: wherever its busy seconds are",
    more_labels=("signal",),
)
WORKLOAD_CPU_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_cpu_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Host processor time of the workload's cgroup while on the card; told of each card it is on.",
    absent="for workloads without a process on the card, and where cgroups cannot be read",
    source="cgroups; for plain processes procfs",
)
WORKLOAD_MEMORY_USED_BYTES = _of_workload(
    "rightslice_workload_memory_used_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Card memory that the workload's processes hold.",
    absent="where the memory of one of its processes is not told, or its processes are hidden",
)
WORKLOAD_MEMORY_USED_PEAK_BYTES = _of_workload(
    "rightslice_workload_memory_used_peak_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Highest memory of the workload sampled in the trailing 130 s.",
    absent="where the memory of one of its processes is not told, or its processes are hidden",
    peak_window_seconds=PEAK_WINDOW_SECONDS,
)
WORKLOAD_MEMORY_USED_RATIO = _of_workload(
    "rightslice_workload_memory_used_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Share of the memory of the card, or of the MIG instance, that the workload holds, one "
    "observation per sample.",
    absent=SHARED_ONLY,
    buckets=RATIO_EDGES,
)
WORKLOAD_MEMORY_LIMIT_BYTES = _of_workload(
    "rightslice_workload_memory_limit_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Card memory that was promised to the workload: by its slice (mig, vgpu), by HAMi (hami), by "
    "an MPS server (mps), by the driver for its cgroup (nvml), by a label (label).",
    absent="for workloads that may take all there is",
    more_labels=("source",),
    source="NVML, MIG and vGPU; environment of processes; labels",
)
WORKLOAD_BUSY_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which a kernel of the workload ran.",
    absent="with MIG and MPS, and where the driver does not tell the use of single processes",
    source="NVML, use by process: accounting where it is on, else samples; alone, the card's; of a "
    "vGPU its samples, or the scheduler's log",
)
WORKLOAD_BUSY_RATIO = _of_workload(
    "rightslice_workload_busy_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Share of a minute in which a kernel of the workload ran, one observation per observed "
    "wall-clock minute.",
    absent=SHARED_ONLY,
    source="NVML, use by process",
    buckets=RATIO_EDGES,
    mean_seconds=MEAN_SECONDS,
)
WORKLOAD_TIMESLICE_WAIT_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_timeslice_wait_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds for which the workload's contexts had work while another context held the engine, 0 "
    "to 1 per second and context: estimated (estimate), with what the log of a vGPU host's "
    "scheduler tells (vgpu_log), or 0 for a lone context (exclusive).",
    absent=WAIT_ABSENT,
    more_labels=("source",),
    source="NVML, use by process or vGPU and of the card, vGPU scheduler's log; estimated",
)
WORKLOAD_TIMESLICE_WAIT_UPPER_BOUND_SECONDS_TOTAL = _of_workload(
    "rightslice_workload_timeslice_wait_upper_bound_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds for which the workload's contexts can have waited at most: while others held the "
    "engine, or its slots were lost to a vGPU that has slots of its own.",
    absent=WAIT_ABSENT,
    source="NVML, use by process and of the card",
)
WORKLOAD_TIMESLICE_WAIT_MAY_BE_LOW = _of_workload(
    "rightslice_workload_timeslice_wait_may_be_low",
    Kind.GAUGE,
    Unit.NONE,
    "1 while the estimated wait may be far below the truth: a light workload beside a heavy one, "
    "whose kernels may be short, on a card that does not count its context switches.",
    absent=WAIT_ABSENT,
    source="NVML, use by process and of the card",
)
WORKLOAD_PORT_INFO = MetricSpec(
    "rightslice_workload_port_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a port that a container of a pod with a card declares, at the pod's address.",
    (*NODE_WORKLOAD_LABELS, "address", "port", "port_name"),
    absent="without --kubelet.pods-url, and for ports that a pod does not declare",
    source="kubelet, /pods",
)
GPU_MEMORY_HIDDEN_BYTES = MetricSpec(
    "rightslice_gpu_memory_hidden_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory of listed processes whose workload is not known: a PID namespace hides them, or their "
    "pod has no name yet.",
    absent="where the driver does not list processes, or not the memory of one of them",
    source="NVML, process lists; procfs",
)
GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_unattributed_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Busy seconds of the card that no workload accounts for: context switches, hidden processes, "
    "processes that ended before they were seen, and all of it while it cannot be divided: with "
    "MPS, and where the use of single processes is not told.",
    absent="with MIG, on vGPU hosts, and where the card does not tell its own busy time",
    source="NVML, use of the card less use by process",
)
GPU_INCONSISTENT_USE_TOTAL = MetricSpec(
    "rightslice_gpu_inconsistent_use_total",
    Kind.COUNTER,
    Unit.NONE,
    "Readings in which the use of single processes added up to more than 0.3 above or below that "
    "of the card: above, they are made smaller to fit; below, their sum is believed for the wait.",
    absent="with MIG and MPS, and where the driver does not tell the use of single processes",
    source="NVML, use by process and of the card",
)
GPU_CONTEXT_SWITCHES_TOTAL = MetricSpec(
    "rightslice_gpu_context_switches_total",
    Kind.COUNTER,
    Unit.NONE,
    "Context switches of the card's compute engine.",
    absent="before Hopper, before driver 575, with MIG, and where the driver does not tell it",
    source="NVML, GPM",
)
ATTRIBUTION_AVAILABLE = MetricSpec(
    "rightslice_attribution_available",
    Kind.GAUGE,
    Unit.NONE,
    "1 if names of workloads, or the cards of jobs, can be read from this source; 0 if it is there "
    "and kept from us.",
    ("source",),
    absent="where there is nothing of the kind on this node",
    source="the kubelet's log folders (logs), Docker's (docker), Slurm's jobs (slurm)",
)
ATTRIBUTION_AGE_SECONDS = MetricSpec(
    "rightslice_attribution_age_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Age of what the kubelet told last of who holds which card (kubelet), or of whose the pods are "
    "(kubelet_pods), when it was last asked: every 10 s, and 30 s.",
    ("source",),
    absent="until it has told something",
    source="the exporter itself",
)
ATTRIBUTION_UNMAPPED_DEVICES = MetricSpec(
    "rightslice_attribution_unmapped_devices",
    Kind.GAUGE,
    Unit.NONE,
    "Ids of GPU resources and claims of GPUs that were granted to containers, and that have a "
    "shape that no rule understands: which card they mean is not known. A resource that is named "
    "after a network is none of GPUs.",
    ("source",),
    absent="until it has told something",
    source="kubelet, pod resources",
)
VGPU_SCHEDULER_LOG_OVERRUNS_TOTAL = MetricSpec(
    "rightslice_vgpu_scheduler_log_overruns_total",
    Kind.COUNTER,
    Unit.NONE,
    "Readings of the scheduler's log of vGPUs in which some of it had been overwritten; what was "
    "lost is taken to be like what was left.",
    absent="where no two vGPUs share a card by best effort, and where the driver has no such log",
    source="NVML, vGPU scheduler's log",
)

WORKLOAD_METRICS: tuple[MetricSpec, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, MetricSpec)
)
