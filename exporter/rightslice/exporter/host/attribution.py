"""What this node knows of who holds and who uses its cards, from all that tells it."""

import logging
from pathlib import Path

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.holders import Held
from rightslice.exporter.host.holdings import Holdings
from rightslice.exporter.host.kubelet.kubelet import Kubelet
from rightslice.exporter.host.kubelet.kubelet_pods import FetchPods, KubeletPods
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace
from rightslice.exporter.host.owners.cpu_time import cgroup_cpu_seconds, process_cpu_seconds
from rightslice.exporter.host.owners.labels import details_of_labels, joined
from rightslice.exporter.host.owners.owners import Owner, Owners
from rightslice.exporter.host.owners.workload import (
    NOTHING_KNOWN,
    POD,
    PROCESS,
    Details,
    Workload,
    pod_of,
)
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.host.whereabouts import Whereabouts

log = logging.getLogger(__name__)


class Environments(NodePart):
    """What processes were started with. To read it waits for a process that hangs."""

    id = "environments"
    lane = "environments"
    asks_driver = False

    def __init__(self, owners: Owners, clock: Clock) -> None:
        self._owners = owners
        self._clock = clock

    def refresh(self) -> None:
        """Read what the processes and jobs that were asked for since say."""
        self._owners.refresh_environments(self._clock.monotonic_seconds())


class Attribution(NodePart):
    """One thread refreshes, the threads of cards ask; what those are told is a second old."""

    id = "owners"
    # Names are on disks and in directories of users, which may be slow.
    lane = "owners"
    asks_driver = False

    def __init__(self, paths: Paths, clock: Clock, fetch_pods: FetchPods | None = None) -> None:
        self.procfs = paths.procfs
        self._sysfs = paths.sysfs
        self.kubelet = Kubelet(paths.kubelet_socket, now_seconds=clock.monotonic_seconds)
        self.kubelet_pods = KubeletPods(
            fetch_pods, lambda: self._holdings.pods, clock.monotonic_seconds
        )
        self.owners = Owners(
            paths.procfs,
            paths.sysfs,
            paths.pods,
            paths.docker / "containers",
            hami_folder=paths.hami,
        )
        self.environments = Environments(self.owners, clock)
        self._clock = clock
        self.whereabouts = Whereabouts()
        self._told_reasons: dict[str, str] = {}
        self._holdings = Holdings(
            self.kubelet, self.kubelet_pods, self.owners, clock.monotonic_seconds
        )

    def refresh(self) -> None:
        """Learn what is due, and put together who holds what."""
        try:
            self.owners.refresh_names(self._clock.monotonic_seconds())
        finally:  # what else is known is not less true
            self._holdings.put_together()

    def close(self) -> None:
        """Let go of the kubelet, also while it is being waited for."""
        self.kubelet.close()

    def sources(self) -> dict[str, bool]:
        """Tell of what there is on this node to read names and jobs from whether it can be read.

        The log is told when one cannot, and when it can again.
        """
        reasons = self.owners.sources
        for source, reason in reasons.items():
            if reason != self._told_reasons.get(source, ""):
                log.warning("owners of processes: %s", reason or f"{source} can be read again")
        self._told_reasons = reasons
        return {source: not reason for source, reason in reasons.items()}

    def now_seconds(self) -> float:
        """Give the time by the clock that never goes back."""
        return self._clock.monotonic_seconds()

    def held(self, names: tuple[str, ...]) -> Held:
        """Tell who holds the card that goes by these names."""
        return self._holdings.of(names)

    def owner_of(self, process_id: int) -> Owner | None:
        """Say whose a process is; None for one that is hidden from us."""
        return self.owners.owner_of(process_id, self._clock.monotonic_seconds())

    @property
    def holders(self) -> frozenset[Workload]:
        """Name the workloads to which orchestrators granted something."""
        return self._holdings.workloads

    def workloads_on_cards(self) -> set[Workload]:
        """Name all that hold or use a card now, whose name is known."""
        seen = {owner.workload for owner in self.owners.seen if owner.workload is not None}
        return {workload for workload in seen | self.holders if not workload.is_nameless}

    def is_on_a_card(self, workload: Workload) -> bool:
        """Tell whether a workload, or another container of its pod, holds or uses a card."""
        return pod_of(workload) in {pod_of(each) for each in self.workloads_on_cards()}

    def workload_at(self, place: CgroupPlace, command: str, user_id: int | None) -> Workload | None:
        """Name the workload of a process that may be gone, by its cgroup."""
        now_seconds = self._clock.monotonic_seconds()
        return self.owners.workload_in(place, command, user_id, now_seconds)

    def details(self, workload: Workload, owners: list[Owner]) -> Details:
        """Tell what else is known of a workload, by its processes and by the kubelet."""
        of_processes = joined(*(self.owners.details(owner) for owner in owners))
        if workload.kind != POD:
            return of_processes
        uids = {owner.pod_uid for owner in owners if owner.pod_uid}
        return joined(self._of_pod(workload, uids), of_processes)

    def cpu_seconds(self, owners: list[Owner]) -> dict[str, float]:
        """Give the processor time used so far by the cgroups, or else processes, of owners.

        By a name of each; what cannot be read is left out.
        """
        found: dict[str, float] = {}
        for owner in owners:
            name = _account_of(owner)
            if name not in found:
                seconds = self._used_seconds(owner)
                found |= {} if seconds is None else {name: seconds}
        return found

    def cgroup_folders(self, owners: list[Owner]) -> set[Path]:
        """Give the folders of the owners' cgroups (v2) as they are seen from here."""
        paths = {self.owners.place_of(owner).paths.get("", "") for owner in owners}
        return {self._sysfs / "fs/cgroup" / path.lstrip("/") for path in paths if path}

    def _used_seconds(self, owner: Owner) -> float | None:
        if owner.place.kind == PROCESS:
            return process_cpu_seconds(self.procfs, owner.process_id)
        return cgroup_cpu_seconds(self._sysfs, self.owners.place_of(owner))

    def _of_pod(self, workload: Workload, uids: set[str]) -> Details:
        pod = self.kubelet_pods.facts.get((workload.namespace, workload.pod))
        if pod is None or (pod.uid and uids and pod.uid not in uids):  # another of that name
            return NOTHING_KNOWN
        controller = Details(owner_kind=pod.owner_kind, owner=pod.owner)
        return joined(details_of_labels(pod.labels), controller)


def _account_of(owner: Owner) -> str:
    """Name what the processor time of an owner is counted under: its cgroup, else itself."""
    if owner.place.kind == PROCESS:
        return f"{owner.process_id} {owner.start_ticks}"
    return " ".join(sorted(set(owner.place.paths.values())))
