"""The machine as collectors see it."""

from dataclasses import dataclass, field
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock, real_clock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.kubelet.kubelet_pods import FetchPods
from rightslice.exporter.host.net.asleep import RdmaSleep
from rightslice.exporter.host.net.dcb_priorities import DcbPriorities
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.net.network import Network
from rightslice.exporter.host.net.network_calls import NetworkCalls
from rightslice.exporter.host.net.network_options import NetworkOptions
from rightslice.exporter.host.net.nic_events import NicEvents
from rightslice.exporter.host.net.port_now import ports_of
from rightslice.exporter.host.net.rdma_netlink import NETLINK_RDMA, RdmaNetlink
from rightslice.exporter.host.net.topology import Topology
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.session import NvmlSession
from rightslice.exporter.host.oom.file_targets import FileTargets
from rightslice.exporter.host.oom.kill_counters import KillCounters
from rightslice.exporter.host.oom.oom_kills import OomKills
from rightslice.exporter.host.oom.oom_logs import CONTAINERS, FILES, OomLogs
from rightslice.exporter.host.oom.ooms import Ooms
from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.oom.targets import ContainerTargets, Targets
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.host.pci import PciBuses, kernel_bus_id
from rightslice.exporter.host.process import OwnProcess
from rightslice.exporter.host.xid_source import DriverEvents, XidSource
from rightslice.exporter.timeslice import SLICE_SECONDS


@dataclass(slots=True)
class Host:
    """The only way to the machine; collectors read devices from here."""

    node: str
    paths: Paths = field(default_factory=Paths)
    clock: Clock = field(default_factory=real_clock)
    # Asks the kubelet for its /pods; None where it may not be asked.
    fetch_pods: FetchPods | None = None
    timeslice_seconds: float = SLICE_SECONDS
    oom_options: OomOptions = field(default_factory=OomOptions)
    network_options: NetworkOptions = field(default_factory=NetworkOptions)
    network_calls: NetworkCalls = field(default_factory=NetworkCalls)
    # How many pages were read whole; what must be read before it changes waits for that.
    scrape_count: int = 0
    ooms: Ooms = field(init=False)
    attribution: Attribution = field(init=False)
    nvml: NvmlSession = field(init=False)
    own_process: OwnProcess = field(init=False)
    driver_events: DriverEvents = field(init=False)
    xids: XidSource = field(init=False)
    pci: PciBuses = field(init=False)
    network: Network = field(init=False)
    nic_events: NicEvents = field(init=False)
    rdma_sleep: RdmaSleep = field(init=False)

    def __post_init__(self) -> None:
        self.attribution = Attribution(self.paths, self.clock, self.fetch_pods)
        self.nvml = NvmlSession(self.attribution, self.timeslice_seconds)
        self.own_process = OwnProcess()
        self.driver_events = DriverEvents(self.nvml)
        log = KernelLog(self.paths.kmsg, self.clock.monotonic_seconds)
        self.xids = XidSource(self.nvml, self.driver_events, log, self.clock)
        self.pci = PciBuses(self.paths.sysfs)
        self.ooms = self._made_ooms()
        self.network = self._made_network()
        self.nic_events = NicEvents(
            KernelLog(self.paths.kmsg, self.clock.monotonic_seconds),
            lambda: self.network.rdma,
            self.clock,
        )
        self.rdma_sleep = RdmaSleep(
            self.attribution,
            lambda: ports_of(self.network.rdma),
            RdmaNetlink(self.network_calls.rdma or Netlink(NETLINK_RDMA)),
            lambda: len(self.nvml.cards),
            self.clock,
        )

    def _made_network(self) -> Network:
        return Network(
            self.paths.sysfs,
            self.clock,
            Ethtool(self.network_calls.ethtool, now_seconds=self.clock.monotonic_seconds),
            DcbPriorities(self.network_calls.dcb).enabled,
            lambda: {uuid: kernel_bus_id(bus_id) for bus_id, uuid in self.nvml.bus_ids.items()},
            Topology(self.node, self.network_options),
            self.network_options.excluded,
            self.network_options.shows_idle_priorities,
            reads_virtual=self.network_options.reads_virtual_functions,
        )

    def _made_ooms(self) -> Ooms:
        attribution, options, reports = self.attribution, self.oom_options, Reports()
        containers = ContainerTargets(
            attribution, self.paths.pods, self.paths.docker / "containers"
        )
        logs = [self._log_reader(CONTAINERS, containers, options.position_file, reports)]
        if options.file_globs or options.journal_globs:
            # In a lane of its own: it may be a file system of the network that hangs.
            elsewhere = (containers.pods_folder, containers.docker_folder)
            files = FileTargets(attribution, options.file_globs, options.journal_globs, elsewhere)
            logs.append(self._log_reader(FILES, files, options.files_position_file, reports))
        # It has a place of its own in the kernel log, and misses nothing that others read.
        kernel_log = KernelLog(self.paths.kmsg, self.clock.monotonic_seconds)
        counters = KillCounters(attribution, self.paths.sysfs, self.clock)
        kills = OomKills(attribution, kernel_log, counters, self.clock, reports)
        return Ooms(attribution, tuple(logs), kills, reports, self.clock, lambda: self.scrape_count)

    def _log_reader(
        self, name: str, targets: Targets, position_file: Path | None, reports: Reports
    ) -> OomLogs:
        patterns_file = self.oom_options.patterns_file
        return OomLogs(
            name, self.attribution, targets, patterns_file, position_file, self.clock, reports
        )

    def forget_card(self, uuid: str) -> None:
        """Drop what is remembered of a card that is gone for good."""
        self.nvml.bus_ids = {
            bus_id: known for bus_id, known in self.nvml.bus_ids.items() if known != uuid
        }
        self.xids.forget_card(uuid)

    @property
    def gpus(self) -> tuple[NvmlCard, ...]:
        return self.nvml.cards
