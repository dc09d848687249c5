"""Reads the kernel's log and the counters of cgroups for workloads that were killed."""

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.live_kernel_log import LiveKernelLog
from rightslice.exporter.host.oom.incidents import HOST_CGROUP, HOST_GLOBAL, KERNEL, Report
from rightslice.exporter.host.oom.kernel_line import is_driver_no_memory
from rightslice.exporter.host.oom.kernel_oom import OomKill, OomKillReader
from rightslice.exporter.host.oom.kill_counters import KillCounters
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace, parse_path
from rightslice.exporter.host.owners.workload import PROCESS, Workload, pod_of
from rightslice.exporter.host.part import NodePart

# So long a container that has just come may yet be named.
NAMING_SECONDS = 10.0
MOST_UNNAMED = 1024


class OomKills(NodePart):
    """One thread reads. Kills from before this process are not told."""

    id = "oom_kills"
    lane = "oom_kills"
    asks_driver = False

    def __init__(
        self,
        attribution: Attribution,
        kernel_log: KernelLog,
        counters: KillCounters,
        clock: Clock,
        reports: Reports,
    ) -> None:
        self.counters = counters
        self._attribution = attribution
        self._log = LiveKernelLog(kernel_log, clock)
        self._clock = clock
        self._reports = reports
        self._kills = OomKillReader()
        # Kills of which it is not known yet whose they are, and since when.
        self._unnamed: list[tuple[float, OomKill]] = []
        self._told_lost_count = 0

    @property
    def has_log(self) -> bool:
        """Tell whether the kernel log could be read when it was last tried."""
        return self._log.is_readable

    def close(self) -> None:
        """Let go of the kernel log."""
        self._log.close()

    def refresh(self) -> int:
        """Read what is new; give how often the driver itself found no memory."""
        no_memory_count = self._read_log()
        now_seconds = self._clock.monotonic_seconds()
        self._unnamed += [
            (now_seconds, kill) for kill in self._kills.take(now_seconds) if _may_be_named(kill)
        ]
        waiting, self._unnamed = self._unnamed[-MOST_UNNAMED:], []
        for since_seconds, kill in waiting:
            self._tell(kill, since_seconds, now_seconds)
        self._reports.waiting.extend(self.counters.read(now_seconds))
        return no_memory_count

    def take_lost_count(self) -> int:
        """Give how many records were lost since the last call."""
        lost_count = self._log.lost_count - self._told_lost_count
        self._told_lost_count = self._log.lost_count
        return lost_count

    def _read_log(self) -> int:
        """Read what is new; give how often the driver itself found no memory."""
        no_memory_count = 0
        for record in self._log.read_new():
            self._kills.feed(record.text, record.monotonic_seconds)
            no_memory_count += is_driver_no_memory(record.text)
        return no_memory_count

    def _tell(self, kill: OomKill, since_seconds: float, now_seconds: float) -> None:
        """Tell of a kill, now or when it is better known whose it is."""
        workload = self._victim(kill)
        is_sure = workload is not None and (workload.container or not workload.is_in_pod)
        if not is_sure and now_seconds - since_seconds < NAMING_SECONDS:
            self._unnamed.append((since_seconds, kill))
        elif workload is not None:
            self._reports.waiting.append(self._report(workload, kill, since_seconds))

    def _victim(self, kill: OomKill) -> Workload | None:
        """Name who was killed, if that is a workload on a card, or beside one in its pod.

        An id may be another process's by now: where the kernel tells the cgroup, that decides.
        """
        place = parse_path(kill.cgroup)[0]
        by_process = None
        if kill.process_id is not None:
            by_process = self._attribution.whereabouts.workload_of(kill.process_id)
        if place.kind == PROCESS:
            return by_process
        workload = self._attribution.workload_at(place, kill.command, kill.user_id)
        if workload is None or not self._attribution.is_on_a_card(workload):
            return None
        is_same = by_process is not None and pod_of(by_process) == pod_of(workload)
        return by_process if is_same and not workload.container else workload

    def _report(self, workload: Workload, kill: OomKill, at_seconds: float) -> Report:
        now_seconds = self._clock.monotonic_seconds()
        is_global = kill.is_global or _is_above(kill.limit_cgroup, parse_path(kill.cgroup)[0])
        sizes = {} if kill.limit_bytes is None or is_global else {"limit": kill.limit_bytes}
        return Report(
            workload,
            HOST_GLOBAL if is_global else HOST_CGROUP,
            KERNEL,
            at_seconds,
            self._clock.wall_seconds() - (now_seconds - at_seconds),
            sizes_bytes=sizes,
            uuid=self._attribution.whereabouts.memory_of(workload, now_seconds).uuid,
        )


def _may_be_named(kill: OomKill) -> bool:
    return bool(kill.cgroup) or kill.process_id is not None


def _is_above(limit_cgroup: str, place: CgroupPlace) -> bool:
    """Tell whether the limit was that of many, such as all pods, and not the workload's own."""
    if not limit_cgroup or place.kind == PROCESS:
        return False
    return parse_path(limit_cgroup)[0].kind == PROCESS
