"""A node with jobs on cards and RDMA ports, for what tells which of them leave the ports alone."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.host.net.asleep import RdmaSleep, Verdict
from rightslice.exporter.host.net.port_now import PortNow
from rightslice.exporter.host.net.rdma_netlink import QueuePair
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.paths import paths_below
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.exporter.simulate.proc_tree import ProcTree

UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"
ID, OTHER_ID = "ab" * 32, "cd" * 32
POD_CGROUP = f"0::/kubepods/burstable/pod{UID}/{ID}\n"
SIDECAR_CGROUP = f"0::/kubepods/burstable/pod{UID}/{OTHER_ID}\n"
TRAIN = Workload("pod", "team", "train-0", "main")
TWO_NODES = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
KERNEL = "6.8.0-40-generic\n"
HOUR_SECONDS = 3600.0
START_SECONDS = 1_000_000.0


def queue_pair(
    thread_id: int | None = None, *, number: int = 100, kernel: str | None = None
) -> QueuePair:
    return QueuePair("mlx5_0", 1, number, "RC", "RTS", thread_id, kernel)


@dataclass
class FakeQueuePairs:
    """What the kernel tells of queue pairs; `error` is what it refuses with."""

    rows: list[QueuePair] | None = field(default_factory=list)
    mode: str | None = "shared"
    error: ReadingError | None = None
    list_count: int = 0

    def queue_pairs(self) -> list[QueuePair] | None:
        self.list_count += 1
        return self.rows

    def queue_pair_counts(self) -> dict[str, int] | None:
        if self.error is not None:
            raise self.error
        return None if self.rows is None else {"mlx5_0": len(self.rows)}

    def namespace_mode(self) -> str | None:
        return self.mode


def write_process_files(tree: ProcTree, process_id: int, files: Mapping[str, str]) -> Path:
    """Add to a process what it has open, by descriptor, in a folder of its own."""
    folder = tree.procfs / str(process_id)
    (folder / "fd").mkdir(exist_ok=True)
    for descriptor, target in files.items():
        (folder / "fd" / descriptor).symlink_to(target)
    return folder


def let_see_own_numbers(tree: ProcTree, kernel: str = KERNEL) -> None:
    """Write what procfs shows to a reader in the PID namespace that it was mounted for."""
    tree.procfs.mkdir(parents=True, exist_ok=True)
    (tree.procfs / "self").symlink_to(str(os.getpid()))
    (tree.procfs / "sys/kernel").mkdir(parents=True)
    (tree.procfs / "sys/kernel/osrelease").write_text(kernel)


@dataclass
class SleepNode:
    """One node. All its processes are old when they begin, unless their start is given."""

    tree: ProcTree
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_SECONDS))
    queue_pairs: FakeQueuePairs = field(default_factory=FakeQueuePairs)
    ports: list[PortNow] = field(default_factory=lambda: [PortNow("mlx5_0", 1, is_up=True)])
    pods: list[PodFacts] = field(default_factory=list)
    card_count: int = 8

    def __post_init__(self) -> None:
        self.attribution = Attribution(
            paths_below(self.tree.root), self.clock.clock(), lambda: self.pods
        )
        self.sleep = RdmaSleep(
            self.attribution,
            lambda: self.ports,
            self.queue_pairs,
            lambda: self.card_count,
            self.clock.clock(),
        )
        self.tree.add_pod("team", "train-0", UID, {"main": ID, "sidecar": OTHER_ID})
        let_see_own_numbers(self.tree)
        (self.tree.procfs / "uptime").write_text(f"{HOUR_SECONDS} 9.0\n")

    def run(
        self,
        process_id: int,
        environment: Mapping[str, str] | None = None,
        *,
        cgroup: str = POD_CGROUP,
        files: Iterable[str] | None = ("/dev/nvidia0", "socket:[77]"),
        state: str = "S",
        start_ticks: int = 4_100,
    ) -> Path:
        """Let a process use a card. Without `files`, what it has open is hidden."""
        environment = TWO_NODES if environment is None else environment
        folder = self.tree.start(
            process_id, cgroup, environment=environment, state=state, start_ticks=start_ticks
        )
        if files is not None:
            by_descriptor = {str(number): name for number, name in enumerate(files)}
            write_process_files(self.tree, process_id, by_descriptor)
        self.attribution.owner_of(process_id)
        self.attribution.owners.refresh_names(self.clock.now_seconds())
        self.attribution.owner_of(process_id)
        return folder

    def beside(self, process_id: int, cgroup: str = "0::/\n", parent_id: int = 1) -> None:
        """Let a process run that uses no card."""
        folder = self.tree.start(process_id, cgroup, parent_id=parent_id)
        with (folder / "status").open("a") as file:
            file.write(f"Tgid:\t{process_id}\n")

    def verdicts(self) -> list[Verdict]:
        return self.sleep.refresh()

    def is_asleep(self) -> dict[Workload, bool]:
        return {each.workload: each.is_asleep for each in self.verdicts()}

    def hints(self) -> tuple[str, ...]:
        (verdict,) = self.verdicts()
        return verdict.hints
