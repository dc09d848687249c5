"""The workloads of a simulated node as its kernel, its kubelet and Docker show them, over time."""

from collections.abc import Callable, Iterable

from rightslice.exporter.host.owners.workload import CONTAINER, POD, PROCESS, SLURM_JOB
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard
from rightslice.exporter.simulate.tenant_logs import LogKernel, TenantLogs
from rightslice.exporter.simulate.workload import V1_CONTROLLERS, SimulatedWorkload

MICROSECONDS_PER_SECOND = 1_000_000
NANOSECONDS_PER_SECOND = 1_000_000_000


def in_no_kernel_log(priority: int, text: str) -> None:
    """Write a record nowhere."""


class Tenants:
    """Writes what comes and takes away what goes; `update` is told the time.

    A process of no workload that the scenario names is root's python3, and there from the start.
    """

    def __init__(
        self,
        tree: ProcTree,
        scenario: Scenario,
        start_seconds: float,
        tell_pods: Callable[[list[SimulatedWorkload]], None],
        log_kernel: LogKernel = in_no_kernel_log,
    ) -> None:
        self._tree = tree
        self._workloads = scenario.workloads
        self._verbs = tuple(
            f"/dev/infiniband/uverbs{number}" for number in range(len(scenario.nics))
        )
        self._start_seconds = start_seconds
        self._tell_pods = tell_pods
        self._process_ids = {
            each.name: tuple(process_ids(scenario.cards, each.name)) for each in scenario.workloads
        }
        self._there: set[str] = set()
        self._listed: set[str] | None = None
        self._make_trees()
        self._logs = TenantLogs(
            tree, scenario.workloads, self._process_ids.__getitem__, start_seconds, log_kernel
        )

    def update(self, now_seconds: float) -> None:
        """Let the node show what runs now, and what it has used of the host so far."""
        after_seconds = now_seconds - self._start_seconds
        for workload in self._workloads:
            is_there = workload.is_there(after_seconds)
            if is_there and workload.name not in self._there:
                self._start(workload)
            if not is_there and workload.name in self._there:
                self._end(workload)
            if is_there:
                self._use(workload, now_seconds)
        self._logs.update(now_seconds)
        listed = [each for each in self._workloads if each.is_listed(after_seconds)]
        names = {each.name for each in listed}
        if names != self._listed:
            self._listed = names
            self._tell_pods([each for each in listed if each.kind == POD])

    def _make_trees(self) -> None:
        """Make what a node has before its first pod: the cgroup tree, and the kubelet's folders."""
        if any(each.cgroups != "v1" for each in self._workloads):
            self._tree.add_cgroup("", files={"cgroup.controllers": "cpu memory pids\n"})
        for workload in self._workloads:
            if workload.kind == POD:
                for mount in _mounts(workload):
                    self._tree.add_cgroup(mount + workload.pod_cgroup_path.rsplit("/", 1)[0])
                self._tree.pods_folder.mkdir(parents=True, exist_ok=True)

    def _start(self, workload: SimulatedWorkload) -> None:
        self._there.add(workload.name)
        process_ids = self._process_ids[workload.name]
        for process_id in process_ids if not workload.is_hidden else ():
            self._tree.start(
                process_id,
                workload.cgroup_text,
                command=workload.pod if workload.kind == PROCESS else "python3",
                user_id=workload.user_id,
                start_ticks=int(workload.since_seconds) + 1,
                environment=workload.environment,
            )
            if self._verbs:
                self._tree.add_resources(
                    process_id,
                    self._verbs if workload.queue_pairs else (),
                    self._verbs if workload.sees_rdma_devices else (),
                    workload.memlock_bytes,
                )
        if workload.kind == POD:
            container = {workload.container: workload.container_id}
            self._tree.add_pod(workload.namespace, workload.pod, workload.pod_uid, container)
        if workload.kind == CONTAINER:
            self._tree.add_docker(workload.container_id, workload.pod, workload.labels)
        if workload.kind == SLURM_JOB:
            self._tree.add_cgroup(f"{workload.cgroup_path}/user/task_0", process_ids)

    def _end(self, workload: SimulatedWorkload) -> None:
        """Take away what the kernel shows; the kubelet's log folder stays as long as it lists."""
        self._there.discard(workload.name)
        for process_id in self._process_ids[workload.name] if not workload.is_hidden else ():
            self._tree.end(process_id)
        is_last = not any(
            each.name in self._there and each.pod_uid == workload.pod_uid
            for each in self._workloads
        )
        is_whole_pod = workload.kind == POD and is_last
        for mount in _mounts(workload):
            path = workload.pod_cgroup_path if is_whole_pod else workload.cgroup_path
            self._tree.remove_cgroup(mount + path)

    def _use(self, workload: SimulatedWorkload, now_seconds: float) -> None:
        """Write the processor time of a workload's cgroup."""
        if workload.kind == PROCESS:
            return
        began_seconds = self._start_seconds + workload.since_seconds
        used_seconds = workload.cpu_cores.total(began_seconds, max(now_seconds, began_seconds))
        if workload.cgroups == "v1":
            text = f"{int(used_seconds * NANOSECONDS_PER_SECOND)}\n"
            self._tree.add_cgroup(
                f"/{V1_CONTROLLERS[0]}{workload.cgroup_path}", files={"cpuacct.usage": text}
            )
            return
        text = f"usage_usec {int(used_seconds * MICROSECONDS_PER_SECOND)}\n"
        self._tree.add_cgroup(workload.cgroup_path, files={"cpu.stat": text})


def _mounts(workload: SimulatedWorkload) -> tuple[str, ...]:
    return tuple(f"/{each}" for each in V1_CONTROLLERS) if workload.cgroups == "v1" else ("",)


def process_ids(cards: Iterable[SimulatedCard], workload: str) -> Iterable[int]:
    """Give the processes of a workload; one may be on several cards."""
    found = (each.pid for card in cards for each in card.processes if each.workload == workload)
    return dict.fromkeys(found)
