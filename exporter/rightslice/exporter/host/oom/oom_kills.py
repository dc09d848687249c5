"""Reads the kernel's log and the counters of cgroups for workloads that were killed."""

from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.oom.incidents import CGROUP, HOST_CGROUP, HOST_GLOBAL, KERNEL, Report
from rightslice.exporter.host.oom.kernel_line import is_driver_no_memory
from rightslice.exporter.host.oom.kernel_oom import OomKill, OomKillReader
from rightslice.exporter.host.oom.memory_events import KillCount, MemoryEvents
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.owners.cgroup_path import parse_path
from rightslice.exporter.host.owners.workload import POD, Workload
from rightslice.exporter.host.part import NodePart

# The kernel's record names more than the counter: it is read first, and has this long to come.
COUNTER_WAIT_SECONDS = 3.0


class OomKills(NodePart):
    """One thread reads. Kills from before this process are not told."""

    id = "oom_kills"
    lane = "oom_kills"

    def __init__(
        self,
        attribution: Attribution,
        kernel_log: KernelLog,
        sysfs: Path,
        clock: Clock,
        reports: Reports,
    ) -> None:
        self._attribution = attribution
        self._whereabouts = attribution.whereabouts
        self._log = kernel_log
        self._clock = clock
        self._reports = reports
        self._kills = OomKillReader()
        self._events = MemoryEvents(sysfs)
        self._start_seconds = clock.monotonic_seconds()
        self._counted: list[Report] = []
        self._told_lost_count = 0
        # Those whose cgroups tell how many were killed there.
        self.workloads: frozenset[Workload] = frozenset()
        # Whether any cgroup tells how many were killed; None while there is none to ask.
        self.has_cgroups: bool | None = None
        self._has_read_log = False

    @property
    def has_log(self) -> bool:
        """Tell whether the kernel log could be read when it was last tried."""
        return self._has_read_log and self._log.unavailable_reason is None

    def close(self) -> None:
        """Let go of the kernel log."""
        self._log.close()

    def refresh(self) -> int:
        """Read what is new; give how often the driver itself found no memory."""
        no_memory_count = self._read_log()
        self._read_counters()
        return no_memory_count

    def take_lost_count(self) -> int:
        """Give how many records were lost since the last call."""
        lost_count = self._log.lost_count - self._told_lost_count
        self._told_lost_count = self._log.lost_count
        return lost_count

    def _read_log(self) -> int:
        no_memory_count = 0
        is_first, self._has_read_log = not self._has_read_log, True
        for record in self._log.read_new():
            is_old = is_first and record.monotonic_seconds < self._start_seconds
            if not record.is_from_kernel or is_old:
                continue
            self._kills.feed(record.text, record.monotonic_seconds)
            no_memory_count += is_driver_no_memory(record.text)
        for kill in self._kills.take(self._clock.monotonic_seconds()):
            workload = self._victim(kill)
            if workload is not None:
                self._reports.waiting.append(self._of_kill(workload, kill))
        return no_memory_count

    def _victim(self, kill: OomKill) -> Workload | None:
        """Name who was killed, if that is a workload on a card, or beside one in its pod."""
        if kill.process_id is not None:
            workload = self._whereabouts.workload_of(kill.process_id)
            if workload is not None:
                return workload
        if not kill.cgroup:
            return None
        place = parse_path(kill.cgroup)[0]
        workload = self._attribution.workload_at(place, kill.command, kill.user_id)
        is_ours = workload is not None and self._attribution.is_on_a_card(workload)
        return workload if is_ours else None

    def _of_kill(self, workload: Workload, kill: OomKill) -> Report:
        now_seconds = self._clock.monotonic_seconds()
        sizes = {} if kill.limit_bytes is None else {"limit": kill.limit_bytes}
        return Report(
            workload,
            HOST_GLOBAL if kill.is_global else HOST_CGROUP,
            KERNEL,
            now_seconds,
            self._clock.wall_seconds(),
            sizes_bytes=sizes,
            uuid=self._whereabouts.memory_of(workload, now_seconds).uuid,
        )

    def _read_counters(self) -> None:
        now_seconds, folders = self._clock.monotonic_seconds(), self._folders()
        counts = self._events.read(folders)
        self.has_cgroups = bool(counts) if folders else None
        self.workloads = frozenset(folders[path] for path in counts)
        for path, count in counts.items():
            if count.kill_count or count.group_kill_count:
                self._counted.append(self._of_count(folders[path], count, now_seconds))
        is_due = [now_seconds - each.at_seconds >= COUNTER_WAIT_SECONDS for each in self._counted]
        for report, due in zip(tuple(self._counted), is_due, strict=True):
            if due:
                self._counted.remove(report)
                self._reports.waiting.append(report)

    def _of_count(self, workload: Workload, count: KillCount, now_seconds: float) -> Report:
        sizes = {} if count.limit_bytes is None else {"limit": count.limit_bytes}
        return Report(
            workload,
            HOST_CGROUP,
            CGROUP,
            now_seconds,
            self._clock.wall_seconds(),
            sizes_bytes=sizes,
            uuid=self._whereabouts.memory_of(workload, now_seconds).uuid,
        )

    def _folders(self) -> dict[str, Workload]:
        """Give the cgroups of workloads on cards: of each container, and of its pod as a whole.

        What the pod counts is the container's if the card knows but one of it.
        """
        found: dict[str, Workload] = {}
        of_pods: dict[str, set[Workload]] = {}
        owners = self._attribution.owners
        for owner in owners.seen:
            place, workload = owners.place_of(owner), owner.workload
            path = place.paths.get("") or place.paths.get("memory", "")
            if workload is None or not path:
                continue
            found[path] = workload
            if workload.kind == POD and place.container_id:
                of_pods.setdefault(path.rpartition("/")[0], set()).add(workload)
        for path, workloads in of_pods.items():
            one = next(iter(workloads))
            is_sure = len(workloads) == 1
            found[path] = one if is_sure else Workload(POD, one.namespace, one.pod)
        return found
