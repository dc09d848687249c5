"""What a process's workload is called, by where it is and what is known of that place."""

from dataclasses import dataclass

from rightslice.exporter.host.owners.cgroup_path import CgroupPlace
from rightslice.exporter.host.owners.docker import DockerContainer, DockerContainers
from rightslice.exporter.host.owners.label_text import command_text
from rightslice.exporter.host.owners.pod_names import PodName, PodNames
from rightslice.exporter.host.owners.slurm import SlurmJobs
from rightslice.exporter.host.owners.users import UserNames
from rightslice.exporter.host.owners.workload import CONTAINER, POD, PROCESS, SLURM_JOB, Workload

# What nobody has named by then is called by its id.
PATIENCE_SECONDS = 60.0
SHORT_ID_CHARACTERS = 12
# A path that tells another runtime, or none, may still be Docker's.
DOCKER_RUNTIMES = ("", "docker")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A process as procfs shows it. `user_id` is None where that is hidden."""

    place: CgroupPlace
    command: str
    user_id: int | None
    seen_seconds: float


@dataclass(frozen=True, slots=True)
class Naming:
    """All that names workloads. It answers from memory; what is missing is read in the background.

    A name is final once given: labels must not change while a process runs. So an answer that the
    next reading may better is waited for. Only a pod that goes by its uid gets its name even late.
    """

    pods: PodNames
    docker: DockerContainers
    slurm: SlurmJobs
    users: UserNames

    def workload(self, process: Unnamed, now_seconds: float) -> Workload | None:
        """Name a workload; None while its name may yet be found."""
        is_late = now_seconds - process.seen_seconds >= PATIENCE_SECONDS
        kind = process.place.kind
        if kind == POD:
            return self._pod(process, is_late=is_late)
        if kind == SLURM_JOB:
            return self._slurm_job(process, is_late=is_late)
        if kind == CONTAINER:
            return self._container(process, is_late=is_late)
        return self._process(process, is_late=is_late)

    def docker_container(self, place: CgroupPlace) -> DockerContainer | None:
        """Give the container of a place; None where it is not Docker's or not looked for yet."""
        if not place.container_id or place.runtime not in DOCKER_RUNTIMES:
            return None
        return self.docker.container(place.container_id)

    def _pod(self, process: Unnamed, *, is_late: bool) -> Workload | None:
        place = process.place
        pod = self.pods.pod(place.pod_uid)
        if pod is not None:
            name = self._container_name(pod, process, is_late=is_late)
            return None if name is None else Workload(POD, pod.namespace, pod.name, name)
        container = self.docker_container(place)
        if container is not None and any(container.pod):
            return Workload(POD, *container.pod)
        return Workload(POD, "", place.pod_uid) if is_late else None

    def _container_name(self, pod: PodName, process: Unnamed, *, is_late: bool) -> str | None:
        """Name a pod's container, "" where nobody tells; None while the next scan may."""
        name = self.pods.container_name(process.place.container_id)
        if name is not None:
            return name
        if not (is_late or self.pods.since_seconds > process.seen_seconds):
            return None  # a container that ran before this one may be all that is listed yet
        return pod.containers[0] if len(pod.containers) == 1 else ""

    def _container(self, process: Unnamed, *, is_late: bool) -> Workload | None:
        place = process.place
        by_id = Workload(CONTAINER, "", place.container_id[:SHORT_ID_CHARACTERS])
        if place.runtime not in DOCKER_RUNTIMES:
            return by_id
        found = self.docker_container(place)
        if found is None:
            return by_id if is_late else None
        if any(found.pod):
            return Workload(POD, *found.pod)
        return Workload(CONTAINER, "", found.name) if found.is_known else by_id

    def _slurm_job(self, process: Unnamed, *, is_late: bool) -> Workload | None:
        place = process.place
        job = self.slurm.job(place.slurm_job_id)
        user = job.user if job and job.user else self._user(process, is_late=is_late)
        if job is None and not is_late:
            return None
        step = place.slurm_step
        return None if user is None else Workload(SLURM_JOB, user, place.slurm_job_id, step)

    def _process(self, process: Unnamed, *, is_late: bool) -> Workload | None:
        user = self._user(process, is_late=is_late)
        return None if user is None else Workload(PROCESS, user, command_text(process.command))

    def _user(self, process: Unnamed, *, is_late: bool) -> str | None:
        user_id = process.place.slurm_user_id
        user_id = process.user_id if user_id is None else user_id
        if user_id is None:
            return ""
        name = self.users.name(user_id)
        return str(user_id) if name is None and is_late else name
