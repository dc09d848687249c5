"""What a scenario says of the workloads of a node, and what the node shows of each."""

import hashlib
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from rightslice.exporter.host.owners.workload import CONTAINER, POD, PROCESS, SLURM_JOB
from rightslice.exporter.simulate.load import Level

KINDS = (POD, SLURM_JOB, CONTAINER, PROCESS)
RUNTIMES = ("containerd", "crio", "docker")
CGROUPS = ("systemd", "cgroupfs", "v1")
# How the kubelet spells the devices that it grants.
DEVICE_IDS = ("uuid", "replica", "minor", "minor_replica", "claim")
LIMIT_SOURCES = ("hami", "mps")
SPACE = uuid.UUID("5bd3c1f0-1f0a-5a77-8e0b-3f3b5a7a91d4")
SCOPES = {"containerd": "cri-containerd-", "crio": "crio-", "docker": "docker-"}
V1_CONTROLLERS = ("cpu,cpuacct", "memory", "devices")


@dataclass(frozen=True, slots=True)
class LogLine:
    """Lines that a container writes, so long after its start."""

    after_seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """One workload, with the names of the contract; seconds count from the node's start.

    `cards` are those that were granted to it, by position. The kubelet goes on to list a pod for
    `listed_seconds` after its end. A hidden one's processes are not in procfs. `log` is what its
    container writes. `variables` are of its environment, beside those that its kind and limits
    bring. Each of its processes holds so many `queue_pairs` on each RDMA device, and may lock so
    much memory, without end for None.
    """

    name: str
    kind: str = PROCESS
    namespace: str = ""
    pod: str = ""
    container: str = ""
    cards: tuple[int, ...] = ()
    device_ids: str = "uuid"
    resource: str = "nvidia.com/gpu"
    runtime: str = "containerd"
    cgroups: str = "systemd"
    account: str = ""
    user_id: int = 0
    cpu_cores: Level = field(default_factory=lambda: Level(0.0, 0.0))
    labels: Mapping[str, str] = field(default_factory=dict)
    memory_limit_mib: Mapping[str, int] = field(default_factory=dict)
    is_hidden: bool = False
    since_seconds: float = 0.0
    until_seconds: float = math.inf
    listed_seconds: float = 0.0
    log: tuple[LogLine, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    queue_pairs: int = 0
    memlock_bytes: int | None = None
    sees_rdma_devices: bool = True
    # After its start, when the kernel kills a process of it at the limit of its cgroup.
    kills_seconds: tuple[float, ...] = ()

    def is_there(self, after_seconds: float) -> bool:
        """Tell whether it runs so long after the node's start."""
        return self.since_seconds <= after_seconds < self.until_seconds

    def is_listed(self, after_seconds: float) -> bool:
        """Tell whether the kubelet lists it."""
        return self.since_seconds <= after_seconds < self.until_seconds + self.listed_seconds

    @property
    def pod_uid(self) -> str:
        return str(uuid.uuid5(SPACE, f"{self.namespace}/{self.pod}"))

    @property
    def container_id(self) -> str:
        return hashlib.sha256(f"{self.kind} {self.name}".encode()).hexdigest()

    @property
    def cgroup_path(self) -> str:
        """Give the path of its cgroup, which holds its processes or their step."""
        if self.kind == POD:
            return f"{self.pod_cgroup_path}/{self._container_folder()}"
        if self.kind == SLURM_JOB:
            return f"/system.slice/slurmstepd.scope/job_{self.pod}/step_{self.container}"
        if self.kind == CONTAINER:
            return f"/system.slice/docker-{self.container_id}.scope"
        return "/user.slice/user-0.slice/session-1.scope"

    @property
    def pod_cgroup_path(self) -> str:
        if self.cgroups == "systemd":
            name = self.pod_uid.replace("-", "_")
            return f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{name}.slice"
        return f"/kubepods/burstable/pod{self.pod_uid}"

    @property
    def cgroup_text(self) -> str:
        """Give the text of /proc/PID/cgroup."""
        path = f"{self.cgroup_path}/user/task_0" if self.kind == SLURM_JOB else self.cgroup_path
        if self.cgroups != "v1":
            return f"0::{path}\n"
        rows = enumerate(reversed(V1_CONTROLLERS), start=2)
        return "".join(f"{number}:{controllers}:{path}\n" for number, controllers in rows)

    @property
    def environment(self) -> dict[str, str]:
        """Give what its processes were started with."""
        variables = {}
        if "hami" in self.memory_limit_mib:
            variables["CUDA_DEVICE_MEMORY_LIMIT"] = f"{self.memory_limit_mib['hami']}m"
        if "mps" in self.memory_limit_mib:
            variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={self.memory_limit_mib['mps']}M"
        if self.kind == SLURM_JOB:
            variables["SLURM_JOB_USER"] = self.namespace
            variables["SLURM_JOB_ACCOUNT"] = self.account
            variables["SLURM_JOB_GPUS"] = ",".join(map(str, self.cards))
        return variables | dict(self.variables)

    def _container_folder(self) -> str:
        if self.cgroups == "systemd":
            return f"{SCOPES[self.runtime]}{self.container_id}.scope"
        return self.container_id
