"""The metric contract: every metric that rules, dashboards and the ledger compute with."""

from rightslice.contract.histogram import RATIO_EDGES
from rightslice.contract.spec import Kind, MetricSpec, Unit

MEAN_SECONDS = 60.0
# One missed scrape at the usual 60 s loses no peak: two intervals and some delay.
PEAK_WINDOW_SECONDS = 130.0

SIGNAL_MEMORY, SIGNAL_BUSY, SIGNAL_ALLOCATION = "memory", "busy", "allocation"
SIGNAL_COMPUTE = "compute"

BUILD_INFO = MetricSpec(
    "rightslice_build_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; the version of this exporter.",
    labels=("version", "revision"),
)
NODE_INFO = MetricSpec(
    "rightslice_node_info", Kind.GAUGE, Unit.NONE, "1; the node this exporter runs on.", ("node",)
)
SIGNAL_INTERVAL_SECONDS = MetricSpec(
    "rightslice_signal_interval_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Time that one observation of a signal's histogram stands for.",
    labels=("signal",),
)
PROCESS_START_TIME_SECONDS = MetricSpec(
    "process_start_time_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Start time of this process since the Unix epoch; a change resets every series.",
    labels=(),
    prefixed=False,
)
COLLECTOR_SUCCESS = MetricSpec(
    "rightslice_collector_success",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the collector's last run served every device it found, else 0.",
    labels=("collector",),
)
COLLECTOR_DURATION_SECONDS = MetricSpec(
    "rightslice_collector_duration_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Wall time of the collector's last run over all devices.",
    labels=("collector",),
)
COLLECTOR_LAST_SUCCESS_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_collector_last_success_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When the collector last succeeded, since the Unix epoch.",
    labels=("collector",),
    absent="until the first success",
)
COLLECTOR_DEVICE_SUCCESS = MetricSpec(
    "rightslice_collector_device_success",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the collector's last run on this device succeeded, else 0.",
    labels=("collector", "device"),
)
COLLECTOR_FAILURES_TOTAL = MetricSpec(
    "rightslice_collector_failures_total",
    Kind.COUNTER,
    Unit.NONE,
    "Failed runs of a collector on a device, by reason.",
    labels=("collector", "device", "reason"),
    absent="until the first failure of that reason",
)
REJECTED_SAMPLES_TOTAL = MetricSpec(
    "rightslice_rejected_samples_total",
    Kind.COUNTER,
    Unit.NONE,
    "Readings thrown away: sentinels, out of range, duplicates, placeholder ids.",
    labels=("collector", "reason"),
    absent="until the first rejection of that reason",
)
GPUS_VISIBLE = MetricSpec(
    "rightslice_gpus_visible",
    Kind.GAUGE,
    Unit.NONE,
    "Cards that NVML lists on this node.",
    labels=(),
    absent="while NVML cannot be opened",
)
GPU_UP = MetricSpec(
    "rightslice_gpu_up",
    Kind.GAUGE,
    Unit.NONE,
    "1 while the card answers, 0 while a known card does not.",
    absent="for cards never seen",
)
GPU_INFO = MetricSpec(
    "rightslice_gpu_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; what the card is.",
    labels=(
        "uuid",
        "gpu",
        "name",
        "pci_bus_id",
        "driver_version",
        "mig",
        "virtualization",
        "memory_kind",
    ),
)
GPU_MEMORY_TOTAL_BYTES = MetricSpec(
    "rightslice_gpu_memory_total_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory of the card.",
    absent="on cards without memory of their own (unified memory)",
)
GPU_MEMORY_USED_BYTES = MetricSpec(
    "rightslice_gpu_memory_used_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory that processes hold, without the driver's reserve where that is told apart.",
    absent="on cards without memory of their own (unified memory)",
)
GPU_MEMORY_RESERVED_BYTES = MetricSpec(
    "rightslice_gpu_memory_reserved_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory that the driver keeps for itself.",
    absent="on drivers that count it as used",
)
GPU_MEMORY_USED_PEAK_BYTES = MetricSpec(
    "rightslice_gpu_memory_used_peak_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Highest memory use sampled in the trailing 130 s.",
    absent="on cards without memory of their own (unified memory)",
    peak_window_seconds=PEAK_WINDOW_SECONDS,
)
GPU_MEMORY_USED_RATIO = MetricSpec(
    "rightslice_gpu_memory_used_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Used share of the card's memory, one observation per sample.",
    buckets=RATIO_EDGES,
    absent="on cards without memory of their own (unified memory)",
)
GPU_OBSERVED_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_observed_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds covered by samples of the signal; what is not covered is unknown, not idle.",
    labels=("uuid", "signal"),
    absent="for a signal that the card does not have",
)
GPU_ALLOCATED_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_allocated_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which somebody held the card.",
    absent="where holders cannot be seen",
)
GPU_BUSY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which a kernel ran, however small.",
    absent="on cards without a utilisation reading (MIG)",
)
GPU_UNREQUESTED_BUSY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_unrequested_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Busy seconds while nobody held the card.",
    absent="where holders or utilisation cannot be seen",
)
GPU_BUSY_RATIO = MetricSpec(
    "rightslice_gpu_busy_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Share of a minute in which a kernel ran, one observation per observed wall-clock minute.",
    buckets=RATIO_EDGES,
    absent="on cards without a utilisation reading (MIG)",
    mean_seconds=MEAN_SECONDS,
)

CONTRACT: tuple[MetricSpec, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, MetricSpec)
)
