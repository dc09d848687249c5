"""The metric contract: every metric that rules, dashboards and the ledger compute with."""

from rightslice.contract.histogram import RATIO_EDGES
from rightslice.contract.nic_metrics import NIC_METRICS
from rightslice.contract.oom_metrics import OOM_METRICS
from rightslice.contract.sampling import MEAN_SECONDS, PEAK_WINDOW_SECONDS
from rightslice.contract.spec import Kind, MetricSpec, Unit
from rightslice.contract.workload_metrics import WORKLOAD_METRICS

SIGNAL_MEMORY, SIGNAL_BUSY, SIGNAL_ALLOCATION = "memory", "busy", "allocation"
SIGNAL_COMPUTE = "compute"
UUID_AND_INSTANCE = ("uuid", "gpu_instance_id")

BUILD_INFO = MetricSpec(
    "rightslice_build_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; the version of this exporter.",
    labels=("version", "revision"),
    source="the installed package",
)
NODE_INFO = MetricSpec(
    "rightslice_node_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; the node this exporter runs on.",
    ("node",),
    source="settings, else the environment, else the host name",
)
SIGNAL_INTERVAL_SECONDS = MetricSpec(
    "rightslice_signal_interval_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Time that one observation of a signal's histogram stands for.",
    labels=("signal",),
    source="settings",
)
PROCESS_START_TIME_SECONDS = MetricSpec(
    "process_start_time_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Start time of this process since the Unix epoch; a change resets every series.",
    labels=(),
    prefixed=False,
    source="clock",
)
COLLECTOR_SUCCESS = MetricSpec(
    "rightslice_collector_success",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the collector's last run served every device, else 0; a card that NVML does not list any "
    "more does not count.",
    labels=("collector",),
    absent="for a collector that finds nothing to read on this node",
    source="the exporter itself",
)
COLLECTOR_DURATION_SECONDS = MetricSpec(
    "rightslice_collector_duration_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Wall time of the collector's last run over all devices.",
    labels=("collector",),
    absent="for a collector that finds nothing to read on this node, and for nvml",
    source="the exporter itself",
)
COLLECTOR_LAST_SUCCESS_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_collector_last_success_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When the collector last succeeded on each of its devices, since the Unix epoch: the oldest of "
    "these times.",
    labels=("collector",),
    absent="until it has succeeded on every device it finds, and for nvml",
    source="the exporter itself",
)
COLLECTOR_DEVICE_SUCCESS = MetricSpec(
    "rightslice_collector_device_success",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the collector's last run on this device succeeded, else 0.",
    labels=("collector", "device"),
    absent="before the first run on it, and for a card that NVML does not list any more",
    source="the exporter itself",
)
COLLECTOR_FAILURES_TOTAL = MetricSpec(
    "rightslice_collector_failures_total",
    Kind.COUNTER,
    Unit.NONE,
    "Failed runs of a collector on a device, by reason.",
    labels=("collector", "device", "reason"),
    absent="until the first failure of that reason",
    source="the exporter itself",
    subject_label_count=2,  # a network device that is gone takes its failures along
)
REJECTED_SAMPLES_TOTAL = MetricSpec(
    "rightslice_rejected_samples_total",
    Kind.COUNTER,
    Unit.NONE,
    "Readings thrown away: sentinels, out of range, duplicates, placeholder ids.",
    labels=("collector", "reason"),
    absent="until the first rejection of that reason",
    source="the exporter itself",
)
NVML_RELEASED = MetricSpec(
    "rightslice_nvml_released",
    Kind.GAUGE,
    Unit.NONE,
    "1 while NVML is closed on request, for a change of driver or MIG; nothing is read then.",
    labels=(),
    source="the exporter itself",
)
GPUS_EXPECTED = MetricSpec(
    "rightslice_gpus_expected",
    Kind.GAUGE,
    Unit.NONE,
    "Cards of the vendor on this node's PCI buses, without those handed to virtual machines.",
    labels=(),
    absent="where sysfs cannot be read",
    source="sysfs, bus/pci/devices",
)
GPUS_VISIBLE = MetricSpec(
    "rightslice_gpus_visible",
    Kind.GAUGE,
    Unit.NONE,
    "Cards that NVML lists on this node and that can be opened.",
    labels=(),
    absent="while NVML cannot be opened",
    source="NVML, device count",
)
GPU_UP = MetricSpec(
    "rightslice_gpu_up",
    Kind.GAUGE,
    Unit.NONE,
    "1 while the card answers, 0 while a known card does not; a lost card is told for a day.",
    absent="for cards never seen, and while NVML is released",
    source="NVML, whether its calls answer",
)
GPU_INFO = MetricSpec(
    "rightslice_gpu_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; what the card is; told from memory while it does not answer.",
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
    absent="for cards never read; of a lost card it ends with rightslice_gpu_up",
    source="NVML, identity, MIG and virtualization mode",
)
GPU_MEMORY_TOTAL_BYTES = MetricSpec(
    "rightslice_gpu_memory_total_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory of the card.",
    absent="on cards without memory of their own (unified memory), and with MIG where the driver "
    "tells it to root only",
    source="NVML, memory info (v2)",
)
GPU_MEMORY_USED_BYTES = MetricSpec(
    "rightslice_gpu_memory_used_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory that processes hold, without the driver's reserve where that is told apart.",
    absent="on cards without memory of their own (unified memory)",
    source="NVML, memory info (v2); with MIG, unprivileged: sum of the instances",
)
GPU_MEMORY_RESERVED_BYTES = MetricSpec(
    "rightslice_gpu_memory_reserved_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory that the driver keeps for itself.",
    absent="on drivers that count it as used, and where the total is not told",
    source="NVML, memory info (v2)",
)
GPU_MEMORY_USED_PEAK_BYTES = MetricSpec(
    "rightslice_gpu_memory_used_peak_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Highest memory use sampled in the trailing 130 s.",
    absent="on cards without memory of their own (unified memory)",
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    source="NVML, memory info (v2)",
)
GPU_MEMORY_USED_RATIO = MetricSpec(
    "rightslice_gpu_memory_used_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Used share of the card's memory, one observation per sample.",
    buckets=RATIO_EDGES,
    absent="on cards without memory of their own (unified memory), and with MIG where the driver "
    "tells it to root only",
    source="NVML, memory info (v2)",
)
GPU_MIG_ENABLED = MetricSpec(
    "rightslice_gpu_mig_enabled",
    Kind.GAUGE,
    Unit.NONE,
    "1 if MIG is on: now (current), and after the next reset of the card (pending).",
    labels=("uuid", "which"),
    absent="on cards without MIG",
    source="NVML, MIG mode",
)
GPU_SHARING_INFO = MetricSpec(
    "rightslice_gpu_sharing_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; how the card is shared: exclusive (at most one compute process), timeslice (several), mps, "
    "mig, guest, or a vGPU host's scheduler policy.",
    labels=("uuid", "mode"),
    absent="where neither processes nor the mode can be seen",
    source="NVML, modes, process lists, vGPU scheduler state",
)
GPU_CONTEXTS = MetricSpec(
    "rightslice_gpu_contexts",
    Kind.GAUGE,
    Unit.NONE,
    "Processes with a context on the card, as the driver lists them.",
    absent="where the driver does not list processes, and with MIG",
    source="NVML, compute, graphics and MPS process lists",
)
GPU_PROCESSES_VISIBLE = MetricSpec(
    "rightslice_gpu_processes_visible",
    Kind.GAUGE,
    Unit.NONE,
    "Those of the card's contexts whose process this exporter can see; 0 beside contexts above 0 "
    "means that a PID namespace hides them.",
    absent="where the driver does not list processes, and with MIG",
    source="NVML, process lists; procfs",
)
GPU_MEMORY_UNATTRIBUTED_BYTES = MetricSpec(
    "rightslice_gpu_memory_unattributed_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Used memory that no listed process accounts for.",
    absent="where some process's memory, or the driver's reserve, is not told; with MIG, and on "
    "vGPU hosts",
    source="NVML, memory info less process lists",
)
GPU_OBSERVED_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_observed_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds covered by samples of the signal; what is not covered is unknown, not idle.",
    labels=("uuid", "signal"),
    absent="for a signal that the card does not have",
    source="the exporter itself",
)
GPU_ALLOCATED_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_allocated_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which somebody held the card.",
    absent="where holders cannot be seen",
    source="NVML, process list and memory info",
)
GPU_BUSY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which a kernel ran, however small.",
    absent="on cards without a utilisation reading (MIG)",
    source="NVML, utilisation samples, else utilisation rates",
)
GPU_UNREQUESTED_BUSY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_unrequested_busy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Busy seconds while nobody held the card.",
    absent="where holders or utilisation cannot be seen",
    source="NVML, as busy and allocated",
)
GPU_BUSY_RATIO = MetricSpec(
    "rightslice_gpu_busy_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Share of a minute in which a kernel ran, one observation per observed wall-clock minute.",
    buckets=RATIO_EDGES,
    absent="on cards without a utilisation reading (MIG)",
    mean_seconds=MEAN_SECONDS,
    source="NVML, utilisation samples, else utilisation rates",
)

GPU_IDLE_SECONDS = MetricSpec(
    "rightslice_gpu_idle_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Time for which no kernel has run, at least: it counts from the start of unbroken observation "
    "where none was seen since.",
    absent="on cards without a utilisation reading (MIG)",
    source="NVML, utilisation samples, else utilisation rates",
)
GPU_SM_OBSERVED_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_sm_observed_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds covered by readings of multiprocessor activity.",
    labels=UUID_AND_INSTANCE,
    absent="before Hopper, and where the driver does not tell it; with MIG on, instances only",
    source="NVML, GPM",
)
GPU_SM_ACTIVE_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_sm_active_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds times the share of multiprocessors that had work; with MIG of the instance's.",
    labels=UUID_AND_INSTANCE,
    absent="before Hopper, and where the driver does not tell it; with MIG on, instances only",
    source="NVML, GPM SM utilisation",
)
GPU_SM_OCCUPANCY_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_sm_occupancy_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds times the share of warp slots in use; with MIG of the instance's.",
    labels=UUID_AND_INSTANCE,
    absent="before Hopper, and where the driver does not tell it; with MIG on, instances only",
    source="NVML, GPM SM occupancy",
)
GPU_DRAM_ACTIVE_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_dram_active_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds times the used share of memory bandwidth; with MIG of the instance's.",
    labels=UUID_AND_INSTANCE,
    absent="before Hopper, and where the driver does not tell it; with MIG on, instances only",
    source="NVML, GPM DRAM bandwidth",
)
GPU_SM_ACTIVE_RATIO = MetricSpec(
    "rightslice_gpu_sm_active_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "Share of multiprocessors that had work, one observation per observed wall-clock minute.",
    labels=UUID_AND_INSTANCE,
    buckets=RATIO_EDGES,
    absent="before Hopper, and where the driver does not tell it; with MIG on, instances only",
    mean_seconds=MEAN_SECONDS,
    source="NVML, GPM SM utilisation",
)
GPU_POWER_WATTS = MetricSpec(
    "rightslice_gpu_power_watts",
    Kind.GAUGE,
    Unit.WATTS,
    "Power the board draws now.",
    absent="in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, field POWER_INSTANT, else power usage",
)
GPU_ENERGY_JOULES_TOTAL = MetricSpec(
    "rightslice_gpu_energy_joules_total",
    Kind.COUNTER,
    Unit.JOULES,
    "Energy the board used, from its own meter.",
    absent="before Volta, in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, field TOTAL_ENERGY_CONSUMPTION",
)
GPU_TEMPERATURE_CELSIUS = MetricSpec(
    "rightslice_gpu_temperature_celsius",
    Kind.GAUGE,
    Unit.CELSIUS,
    "Temperature of the GPU's core.",
    absent="in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, temperature",
)
GPU_THROTTLE_SECONDS_TOTAL = MetricSpec(
    "rightslice_gpu_throttle_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds in which the clocks were held down, by reason; reasons overlap.",
    labels=("uuid", "reason"),
    absent="in vGPU guests, and for reasons the driver does not tell",
    source="NVML, fields CLOCKS_EVENT_REASON_*, else the reasons that hold",
)
GPU_XID_ERRORS_TOTAL = MetricSpec(
    "rightslice_gpu_xid_errors_total",
    Kind.COUNTER,
    Unit.NONE,
    "Errors the driver reported, each once whether NVML, the kernel log or both told it.",
    labels=("uuid", "xid"),
    absent="until the first error of that number; those of the hardware, 48, 63, 64, 74, 79, 94, "
    "95, 119 and 120, are told as 0 from the start",
    source="NVML events and the kernel log",
)
GPU_XID_LAST_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_gpu_xid_last_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When the error was last reported, since the Unix epoch; from the kernel log before our start.",
    labels=("uuid", "xid"),
    absent="until the first error of that number",
    source="NVML events and the kernel log",
)
XID_SOURCE_AVAILABLE = MetricSpec(
    "rightslice_xid_source_available",
    Kind.GAUGE,
    Unit.NONE,
    "1 if errors can be read from this source: nvml, kmsg (the kernel log).",
    labels=("source",),
    source="NVML events and the kernel log",
)
GPU_ECC_ERRORS_TOTAL = MetricSpec(
    "rightslice_gpu_ecc_errors_total",
    Kind.COUNTER,
    Unit.NONE,
    "Memory errors since this exporter started: corrected, uncorrected.",
    labels=("uuid", "type"),
    absent="on cards without ECC, or with it off, and in vGPU guests",
    source="NVML, total ECC errors, volatile, else aggregate",
)
GPU_ROW_REMAP = MetricSpec(
    "rightslice_gpu_row_remap",
    Kind.GAUGE,
    Unit.NONE,
    "Rows of memory remapped for correctable and uncorrectable errors; 1 if a remapping is pending "
    "or has failed.",
    labels=("uuid", "state"),
    absent="before Ampere, while MIG instances exist, in vGPU guests, and on cards whose driver "
    "does not tell it",
    source="NVML, remapped rows",
)
GPU_NVLINK_LINKS = MetricSpec(
    "rightslice_gpu_nvlink_links",
    Kind.GAUGE,
    Unit.NONE,
    "NVLinks of the card by state.",
    labels=("uuid", "state"),
    absent="on cards without NVLink, and in vGPU guests",
    source="NVML, NVLink state",
)
GPU_NVLINK_BYTES_TOTAL = MetricSpec(
    "rightslice_gpu_nvlink_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Data over all NVLinks of the card, without protocol overhead.",
    labels=("uuid", "direction"),
    absent="on cards without NVLink, in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, fields NVLINK_THROUGHPUT_DATA_*, else NVLINK_COUNT_*_BYTES",
)
GPU_PCIE_BYTES_TOTAL = MetricSpec(
    "rightslice_gpu_pcie_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Data over PCIe, seen from the card.",
    labels=("uuid", "direction"),
    absent="before driver 555, where the driver's counter has 32 bits only, and in vGPU guests",
    source="NVML, fields PCIE_COUNT_*_BYTES",
)
GPU_PCIE_LINK_WIDTH = MetricSpec(
    "rightslice_gpu_pcie_link_width",
    Kind.GAUGE,
    Unit.NONE,
    "PCIe lanes: in use (current), and at most with this board in this slot (max).",
    labels=("uuid", "which"),
    absent="in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, PCIe link width",
)
GPU_PCIE_LINK_GENERATION = MetricSpec(
    "rightslice_gpu_pcie_link_generation",
    Kind.GAUGE,
    Unit.NONE,
    "PCIe generation: in use (current; idle cards go down to save power), and at most (max).",
    labels=("uuid", "which"),
    absent="in vGPU guests, and on cards whose driver does not tell it",
    source="NVML, PCIe link generation",
)
MIG_INSTANCE_INFO = MetricSpec(
    "rightslice_mig_instance_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a compute instance in its GPU instance; compute_instance_id is empty where there is none, "
    "start and size are where placements cannot be seen.",
    labels=(
        "uuid",
        "gpu_instance_id",
        "compute_instance_id",
        "mig_uuid",
        "profile",
        "start",
        "size",
    ),
    absent="without MIG",
    source="NVML, MIG devices and GPU instances",
)
MIG_INSTANCE_MEMORY_USED_BYTES = MetricSpec(
    "rightslice_mig_instance_memory_used_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory in use of a GPU instance; its compute instances share it.",
    labels=UUID_AND_INSTANCE,
    absent="without MIG, and for instances without a compute instance",
    source="NVML, memory info of the MIG device",
)
MIG_INSTANCE_MEMORY_USED_PEAK_BYTES = MetricSpec(
    "rightslice_mig_instance_memory_used_peak_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Highest memory use of a GPU instance sampled in the trailing 130 s.",
    labels=UUID_AND_INSTANCE,
    absent="without MIG, and for instances without a compute instance",
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    source="NVML, memory info of the MIG device",
)
MIG_INSTANCE_MEMORY_TOTAL_BYTES = MetricSpec(
    "rightslice_mig_instance_memory_total_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory of a GPU instance.",
    labels=UUID_AND_INSTANCE,
    absent="without MIG",
    source="NVML, memory info of the MIG device, else its profile",
)
MIG_INSTANCE_OBSERVED_SECONDS_TOTAL = MetricSpec(
    "rightslice_mig_instance_observed_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Seconds covered by memory samples of the GPU instance with this id.",
    labels=UUID_AND_INSTANCE,
    absent="without MIG, and for instances without a compute instance",
    source="the exporter itself",
)
MIG_INSTANCES = MetricSpec(
    "rightslice_mig_instances",
    Kind.GAUGE,
    Unit.NONE,
    "GPU instances of the card: those that can run something (with_compute), and those that cannot "
    "(without_compute). Both 0 is a card that is paid for and cannot be used.",
    labels=("uuid", "state"),
    absent="without MIG; without_compute where placements cannot be seen",
    source="NVML, MIG devices and GPU instances",
)
MIG_PLACEMENT_VISIBLE = MetricSpec(
    "rightslice_mig_placement_visible",
    Kind.GAUGE,
    Unit.NONE,
    "1 if this exporter may see where instances lie; 0 needs root or the MIG monitor capability.",
    absent="without MIG",
    source="NVML, whether GPU instances are listed",
)
MIG_PLACEABLE_INSTANCES = MetricSpec(
    "rightslice_mig_placeable_instances",
    Kind.GAUGE,
    Unit.NONE,
    "How many more instances of the profile could be created now, if of this profile only.",
    labels=("uuid", "profile"),
    absent="without MIG, and where placements cannot be seen",
    source="NVML, placements of instances and profiles",
)
MIG_FREE_MEMORY_SLICES = MetricSpec(
    "rightslice_mig_free_memory_slices",
    Kind.GAUGE,
    Unit.NONE,
    "Placement units (memory slices) of the card that no instance occupies.",
    absent="without MIG, and where placements cannot be seen",
    source="NVML, placements of instances and profiles",
)
MIG_FRAGMENTATION_RATIO = MetricSpec(
    "rightslice_mig_fragmentation_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "1 less the size of the largest instance that still fits, over the size of the largest that "
    "would fit if those there were placed best.",
    absent="without MIG, where placements cannot be seen, and on a card that is full either way",
    source="NVML, placements of instances and profiles",
)
SLICE_MEMORY_COMMITTED_BYTES = MetricSpec(
    "rightslice_slice_memory_committed_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory promised to the slices of the card together: MIG instances, vGPUs.",
    absent="on cards that are not sliced",
    source="NVML, MIG instances or vGPU types",
)
VGPU_INSTANCE_INFO = MetricSpec(
    "rightslice_vgpu_instance_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a vGPU that a guest runs on.",
    labels=("uuid", "vgpu_uuid", "type"),
    absent="except on vGPU hosts",
    source="NVML, active vGPUs",
)
VGPU_BUSY_RATIO = MetricSpec(
    "rightslice_vgpu_busy_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Share of the whole card's time that the vGPU used lately, not of its own share.",
    labels=("uuid", "vgpu_uuid", "type"),
    absent="except on vGPU hosts, and while the driver has no new sample",
    source="NVML, vGPU utilisation samples",
)
VGPU_SHARE_RATIO = MetricSpec(
    "rightslice_vgpu_share_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Share of the card that the vGPU's type stands for: 1 over the guests of that type that fit.",
    labels=("uuid", "vgpu_uuid", "type"),
    absent="except on vGPU hosts",
    source="NVML, vGPU type",
)
VGPU_MEMORY_USED_BYTES = MetricSpec(
    "rightslice_vgpu_memory_used_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory that the guest uses of its vGPU.",
    labels=("uuid", "vgpu_uuid", "type"),
    absent="except on vGPU hosts",
    source="NVML, framebuffer use of the vGPU",
)
VGPU_MEMORY_TOTAL_BYTES = MetricSpec(
    "rightslice_vgpu_memory_total_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory of the vGPU.",
    labels=("uuid", "vgpu_uuid", "type"),
    absent="except on vGPU hosts",
    source="NVML, vGPU type",
)
VGPU_LICENSED = MetricSpec(
    "rightslice_vgpu_licensed",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the vGPU is licensed; without a licence it runs degraded. vgpu_uuid is empty when the "
    "guest tells it.",
    labels=("uuid", "vgpu_uuid"),
    absent="outside vGPU, and where the driver does not tell",
    source="NVML, licence of the vGPU, or licensable features of the guest",
)
PROCESS_CPU_SECONDS_TOTAL = MetricSpec(
    "process_cpu_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "Processor time this exporter used.",
    labels=(),
    prefixed=False,
    source="the kernel",
)
PROCESS_RESIDENT_MEMORY_BYTES = MetricSpec(
    "process_resident_memory_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "Memory this exporter holds.",
    labels=(),
    absent="where procfs cannot be read",
    prefixed=False,
    source="procfs",
)
PROCESS_OPEN_FDS = MetricSpec(
    "process_open_fds",
    Kind.GAUGE,
    Unit.NONE,
    "Files and sockets this exporter has open.",
    labels=(),
    absent="where procfs cannot be read",
    prefixed=False,
    source="procfs",
)

CONTRACT: tuple[MetricSpec, ...] = (
    *(value for value in tuple(globals().values()) if isinstance(value, MetricSpec)),
    *WORKLOAD_METRICS,
    *OOM_METRICS,
    *NIC_METRICS,
)
