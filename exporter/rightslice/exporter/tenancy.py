"""Who is on a card: what was granted, and the processes that are there, put together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rightslice.exporter.host.holders import Held
from rightslice.exporter.host.kubelet.device_ids import DeviceId
from rightslice.exporter.host.nvml.processes import GpuProcess
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.owners.workload import SLURM_JOB, Workload, pod_of

# No instance: the card as a whole.
WHOLE_CARD = ""
# A GPU instance's id, or WHOLE_CARD, and who is on it.
Key = tuple[str, Workload]
InstanceOf = Callable[[DeviceId], str | None]


@dataclass(slots=True)
class Part:
    """One workload's part of a card, or of a GPU instance of it.

    `is_granted` says that an orchestrator gave it to the workload; None where that is not known
    now, or where none rules the card.
    """

    gpu_instance_id: str
    workload: Workload
    is_granted: bool | None = None
    processes: list[GpuProcess] = field(default_factory=list)
    owners: list[Owner] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return (self.gpu_instance_id, self.workload)

    @property
    def pod(self) -> tuple[str, ...]:
        """What it shares with the other containers of its pod, or steps of its job."""
        return pod_of(self.workload)


Parts = dict[Key, Part]


@dataclass(slots=True)
class Tenancy:
    """Everybody on one card.

    `is_listed` says that the driver lists processes. `hidden` are those whose workload is not
    known. `is_held` tells whether somebody holds the card; None where that is not known, and where
    no orchestrator rules it.
    """

    parts: list[Part]
    hidden: list[GpuProcess]
    is_listed: bool
    is_ruled: bool
    is_held: bool | None
    _pods: dict[str, set[tuple[str, ...]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.parts:
            self._pods.setdefault(part.gpu_instance_id, set()).add(part.pod)

    def is_shared(self, part: Part) -> bool:
        """Tell whether somebody else is on the same card or instance."""
        return len(self._pods[part.gpu_instance_id]) > 1

    def context_count(self, gpu_instance_id: str) -> int:
        """Count the processes on an instance, or on the card; hidden ones may be on any."""
        here = [part for part in self.parts if part.gpu_instance_id == gpu_instance_id]
        return sum(len(part.processes) for part in here) + len(self.hidden)

    def is_seen(self, part: Part) -> bool:
        """Tell whether the workload's use of the card can be seen.

        A process that is hidden, or of a pod without a name, may be anybody's: who has none then
        may have that one.
        """
        return self.is_listed and (bool(part.processes) or not (self.hidden or self.has_nameless))

    @property
    def has_nameless(self) -> bool:
        """Tell whether a pod is here that goes by its uid."""
        return any(part.workload.is_nameless for part in self.parts)


def labels_of(uuid: str, key: Key) -> tuple[str, ...]:
    """Give the labels of a workload's part of a card."""
    gpu_instance_id, workload = key
    return (uuid, gpu_instance_id, *workload.labels)


def tenancy_of(
    processes: list[GpuProcess] | None,
    owner_of: Callable[[int], Owner | None],
    held: Held,
    instance_of: InstanceOf,
) -> Tenancy:
    """Put together who is on a card.

    `processes` is None where the driver lists none. `instance_of` gives the GPU instance of a
    granted device: "" for the whole card, None for an instance that does not exist.
    """
    parts: Parts = {}
    hidden: list[GpuProcess] = []
    for process in processes or ():
        owner = owner_of(process.process_id)
        if owner is None or owner.workload is None:
            hidden.append(process)
            continue
        part = _part(parts, _instance_text(process), owner.workload)
        part.processes.append(process)
        part.owners.append(owner)
    granted = sorted(set(_granted(held, instance_of)))
    granted_parts = [_granted_part(parts, key, granted) for key in granted]
    if held.is_ruled and held.is_known:
        _judge(parts.values(), granted_parts, held)
    return Tenancy(
        parts=sorted(parts.values(), key=lambda part: (part.gpu_instance_id, part.workload)),
        hidden=hidden,
        is_listed=processes is not None,
        is_ruled=held.is_ruled,
        is_held=_is_held(parts.values(), held),
    )


def _part(parts: Parts, instance: str, workload: Workload) -> Part:
    return parts.setdefault((instance, workload), Part(instance, workload))


def _instance_text(process: GpuProcess) -> str:
    return WHOLE_CARD if process.gpu_instance_id is None else str(process.gpu_instance_id)


def _granted(held: Held, instance_of: InstanceOf) -> Iterator[Key]:
    for grant in held.grants:
        instance = instance_of(grant.device)
        if instance is not None:
            yield instance, grant.workload


def _judge(parts: Iterable[Part], granted: Sequence[Part], held: Held) -> None:
    """Note of each part whether it was granted.

    That stays unknown for what is of a pod or job that holds the card and is not named well enough
    to say whether it is of the container, or under the step, that it was granted to; and for a pod
    whose name is not known, which may be any of those that hold it.
    """
    granted_ids, holders = {id(part) for part in granted}, {part.pod for part in granted}
    claimants = {pod_of(workload) for workload in held.claimants}
    for part in parts:
        is_vague = not part.workload.container or part.workload.kind == SLURM_JOB
        if id(part) in granted_ids or part.pod in claimants:
            part.is_granted = True
        elif part.workload.is_nameless:
            part.is_granted = None if holders or claimants else False
        elif not (is_vague and part.pod in holders):
            part.is_granted = False


def _granted_part(parts: Parts, key: Key, granted: Sequence[Key]) -> Part:
    """Give the part of a workload that was granted its card or instance.

    Where its container is not named by the kernel, or a job is granted as a whole and not by step,
    its processes are found under another name, if those are the only ones that can be meant.
    """
    instance, workload = key
    if key in parts:
        return parts[key]
    meant = [part for part in parts.values() if _may_be(part, key)]
    rivals = [
        other for other in granted if other[0] == instance and pod_of(other[1]) == pod_of(workload)
    ]
    if len(meant) != 1 or len(rivals) != 1:
        return _part(parts, instance, workload)
    if workload.container:
        meant[0].workload = workload
    return meant[0]


def _may_be(part: Part, key: Key) -> bool:
    instance, workload = key
    is_named = bool(part.workload.container and workload.container)
    return part.gpu_instance_id == instance and part.pod == pod_of(workload) and not is_named


def _is_held(parts: Iterable[Part], held: Held) -> bool | None:
    if not (held.is_ruled and held.is_known):
        return None
    if any(part.is_granted for part in parts):
        return True
    return None if held.claimants else False
