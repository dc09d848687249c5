"""What a workload is called, and what else its orchestrator says of it."""

from dataclasses import dataclass, field

POD, SLURM_JOB, CONTAINER, PROCESS = "pod", "slurm_job", "container", "process"
# Of a promise of memory that a label of the pod or container makes.
SOURCE_LABEL = "label"


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """Who uses or holds a card, in the labels of the contract.

    pod: namespace, pod and container as in Kubernetes (`container` is empty where only the pod is
    known). slurm_job: user, job id, step. container: "", the container's name, "". process: Unix
    user, command name, "". Never a process id.
    """

    kind: str
    namespace: str
    pod: str
    container: str = ""

    @property
    def labels(self) -> tuple[str, str, str, str]:
        return (self.kind, self.namespace, self.pod, self.container)

    @property
    def is_in_pod(self) -> bool:
        return self.kind == POD

    @property
    def is_nameless(self) -> bool:
        """Tell whether this is a pod that goes by its uid, for want of a name."""
        return self.kind == POD and not self.namespace


def pod_of(workload: Workload) -> tuple[str, ...]:
    """Give what the containers of a pod, or the steps of a job, have in common."""
    return workload.labels[:3]


@dataclass(frozen=True, slots=True)
class Details:
    """What is known of a workload beyond its name; empty where nobody tells.

    `memory_limits` are promises in bytes of card memory, by their source: hami, mps, label.
    `is_rdma_meant` is False for one that is meant to use TCP between nodes.
    """

    workload_class: str = ""
    owner_kind: str = ""
    owner: str = ""
    team: str = ""
    is_protected: bool | None = None
    memory_limits: dict[str, int] = field(default_factory=dict)
    is_rdma_meant: bool | None = None


NOTHING_KNOWN = Details()
