"""What the containers of a simulated node write, and its kernel when it kills one of them."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from rightslice.exporter.host.owners.workload import POD
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.workload import SimulatedWorkload

ERROR_PRIORITY = 3
# As kernels since 5.0 write it: where, then who.
KILL_RECORDS = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg={cgroup},task_memcg={cgroup},task=python3,pid={pid},uid=0",
    "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:41943040kB, "
    "anon-rss:33554432kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:65536kB oom_score_adj:0",
)
LogKernel = Callable[[int, str], None]


class TenantLogs:
    """Writes what is due; `update` is told the time."""

    def __init__(
        self,
        tree: ProcTree,
        workloads: Iterable[SimulatedWorkload],
        process_ids: Callable[[str], tuple[int, ...]],
        start_seconds: float,
        log_kernel: LogKernel,
    ) -> None:
        self._tree = tree
        self._process_ids = process_ids
        self._log_kernel = log_kernel
        pods = [each for each in workloads if each.kind == POD]
        began = {each.name: start_seconds + each.since_seconds for each in pods}
        # The last is due last.
        self._lines = sorted(
            (
                (began[pod.name] + line.after_seconds, line.text, pod)
                for pod in pods
                for line in pod.log
            ),
            key=lambda row: -row[0],
        )
        self._kills = sorted(
            ((began[pod.name] + seconds, pod) for pod in pods for seconds in pod.kills_seconds),
            key=lambda row: -row[0],
        )

    def update(self, now_seconds: float) -> None:
        """Let containers and kernel write what they have to by now."""
        while self._lines and self._lines[-1][0] <= now_seconds:
            at_seconds, text, pod = self._lines.pop()
            self._write(pod, at_seconds, text)
        while self._kills and self._kills[-1][0] <= now_seconds:
            _, pod = self._kills.pop()
            for process_id in self._process_ids(pod.name)[:1]:
                for record in KILL_RECORDS:
                    text = record.format(cgroup=pod.cgroup_path, pid=process_id)
                    self._log_kernel(ERROR_PRIORITY, text)

    def _write(self, pod: SimulatedWorkload, at_seconds: float, text: str) -> None:
        """Append lines to the container's log, as its runtime does."""
        folder = self._tree.pods_folder / f"{pod.namespace}_{pod.pod}_{pod.pod_uid}"
        stamp = datetime.fromtimestamp(at_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        lines = "".join(f"{stamp} stderr F {line}\n" for line in text.splitlines())
        with (folder / pod.container / "0.log").open("a", encoding="utf-8") as file:
            file.write(lines)
