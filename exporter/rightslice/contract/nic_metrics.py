"""The part of the contract about the network: RDMA, PFC pause, and who does without either.

The counters of cards are rows of a table of facts (`nic_counters`); what is derived is here.
"""

from rightslice.contract.sampling import PEAK_WINDOW_SECONDS
from rightslice.contract.spec import PREFIX, Kind, MetricSpec, Unit
from rightslice.contract.workload_metrics import NODE_WORKLOAD_LABELS
from rightslice.facts.nics import ETHTOOL, PORT_FILE, NicMetric, nic_metrics

OF_PORT = ("device", "port")
OF_PRIORITY = ("netdev", "priority")
PORT_FILES, HARDWARE_FILES = "sysfs, counters of the port", "sysfs, hw_counters"
ETHTOOL_STATISTICS = "ethtool statistics"
NO_TIME = "where the driver tells no time held"


def _of_table(metric: NicMetric) -> MetricSpec:
    """Make the contract's row of a metric of the table."""
    name = f"{PREFIX}{metric.name}"
    kind = Kind.GAUGE if metric.is_gauge else Kind.COUNTER
    stem = name.removesuffix("_total")
    unit = next((unit for unit in Unit if unit and stem.endswith(f"_{unit}")), Unit.NONE)
    own = ("netdev",) if metric.source == ETHTOOL else OF_PORT
    where = {ETHTOOL: ETHTOOL_STATISTICS, PORT_FILE: PORT_FILES}.get(metric.source, HARDWARE_FILES)
    return MetricSpec(
        name,
        kind,
        unit,
        metric.help,
        (*own, *metric.label_names),
        absent="where the driver does not tell it",
        source=f"{where}; drivers {', '.join(metric.drivers)}",
    )


# By the metric's name in the table.
NIC_COUNTERS: dict[str, MetricSpec] = {each.name: _of_table(each) for each in nic_metrics()}

RDMA_PORT_INFO = MetricSpec(
    "rightslice_rdma_port_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a port of an RDMA device: its driver, link layer, protocol (infiniband, roce, iwarp, efa), "
    "firmware and model, its place on the PCI bus and its function (physical, "
    "virtual, or empty where that cannot be told, as in many virtual machines).",
    (
        *OF_PORT,
        "driver",
        "link_layer",
        "protocol",
        "firmware",
        "hca_type",
        "pci_bus_id",
        "function",
    ),
    absent="on nodes without RDMA devices",
    source="sysfs",
)
RDMA_PORT_NETDEV_INFO = MetricSpec(
    "rightslice_rdma_port_netdev_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; a network interface of the port, by which its ethtool counters go; of a bond each member.",
    (*OF_PORT, "netdev"),
    absent="for ports without one, as EFA's, and where another network namespace hides it",
    source="sysfs",
)
RDMA_PORT_TOPOLOGY_INFO = MetricSpec(
    "rightslice_rdma_port_topology_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; the rail, switch and switch port that the port hangs on.",
    (*OF_PORT, "rail", "switch", "switch_port"),
    absent="where neither --topology.file nor LLDP tells",
    source="--topology.file, LLDP",
)
RDMA_PORT_UP = MetricSpec(
    "rightslice_rdma_port_up",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the port is active, else 0.",
    OF_PORT,
    absent="where its state cannot be read",
    source="sysfs",
)
RDMA_PORT_STATE = MetricSpec(
    "rightslice_rdma_port_state",
    Kind.GAUGE,
    Unit.NONE,
    "The port's logical state: 1 down, 2 init, 3 armed, 4 active, 5 active defer.",
    OF_PORT,
    absent="where it cannot be read",
    source="sysfs",
)
RDMA_PORT_PHYSICAL_STATE = MetricSpec(
    "rightslice_rdma_port_physical_state",
    Kind.GAUGE,
    Unit.NONE,
    "The port's physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error "
    "recovery, 7 test.",
    OF_PORT,
    absent="where it cannot be read",
    source="sysfs",
)
RDMA_PORT_RATE_BYTES_PER_SECOND = MetricSpec(
    "rightslice_rdma_port_rate_bytes_per_second",
    Kind.GAUGE,
    Unit.NONE,
    "Rate of the active port, one way.",
    OF_PORT,
    absent="while the port is not active: drivers then show a placeholder",
    source="sysfs",
)
RDMA_UNREADABLE_REGISTERS = MetricSpec(
    "rightslice_rdma_unreadable_registers",
    Kind.GAUGE,
    Unit.NONE,
    "Counters of the port whose files are there, but tell no number: N/A, an error, nothing.",
    OF_PORT,
    absent="where no counter is known",
    source="sysfs",
)
RDMA_REGISTER_SATURATED = MetricSpec(
    "rightslice_rdma_register_saturated",
    Kind.GAUGE,
    Unit.NONE,
    "1; a register that stands at its end and counts no further until somebody resets it.",
    (*OF_PORT, "counter"),
    absent="for counters that count",
    source=PORT_FILES,
)
RDMA_REGISTER_RESETS_TOTAL = MetricSpec(
    "rightslice_rdma_register_resets_total",
    Kind.COUNTER,
    Unit.NONE,
    "Times at which counters of the port began anew, as after a reload of the driver.",
    OF_PORT,
    absent="where no counter is known",
    source="sysfs",
    subject_label_count=2,
)
NETDEV_REGISTER_RESETS_TOTAL = MetricSpec(
    "rightslice_rdma_nic_register_resets_total",
    Kind.COUNTER,
    Unit.NONE,
    "Times at which the interface's ethtool counters began anew, as after a reload of the driver.",
    ("netdev",),
    absent="where the interface has no ethtool counters",
    source=ETHTOOL_STATISTICS,
    subject_label_count=1,
)
RDMA_NIC_CARRIER = MetricSpec(
    "rightslice_rdma_nic_carrier",
    Kind.GAUGE,
    Unit.NONE,
    "1 while the interface has a carrier, else 0.",
    ("netdev",),
    absent="while the interface is down by its administrator, and in another network namespace",
    source="sysfs",
)
RDMA_NIC_CARRIER_DOWN_TOTAL = MetricSpec(
    "rightslice_rdma_nic_carrier_down_total",
    Kind.COUNTER,
    Unit.NONE,
    "Times at which the interface lost its carrier since it was created.",
    ("netdev",),
    absent="where another network namespace hides the interface",
    source="sysfs",
)
RDMA_NIC_CARRIER_CHANGES_TOTAL = MetricSpec(
    "rightslice_rdma_nic_carrier_changes_total",
    Kind.COUNTER,
    Unit.NONE,
    "Changes of the interface's carrier, both ways, since it was created.",
    ("netdev",),
    absent="where another network namespace hides the interface",
    source="sysfs",
)
RDMA_NIC_LINK_SPEED_BYTES_PER_SECOND = MetricSpec(
    "rightslice_rdma_nic_link_speed_bytes_per_second",
    Kind.GAUGE,
    Unit.NONE,
    "Speed that the interface has agreed on with its peer.",
    ("netdev",),
    absent="while it is down, and where it is not known",
    source="sysfs",
)
RDMA_NIC_NETDEV_RECEIVE_BYTES_TOTAL = MetricSpec(
    "rightslice_rdma_nic_netdev_receive_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Bytes that the kernel's network stack received on the interface, such as TCP; of mlx5 none of "
    "RDMA's are among them.",
    ("netdev",),
    absent="where another network namespace hides the interface",
    source="sysfs, statistics of the interface",
)
RDMA_NIC_NETDEV_TRANSMIT_BYTES_TOTAL = MetricSpec(
    "rightslice_rdma_nic_netdev_transmit_bytes_total",
    Kind.COUNTER,
    Unit.BYTES,
    "Bytes that the kernel's network stack sent on the interface, such as TCP; of mlx5 none of "
    "RDMA's are among them.",
    ("netdev",),
    absent="where another network namespace hides the interface",
    source="sysfs, statistics of the interface",
)
RDMA_NIC_KERNEL_EVENTS_TOTAL = MetricSpec(
    "rightslice_rdma_nic_kernel_events_total",
    Kind.COUNTER,
    Unit.NONE,
    "Events of a network card's health that its driver wrote into the kernel log since we started.",
    ("pci_bus_id", "event"),
    absent="for drivers other than mlx5, and while the kernel log cannot be read",
    source="kernel log",
)
PFC_ENABLED = MetricSpec(
    "rightslice_pfc_enabled",
    Kind.GAUGE,
    Unit.NONE,
    "1 if priority flow control is on for the priority, in either direction, else 0.",
    OF_PRIORITY,
    absent="where neither the driver nor the kernel's DCB tells",
    source="strings of ethtool; DCB netlink",
)
PFC_PAUSE_RECEIVED_PEAK_RATIO = MetricSpec(
    "rightslice_pfc_pause_received_peak_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Highest share of a second, or of the sampling interval if that is longer, for which the peer "
    "stopped us, in the trailing 130 s.",
    OF_PRIORITY,
    absent=NO_TIME,
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
PFC_PAUSE_TRANSMITTED_PEAK_RATIO = MetricSpec(
    "rightslice_pfc_pause_transmitted_peak_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Highest share of a second, or of the sampling interval if that is longer, for which we "
    "stopped the peer, in the trailing 130 s.",
    OF_PRIORITY,
    absent=NO_TIME,
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
PFC_PAUSE_RECEIVED_BOUND_PEAK_RATIO = MetricSpec(
    "rightslice_pfc_pause_received_bound_peak_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Highest share of a second for which the frames received can have stopped us at most, sampled "
    "in the trailing 130 s: it can rule a storm out, never prove one.",
    OF_PRIORITY,
    absent="where the driver tells the time itself, or no frames, or the speed is not known",
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
PFC_PAUSE_TRANSMITTED_BOUND_PEAK_RATIO = MetricSpec(
    "rightslice_pfc_pause_transmitted_bound_peak_ratio",
    Kind.GAUGE,
    Unit.RATIO,
    "Highest share of a second for which the frames sent can have stopped the peer at most, "
    "sampled in the trailing 130 s: it can rule a storm out, never prove one.",
    OF_PRIORITY,
    absent="where the driver tells the time itself, or no frames, or the speed is not known",
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
PFC_PAUSE_RECEIVED_MEAN_PEAK_SECONDS = MetricSpec(
    "rightslice_pfc_pause_received_mean_peak_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Longest mean length of the pauses received between two samples, in the trailing 130 s; a "
    "pause that has not ended counts with its length so far.",
    OF_PRIORITY,
    absent="where the driver tells no time held, or no ends of pauses",
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
PFC_PAUSE_TRANSMITTED_MEAN_PEAK_SECONDS = MetricSpec(
    "rightslice_pfc_pause_transmitted_mean_peak_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Longest mean length of the pauses sent between two samples, in the trailing 130 s; a pause "
    "that has not ended counts with its length so far.",
    OF_PRIORITY,
    absent="where the driver tells no time held, or no ends of pauses",
    source=ETHTOOL_STATISTICS,
    peak_window_seconds=PEAK_WINDOW_SECONDS,
    subject_label_count=1,
)
RDMA_PFC_OBSERVABLE = MetricSpec(
    "rightslice_rdma_pfc_observable",
    Kind.GAUGE,
    Unit.NONE,
    "1 if pause frames of the port can be seen, else 0; and why: time, frames or port_frames (what "
    "there is to see), or what hides them.",
    (*OF_PORT, "reason"),
    absent="for ports of InfiniBand, whose links need no pause",
    source="ethtool statistics, sysfs",
)
RDMA_IDLE_WORKLOAD = MetricSpec(
    "rightslice_rdma_idle_workload",
    Kind.GAUGE,
    Unit.NONE,
    "1 if the GPU processes of a job on several nodes hold no RDMA queue pair while a port of the "
    "node is active, else 0.",
    NODE_WORKLOAD_LABELS,
    absent="for jobs on one node, for those that are meant to use TCP, and where it cannot be seen",
    source="RDMA netlink, procfs",
    subject_label_count=len(NODE_WORKLOAD_LABELS),
)
RDMA_IDLE_HINT = MetricSpec(
    "rightslice_rdma_idle_hint",
    Kind.GAUGE,
    Unit.NONE,
    "1; what is seen of such a workload that may be why: a limit of locked memory that is low, no "
    "device in its container, a variable of NCCL's.",
    (*NODE_WORKLOAD_LABELS, "hint"),
    absent="for workloads that are not asleep",
    source="procfs",
    subject_label_count=len(NODE_WORKLOAD_LABELS),
)
GPU_NEAREST_RDMA_DEVICE_INFO = MetricSpec(
    "rightslice_gpu_nearest_rdma_device_info",
    Kind.GAUGE,
    Unit.NONE,
    "1; the RDMA device that is nearest to the card on the PCI bus, and how near: pix (one bridge "
    "or switch), pxb (several), phb (the same host bridge), node (the same processor), sys. Only "
    "devices with an active port count, if any has one.",
    ("uuid", "device", "distance"),
    absent="on nodes without RDMA devices, and where the card's place is not known",
    source="sysfs",
)

NIC_METRICS: tuple[MetricSpec, ...] = (
    *NIC_COUNTERS.values(),
    *(value for value in tuple(globals().values()) if isinstance(value, MetricSpec)),
)
