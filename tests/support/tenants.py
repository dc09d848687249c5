"""A simulated node with tenants: its driver, its kernel's files, and a kubelet to be told."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import paths_below
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.card import BYTES_PER_MIB, Process, SimulatedCard
from rightslice.exporter.simulate.kubelet import (
    SimulatedClaim,
    SimulatedContainer,
    SimulatedKubelet,
    SimulatedPod,
)
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.proc_tree import ProcTree
from rightslice.exporter.simulate.workload import SimulatedWorkload
from support.pages import Parsed, from_text
from support.simulated import (
    START_SECONDS,
    SimulatedNode,
    constant,
    simulated_card,
    simulated_scenario,
)

RESOURCE = "nvidia.com/gpu"
GIB = 1024**3
# The first reading finds where samples end; blocks of use take 5 s.
FIRST_BLOCKS = 11


def process(pid: int, gib: float | None = 1.0, busy_ratio: float = 0.0, **changes: Any) -> Process:
    size = None if gib is None else int(gib * GIB)
    return Process(pid, size, busy_ratio=constant(busy_ratio), **changes)


def shared_card(number: int, *processes: Process, **changes: Any) -> SimulatedCard:
    """Give an A100 on which these processes are all there is."""
    of_processes = {"processes": processes, "process_count": 0, "is_sum_of_processes": True}
    return simulated_card(number, **(of_processes | changes))


def pod(name: str, **changes: Any) -> SimulatedWorkload:
    """Describe a pod of the namespace "team", with one container."""
    return SimulatedWorkload(name, "pod", "team", name, **{"container": "main"} | changes)


def granted(
    name: str, *device_ids: str, resource: str = RESOURCE, namespace: str = "team", **changes: Any
) -> SimulatedPod:
    """Give a pod as the kubelet lists it, whose one container was granted these devices."""
    devices = {resource: device_ids} if device_ids else {}
    return SimulatedPod(
        name, namespace, (SimulatedContainer("main", devices, changes.get("claims", ())),)
    )


def claim(device: str) -> SimulatedClaim:
    return SimulatedClaim(device)


@dataclass
class Tenants:
    """One node. Its clock moves by `rounds`; pages are read as another client reads them."""

    node: SimulatedNode
    tree: ProcTree
    kubelet: SimulatedKubelet
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = self.node.sampler(ENABLED)

    def run(self, workload: SimulatedWorkload, *process_ids: int, **changes: Any) -> None:
        """Let a workload's processes run: the kernel shows them, and the log folders name it."""
        for process_id in process_ids:
            settings: dict[str, Any] = {
                "environment": workload.environment,
                "user_id": workload.user_id,
                **changes,
            }
            self.tree.start(process_id, workload.cgroup_text, **settings)
        if workload.kind == "pod":
            container = {workload.container: workload.container_id}
            self.tree.add_pod(workload.namespace, workload.pod, workload.pod_uid, container)
            self.tree.add_cgroup(workload.cgroup_path, process_ids)

    def end(self, workload: SimulatedWorkload, *process_ids: int) -> None:
        """Let a pod end: the kernel shows it no more, and the kubelet keeps its log folder."""
        for process_id in process_ids:
            self.tree.end(process_id)
        self.tree.remove_cgroup(workload.pod_cgroup_path)

    def rounds(self, count: int) -> None:
        self.node.sample_rounds(self.sampler, count)

    def scrape(self) -> bytes:
        """Read the page as a scraper does."""
        page, _ = self.sampler.page()
        self.sampler.scraped()
        return page

    def read_half_a_minute(self) -> None:
        """Let all who scrape read what is told: then nothing that happens is held back."""
        for _ in range(2):
            self.scrape()
            self.rounds(15)

    def rows(self) -> Parsed:
        """Give the page: name, labels, value of each series."""
        return from_text(self.scrape())

    def told(self, name: str, *by: str) -> dict[Any, float]:
        """Give what the page tells of one metric, by the values of some labels."""
        rows = [(labels, value) for found, labels, value in self.rows() if found == name]
        if len(by) == 1:
            return {labels[by[0]]: value for labels, value in rows}
        return {tuple(labels[each] for each in by): value for labels, value in rows}

    def by_pod(self, name: str) -> dict[str, float]:
        """Give what the page tells of one metric of workloads, by pod."""
        return self.told(f"rightslice_workload_{name}", "pod")


@contextmanager
def tenants(*cards: SimulatedCard, has_kubelet: bool = True) -> Iterator[Tenants]:
    """Start a node with these cards, for the block's length; without pods at first."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="rightslice-")))
        clock, paths = ManualClock(START_SECONDS), paths_below(folder)
        tree, kubelet = ProcTree(folder), SimulatedKubelet(paths.kubelet_socket)
        tree.add_cgroup("", files={"cgroup.controllers": "cpu\n"})
        tree.add_cgroup("kubepods.slice/kubepods-burstable.slice")
        if has_kubelet:
            stack.enter_context(kubelet)
            kubelet.set_allocatable({RESOURCE: tuple(card.uuid for card in cards)})
        library = stack.enter_context(installed(simulated_scenario(*cards), clock.now_seconds))
        host = Host("node-a", paths, clock.clock())
        stack.callback(host.attribution.close)
        yield Tenants(SimulatedNode(clock, library, host), tree, kubelet)


def mib(count: float) -> int:
    return int(count * BYTES_PER_MIB)


def sum_by(rows: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """Add values up by key."""
    found: dict[Any, float] = {}
    for key, value in rows:
        found[key] = found.get(key, 0.0) + value
    return found
