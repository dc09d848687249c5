"""The text of /proc/PID/cgroup: in which pod, Slurm job or container a process is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from rightslice.exporter.host.owners.workload import CONTAINER, POD, PROCESS, SLURM_JOB

# "pod" and the uid; systemd's slices have underscores in it, for their hyphens part the levels.
# The uid of a static pod is a hash of its manifest. No ancestor is asked for: from within a cgroup
# namespace a neighbour is "/../../pod...", and a kubelet may have a root of its own.
POD_PART = re.compile(
    r"[/-]pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?=\.slice|[:/]|$)"
)
# ID, RUNTIME-ID, RUNTIME-ID.scope, or from a runtime without systemd's rules SLICE:RUNTIME:ID.
CONTAINER_PART = re.compile(
    r"[/:](?:(?P<runtime>[a-z][a-z0-9-]{0,31})[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?(?=/|$)"
)
# v1: /slurm/uid_U/job_J/step_S/task_T. v2: .../slurmstepd.scope/job_J/step_S/user/task_T.
# With several slurmd on a node, slurm_NODE and NODE_slurmstepd.scope.
SLURM_PART = re.compile(
    r"/(?:slurm(?:_[^/]{1,255})?|(?:[^/]{1,255}_)?slurmstepd\.scope)"
    r"(?:/uid_(?P<user>\d{1,10}))?/job_(?P<job>\w{1,32})(?:/step_(?P<step>[\w+.]{1,32}))?(?=/|$)",
    re.ASCII,
)
GONE = " (deleted)"

RUNTIMES = {"cri-containerd": "containerd", "nerdctl": "containerd", "libpod": "podman"}
# Not the container, but what watches over it.
MONITOR = "conmon"
QOS_CLASSES = ("burstable", "besteffort")
GUARANTEED = "guaranteed"

MOST_CHARACTERS = 64 * 1024
MOST_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """Where a process is; what the path does not tell is empty.

    `kind` is a workload's. A pod that is inside another container and a Slurm job that is inside a
    pod count as what is innermost, and the other's fields stay. `paths` are the folders of the
    container or step itself, by controller of cgroup v1, for those that have one; the one of v2 is
    named "".
    """

    kind: str = PROCESS
    pod_uid: str = ""
    qos: str = ""
    runtime: str = ""
    container_id: str = ""
    slurm_job_id: str = ""
    slurm_step: str = ""
    slurm_user_id: int | None = None
    paths: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Tell places apart; all empty for a process that is in nothing."""
        return self.pod_uid, self.slurm_job_id, self.slurm_step, self.container_id

    @property
    def rank(self) -> tuple[bool, int]:
        """Order the lines of cgroup v1 by how much they tell: some controllers are not in use."""
        return self.kind in (POD, SLURM_JOB), sum(map(bool, (*self.identity, self.qos)))


@lru_cache(maxsize=MOST_REMEMBERED)
def parse_cgroups(text: str) -> CgroupPlace:
    """Tell where a process is; text that is no list of cgroups gives a place of nothing."""
    by_controller: dict[str, str] = {}
    for line in text[:MOST_CHARACTERS].split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/"):
            by_controller |= dict.fromkeys(controllers.split(","), path.removesuffix(GONE))
    found = {path: parse_path(path) for path in dict.fromkeys(by_controller.values())}
    places = [place for place, _ in found.values()] or [CgroupPlace()]
    best = max(places, key=lambda place: place.rank)
    paths = {
        controller: found[path][1]
        for controller, path in by_controller.items()
        if found[path][0].identity == best.identity
    }
    return replace(best, paths=MappingProxyType(paths))


def parse_path(path: str) -> tuple[CgroupPlace, str]:
    """Give the place that a path tells, and the part of the path that is the workload's folder."""
    pod, job = _last(POD_PART, path), _last(SLURM_PART, path)
    container = _first_container(path, pod.end() if pod else 0)
    kind, end = _innermost(pod, job, container)
    place = CgroupPlace(
        kind=kind,
        pod_uid=pod["uid"].replace("_", "-") if pod else "",
        qos=_qos(path[: pod.start("uid")]) if pod else "",
        runtime=_runtime(container) if container else "",
        container_id=container["id"] if container else "",
        slurm_job_id=job["job"] if job else "",
        slurm_step=(job["step"] or "") if job else "",
        slurm_user_id=int(job["user"]) if job and job["user"] else None,
    )
    next_slash = path.find("/", end) if kind != PROCESS else -1
    return place, path if next_slash < 0 else path[:next_slash]


def _innermost(
    pod: re.Match[str] | None, job: re.Match[str] | None, container: re.Match[str] | None
) -> tuple[str, int]:
    """Tell whose the process is, and where in the path that ends."""
    if job and (pod is None or job.start() > pod.start()):
        return SLURM_JOB, job.end()
    if pod:
        return POD, container.end() if container else pod.end()
    return (CONTAINER, container.end()) if container else (PROCESS, 0)


def _last(part: re.Pattern[str], path: str) -> re.Match[str] | None:
    return max(part.finditer(path), key=lambda match: match.start(), default=None)


def _first_container(path: str, start: int) -> re.Match[str] | None:
    """Find the outermost container: of those within it, the node's runtime knows nothing."""
    matches = CONTAINER_PART.finditer(path, start)
    return next((match for match in matches if MONITOR not in (match["runtime"] or "")), None)


def _runtime(container: re.Match[str]) -> str:
    """Name the runtime; empty where the path does not tell it."""
    told = container["runtime"] or ""
    if not told and container.string[: container.start()].endswith("/docker"):
        return "docker"
    return RUNTIMES.get(told, told)


def _qos(before_uid: str) -> str:
    """Read the class of a pod from what is before its uid; empty where a namespace hides it."""
    parent = before_uid.removesuffix("pod").rstrip("-/")
    for qos in QOS_CLASSES:
        if parent.endswith(qos):
            return qos
    return GUARANTEED if parent.endswith("kubepods") else ""
