"""The part of the contract about memory that ran out: on a card, or on its host."""

from rightslice.contract.spec import Kind, MetricSpec, Unit
from rightslice.contract.workload_metrics import NODE_WORKLOAD_LABELS

# Series end with their workload.
SUBJECT_LABEL_COUNT = len(NODE_WORKLOAD_LABELS)
LINE_SOURCE = "logs of containers"
BEFORE_THE_FIRST = "until the workload has had such an incident"


def _of_workload(
    name: str,
    kind: Kind,
    unit: Unit,
    help: str,  # noqa: A002  # as in MetricSpec
    more_labels: tuple[str, ...],
    *,
    absent: str,
    source: str,
) -> MetricSpec:
    """Make the row of a metric whose series end with their workload."""
    return MetricSpec(
        name,
        kind,
        unit,
        help,
        (*NODE_WORKLOAD_LABELS, *more_labels),
        absent=absent,
        source=source,
        subject_label_count=SUBJECT_LABEL_COUNT,
    )


OOM_EVENTS_TOTAL = _of_workload(
    "rightslice_oom_events_total",
    Kind.COUNTER,
    Unit.NONE,
    "Times at which the workload ran out of memory, each once however many lines tell of it: on "
    "the card (device_alloc), at a promise that a library keeps (soft_limit), before it had begun "
    "(startup_capacity); killed by the kernel at its cgroup's limit (host_cgroup) or as the node "
    "ran out (host_global); not certain (suspected).",
    ("cause",),
    absent="for workloads that neither hold nor use a card, but for files that the user named, "
    "from their first new line on; and for causes of which nobody could tell: of those on the card "
    "while no log of the workload is read, of kills while neither the kernel log nor the "
    "workload's cgroup tells them",
    source="logs of containers, kernel log, cgroups, programs that kill; NVML, process lists",
)
OOM_LAST_TIMESTAMP_SECONDS = _of_workload(
    "rightslice_oom_last_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When that last happened, since the Unix epoch; on which card, as far as that is certain, and "
    "who told of it (log, kernel, cgroup, program, inferred) with which confidence.",
    ("cause", "uuid", "source", "framework", "confidence"),
    absent=BEFORE_THE_FIRST,
    source="as the events",
)
OOM_LAST_SIZE_BYTES = _of_workload(
    "rightslice_oom_last_size_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Sizes of the last such incident: what the failed allocation asked for (requested), what the "
    "card has (capacity) and had left (free), the limit that was hit (limit), all as told with it; "
    "and what the workload held of its card then (used) of what it was promised, or else of what "
    "the card has (promised).",
    ("cause", "which"),
    absent="for sizes that nobody told, and that cannot be",
    source=f"{LINE_SOURCE}, kernel log; NVML",
)
OOM_LOG_MATCHES_TOTAL = _of_workload(
    "rightslice_oom_log_matches_total",
    Kind.COUNTER,
    Unit.NONE,
    "Lines of the workload's logs that tell of memory that ran out: many beside few events are a "
    "program that tries again and again.",
    ("framework",),
    absent="until there is such a line",
    source=LINE_SOURCE,
)
OOM_SOURCE_AVAILABLE = MetricSpec(
    "rightslice_oom_source_available",
    Kind.GAUGE,
    Unit.NONE,
    "1 if this source tells of memory that ran out, 0 if some of it cannot be read: logs of "
    "containers (logs), files that the user named (files), the kernel log (kernel), cgroups "
    "(cgroup), and where it is kept how far logs were read (logs_position, files_position).",
    ("source",),
    absent="while there is nothing of the kind to read",
    source="the exporter itself",
)
OOM_LOG_FILES = MetricSpec(
    "rightslice_oom_log_files",
    Kind.GAUGE,
    Unit.NONE,
    "Log files that are followed: of containers (oom_logs), or named by the user (oom_files).",
    ("device",),
    absent="without the collector oom",
    source="the exporter itself",
)
OOM_LOG_READ_BYTES_TOTAL = MetricSpec(
    "rightslice_oom_log_read_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Bytes of log files that were read.",
    ("device",),
    absent="without the collector oom",
    source="the exporter itself",
)
OOM_LOG_SKIPPED_BYTES_TOTAL = MetricSpec(
    "rightslice_oom_log_skipped_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Bytes of log files that were not read: ends of lines above 64 KiB, and floods of which the "
    "reader fell too far behind.",
    ("device",),
    absent="without the collector oom",
    source="the exporter itself",
)
KERNEL_LOG_LOST_RECORDS_TOTAL = MetricSpec(
    "rightslice_kernel_log_lost_records_total",
    Kind.COUNTER,
    Unit.NONE,
    "Records of the kernel log that were overwritten before they were read, at least.",
    (),
    absent="where the kernel log cannot be read",
    source="kernel log",
)
DRIVER_NO_MEMORY_TOTAL = MetricSpec(
    "rightslice_driver_no_memory_total",
    Kind.COUNTER,
    Unit.NONE,
    "Lines in which the driver itself found no memory, often the host's: no workload's failure.",
    (),
    absent="where the kernel log cannot be read",
    source="kernel log",
)

OOM_METRICS: tuple[MetricSpec, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, MetricSpec)
)
