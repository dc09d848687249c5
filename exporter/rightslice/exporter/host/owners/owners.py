"""From a process id to whose it is. Answers come from procfs and memory; the rest is read apart."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rightslice.exporter.host.owners.cgroup_path import CgroupPlace, parse_cgroups
from rightslice.exporter.host.owners.docker import DockerContainers
from rightslice.exporter.host.owners.environment import (
    HAMI,
    PROMISE_NAMES,
    promises,
    read_variables,
)
from rightslice.exporter.host.owners.hami import container_limits
from rightslice.exporter.host.owners.label_text import without_ids
from rightslice.exporter.host.owners.labels import details_of_labels, joined
from rightslice.exporter.host.owners.naming import Naming, Unnamed
from rightslice.exporter.host.owners.pod_cgroups import PodCgroups
from rightslice.exporter.host.owners.pod_names import PodNames
from rightslice.exporter.host.owners.process_files import (
    ProcessStat,
    read_cgroup_text,
    read_stat,
    read_status,
)
from rightslice.exporter.host.owners.slurm import JobHolding, SlurmJobs
from rightslice.exporter.host.owners.users import UserNames, account_name
from rightslice.exporter.host.owners.workload import NOTHING_KNOWN, Details, Workload

MOST_REMEMBERED = 8192
NAMES_SECONDS = 30.0
TREES_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a process is. `workload` is None for one that was seen and is not named yet.

    The id and the start, in clock ticks since boot, name the process together: ids are used again.
    """

    process_id: int
    start_ticks: int
    place: CgroupPlace
    workload: Workload | None = None
    pod_uid: str = ""

    @property
    def container_id(self) -> str:
        return self.place.container_id


@dataclass(slots=True)
class _Seen:
    """A process that somebody asked for. `promises` is None until its environment was read."""

    owner: Owner
    unnamed: Unnamed
    # When its name was last looked for.
    named_seconds: float = float("-inf")
    promises: dict[str, int] | None = None


class Owners:
    """The owners of processes.

    Any thread may ask. `refresh` is the background's, in one thread, and may wait for a disk, a
    directory of users or a process that hangs; who must tell these apart calls its two halves.
    """

    def __init__(
        self,
        procfs: Path,
        sysfs: Path,
        pods_folder: Path,
        docker_folder: Path,
        user_name: Callable[[int], str] = account_name,
        hami_folder: Path | None = None,
    ) -> None:
        self._procfs = procfs
        self._hami_folder = hami_folder
        users = UserNames(user_name)
        slurm = SlurmJobs(sysfs, procfs, UserNames(user_name))
        self._names = Naming(PodNames(pods_folder), DockerContainers(docker_folder), slurm, users)
        self._pod_cgroups = PodCgroups(sysfs)
        self._seen: dict[int, _Seen] = {}
        self._lock = threading.Lock()
        self._names_seconds = self._trees_seconds = self._jobs_seconds = float("-inf")

    @property
    def process_count(self) -> int:
        """How many processes are remembered."""
        return len(self._seen)

    @property
    def sources(self) -> dict[str, str]:
        """Name what there is to read on this node, with why it cannot be read and what to do.

        The reason is empty for what can be read.
        """
        pods, docker, slurm = self._names.pods, self._names.docker, self._names.slurm
        found = {"logs": pods.unavailable_reason or ""} if not pods.is_empty else {}
        found |= {"docker": docker.unavailable_reason or ""} if not docker.is_empty else {}
        found |= {"slurm": slurm.unavailable_reason or ""} if slurm.is_present else {}
        return found

    @property
    def has_slurm(self) -> bool | None:
        """Tell whether this node runs Slurm; None before the first refresh."""
        return self._names.slurm.is_present

    @property
    def slurm_jobs(self) -> Mapping[str, JobHolding]:
        """The node's Slurm jobs by id, with the cards they hold."""
        return self._names.slurm.jobs

    @property
    def slurm_since_seconds(self) -> float:
        """When the last scan of the jobs that came to its end began; -inf before one."""
        return self._names.slurm.since_seconds

    @property
    def seen(self) -> list[Owner]:
        """The owners, with a name, of the processes that somebody asked for and that still run."""
        seen = list(self._seen.values())
        return [each.owner for each in seen if each.owner.workload is not None]

    def workload_in(
        self, place: CgroupPlace, command: str, user_id: int | None, now_seconds: float
    ) -> Workload | None:
        """Name the workload of a process that may be gone, by its cgroup."""
        unnamed = Unnamed(place, command, user_id, float("-inf"))  # its name is not waited for
        with self._lock:
            return self._names.workload(unnamed, now_seconds)

    def pod_uids(self, namespace: str, name: str) -> tuple[str, ...]:
        """Give the uids that pods of this name have or had; where there are none, look anew."""
        pods = self._names.pods
        found = pods.uids(namespace, name)
        pods.is_wanted = pods.is_wanted or not found
        return found

    def pod_path(self, uid: str) -> str:
        """Give the path of a pod's cgroup below its mount; empty where it is not known."""
        return self._pod_cgroups.pod_path(uid)

    def sole_container(self, uid: str) -> str:
        """Name a pod's container, if it never had another one; else empty."""
        pod = self._names.pods.known(uid)
        return pod.containers[0] if pod is not None and len(pod.containers) == 1 else ""

    def is_pod_alive(self, uid: str) -> bool | None:
        """Tell whether a pod has a cgroup; None where that is not visible, or not looked up yet."""
        return self._pod_cgroups.is_alive(uid)

    def has_cgroup(self, namespace: str, name: str) -> Mapping[str, bool | None]:
        """Tell of each uid that a pod of this name has or had what `is_pod_alive` tells of it.

        Where none has a cgroup, a younger pod of that name may: names are then read anew, and
        nothing is told before.
        """
        pods = self._names.pods
        told = {uid: self.is_pod_alive(uid) for uid in pods.uids(namespace, name)}
        if not told or any(told.values()) or pods.since_seconds >= self._trees_seconds:
            return told
        pods.is_wanted = True
        return dict.fromkeys(told)

    def owner_of(self, process_id: int, now_seconds: float) -> Owner | None:
        """Say whose a process is; None for one that procfs does not show, as in a PID namespace.

        For a process that is known this is one small read, which finds an id that is used again.
        """
        stat = read_stat(self._procfs, process_id)
        if stat is None:
            self._forget(process_id)
            return None
        seen = self._seen.get(process_id)
        if seen is None or seen.owner.start_ticks != stat.start_ticks:
            seen = self._look_at(process_id, stat, now_seconds)
        workload = seen.owner.workload
        is_late = now_seconds - seen.named_seconds >= NAMES_SECONDS
        if workload is None or (workload.is_nameless and is_late):
            self._name(seen, now_seconds)
        return seen.owner

    def place_of(self, owner: Owner) -> CgroupPlace:
        """Give where a process is, with the paths that are known from their mounts on."""
        place = owner.place
        if not any(".." in path for path in place.paths.values()):
            return place
        paths = {
            controller: whole
            for controller, path in place.paths.items()
            if (whole := self._pod_cgroups.path(path, place.pod_uid)) is not None
        }
        return replace(place, paths=paths)

    def details(self, owner: Owner) -> Details:
        """Say what else is known of an owner, from what `refresh` has read so far."""
        container = self._names.docker_container(owner.place)
        labels = details_of_labels(container.labels) if container else NOTHING_KNOWN
        seen = self._seen.get(owner.process_id)
        is_same = seen is not None and seen.owner.start_ticks == owner.start_ticks
        limits = seen.promises if seen is not None and is_same else None
        return joined(labels, self._job_details(owner), Details(memory_limits=limits or {}))

    def refresh(self, now_seconds: float) -> None:
        """Learn what was asked for since, and what is due."""
        self.refresh_names(now_seconds)
        self.refresh_environments(now_seconds)

    def refresh_names(self, now_seconds: float) -> None:
        """Read names and trees, and forget the processes that ended. Waits for no process."""
        names = self._names
        if now_seconds - self._trees_seconds >= TREES_SECONDS:
            self._trees_seconds = now_seconds
            self._pod_cgroups.scan()
        if names.pods.is_wanted or now_seconds - self._names_seconds >= NAMES_SECONDS:
            self._names_seconds = now_seconds
            names.pods.scan(now_seconds)
        names.docker.read_wanted(now_seconds)
        names.users.look_up_wanted()
        for process_id in list(self._seen):
            if not os.path.exists(f"{self._procfs}/{process_id}"):
                self._forget(process_id)

    def refresh_environments(self, now_seconds: float) -> None:
        """Read what Slurm's jobs and the processes asked for say in their environments."""
        if self._names.slurm.is_wanted or now_seconds - self._jobs_seconds >= TREES_SECONDS:
            self._jobs_seconds = now_seconds
            self._names.slurm.scan(now_seconds)
        for seen in list(self._seen.values()):
            if seen.promises is None and seen.owner.workload is not None:
                self._read_promises(seen)

    def _look_at(self, process_id: int, stat: ProcessStat, now_seconds: float) -> _Seen:
        place = parse_cgroups(read_cgroup_text(self._procfs, process_id))
        status = read_status(self._procfs, process_id)
        ids = (process_id, stat.parent_id, *status.process_ids)
        seen = _Seen(
            Owner(process_id, stat.start_ticks, place, pod_uid=place.pod_uid),
            Unnamed(place, without_ids(stat.command, ids), status.user_id, now_seconds),
        )
        with self._lock:
            self._seen.pop(process_id, None)  # so that the oldest stay in front
            while len(self._seen) >= MOST_REMEMBERED:
                del self._seen[next(iter(self._seen))]
            self._seen[process_id] = seen
        return seen

    def _forget(self, process_id: int) -> None:
        with self._lock:  # `_look_at` goes through them
            self._seen.pop(process_id, None)

    def _name(self, seen: _Seen, now_seconds: float) -> None:
        """Name a process if that can be done by now; for all threads the same."""
        with self._lock:
            workload, before = self._names.workload(seen.unnamed, now_seconds), seen.owner.workload
            seen.named_seconds = now_seconds
            if workload is None or not (before is None or before.is_nameless):
                return
            container = self._names.docker_container(seen.owner.place)
            pod_uid = seen.owner.pod_uid or (container.pod_uid if container else "")
            seen.owner = replace(seen.owner, workload=workload, pod_uid=pod_uid)

    def _job_details(self, owner: Owner) -> Details:
        job = self._names.slurm.jobs.get(owner.place.slurm_job_id)
        if job is None or not job.account:
            return NOTHING_KNOWN
        return Details(owner_kind="slurm_account", owner=job.account, team=job.account)

    def _read_promises(self, seen: _Seen) -> None:
        owner, workload = seen.owner, seen.owner.workload
        stat = read_stat(self._procfs, owner.process_id)
        if stat is None or stat.may_hang or workload is None:
            return  # some other time
        variables = read_variables(self._procfs, owner.process_id, PROMISE_NAMES)
        found = promises(variables or {})
        if HAMI not in found and self._hami_folder is not None and owner.pod_uid:
            limits = container_limits(self._hami_folder, owner.pod_uid, workload.container)
            found |= {HAMI: max(limits.values())} if limits else {}
        seen.promises = found
