"""How many were killed in the cgroups of workloads on cards, by the kernel's own counters."""

from collections.abc import Iterator
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.oom.incidents import CGROUP, HOST_CGROUP, HOST_GLOBAL, Report
from rightslice.exporter.host.oom.memory_events import KillCount, MemoryEvents
from rightslice.exporter.host.owners.workload import POD, PROCESS, Workload

# A pod's counter keeps what was counted: there is no hurry.
COUNTERS_SECONDS = 5.0
# The kernel's record names more than the counter: it has this long to come before.
WAIT_SECONDS = 3.0
# Whoever is killed has no process any more, and a counter that has to be read.
LINGER_SECONDS = 120.0


class KillCounters:
    """For one thread. `workloads` are those of whom a counter was read.

    `is_available` tells whether any counter could be read; None while there is none to ask.
    """

    def __init__(self, attribution: Attribution, sysfs: Path, clock: Clock) -> None:
        self.workloads: frozenset[Workload] = frozenset()
        self.is_available: bool | None = None
        self._attribution = attribution
        self._clock = clock
        self._events = MemoryEvents(sysfs)
        # By path whose folder it is, and when that was last seen.
        self._folders: dict[str, tuple[Workload, float]] = {}
        self._counted: list[Report] = []
        self._read_seconds = float("-inf")

    def read(self, now_seconds: float) -> list[Report]:
        """Give what was counted, some seconds later."""
        if now_seconds - self._read_seconds >= COUNTERS_SECONDS:
            self._read_seconds = now_seconds
            self._count(now_seconds)
        due = [each for each in self._counted if now_seconds - each.at_seconds >= WAIT_SECONDS]
        self._counted = [each for each in self._counted if each not in due]
        return due

    def _count(self, now_seconds: float) -> None:
        self._folders |= {path: (workload, now_seconds) for path, workload in self._now()}
        self._folders = {
            path: row
            for path, row in self._folders.items()
            if now_seconds - row[1] <= LINGER_SECONDS
        }
        counts = self._events.read(self._folders)
        self.is_available = bool(counts) if self._folders else None
        self.workloads = frozenset(self._folders[path][0] for path in counts)
        # Containers first: what the pod counts of them is no other kill.
        for path in sorted(counts, key=lambda path: -path.count("/")):
            if counts[path].kill_count or counts[path].group_kill_count:
                report = self._report(self._folders[path][0], counts[path], now_seconds)
                self._counted.append(report)

    def _now(self) -> Iterator[tuple[str, Workload]]:
        """Give the folders of pods that hold a card, and of whoever uses one.

        A plain process has no cgroup of its own: in that of its session others are killed as well.
        """
        owners = self._attribution.owners
        pods = {each for each in self._attribution.holders if each.kind == POD}
        uids = {
            (uid, pod.namespace, pod.pod)
            for pod in pods
            for uid in owners.pod_uids(pod.namespace, pod.pod)
        }
        for owner in owners.seen:
            place, workload = owners.place_of(owner), owner.workload
            path = place.paths.get("") or place.paths.get("memory", "")
            if workload is None or not path or workload.kind == PROCESS:
                continue
            yield path, workload
            if workload.kind == POD and owner.pod_uid:
                uids.add((owner.pod_uid, workload.namespace, workload.pod))
        for uid, namespace, name in uids:
            path = owners.pod_path(uid)
            if path:
                yield path, Workload(POD, namespace, name, owners.sole_container(uid))

    def _report(self, workload: Workload, count: KillCount, now_seconds: float) -> Report:
        sizes = {} if count.limit_bytes is None else {"limit": count.limit_bytes}
        # The kernel killed here although nobody was at this limit: the node ran out, or all pods.
        is_global = count.limit_hit_count == 0
        return Report(
            workload,
            HOST_GLOBAL if is_global else HOST_CGROUP,
            CGROUP,
            now_seconds,
            self._clock.wall_seconds(),
            sizes_bytes={} if is_global else sizes,
            uuid=self._attribution.whereabouts.memory_of(workload, now_seconds).uuid,
        )
