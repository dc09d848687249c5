"""Which files are looked through, and whose their lines are."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.tenants import Tenants, granted, pod, process, shared_card, tenants

from rightslice.exporter.host.host import Host
from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.simulate.workload import SimulatedWorkload

PYTORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
EVENTS = "rightslice_oom_events_total"
AVAILABLE = "rightslice_oom_source_available"
TRAIN = SimulatedWorkload("train", "container", "", "train")
JOB = SimulatedWorkload("job", "slurm_job", "ada", "4711", "batch", user_id=61_001)


@dataclass
class Watched:
    """A node whose reader of logs was told more than the defaults."""

    node: Tenants

    def events(self, *by: str) -> dict[Any, float]:
        told = self.node.told(EVENTS, *(by or ("workload_kind", "namespace", "pod", "cause")))
        return {key: value for key, value in told.items() if value}


@contextmanager
def watched(*cards: Any, has_kubelet: bool = False, **options: Any) -> Iterator[Watched]:
    with tenants(*cards, has_kubelet=has_kubelet) as node:
        (node.tree.root / "kmsg").write_text("")
        host = node.node.host
        host.oom_options = OomOptions(**options)
        host.ooms = host._made_ooms()
        node.sampler = node.node.sampler()
        yield Watched(node)


def append(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_a_container_of_docker_is_read_in_docker_s_own_file() -> None:
    with watched(shared_card(1, process(11, 30, 0.5))) as now:
        node = now.node
        node.run(TRAIN, 11)
        node.tree.add_docker(TRAIN.container_id, "train")
        path = node.tree.docker_folder / TRAIN.container_id / f"{TRAIN.container_id}-json.log"
        append(path, json.dumps({"log": "starting\n", "stream": "stderr", "time": "x"}))
        node.rounds(10)
        for _ in range(2):
            node.scrape()

        append(path, json.dumps({"log": f"{PYTORCH}\n", "stream": "stderr", "time": "x"}))
        node.rounds(3)

        assert now.events() == {("container", "", "train", "device_alloc"): 1}


def test_a_job_is_known_by_the_name_that_slurm_gives_its_output(tmp_path: Path) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=(f"{tmp_path}/*.out",)) as now:
        node = now.node
        node.run(JOB, 11)
        node.tree.add_cgroup(JOB.cgroup_path, (11,))
        append(tmp_path / "slurm-4711.out", "starting")
        node.rounds(12)
        for _ in range(2):
            node.scrape()

        append(tmp_path / "slurm-4711.out", PYTORCH)
        node.rounds(3)

        assert now.events() == {("slurm_job", "ada", "4711", "device_alloc"): 1}


def test_slurm_s_own_word_of_a_kill_is_the_job_s(tmp_path: Path) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=(f"{tmp_path}/*.out",)) as now:
        node = now.node
        node.run(JOB, 11)
        node.tree.add_cgroup(JOB.cgroup_path, (11,))
        append(tmp_path / "slurm-4711.out", "starting")
        node.rounds(12)
        for _ in range(2):
            node.scrape()

        append(
            tmp_path / "slurm-4711.out",
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.batch cgroup. Some of "
            "your processes may have been killed by the cgroup out-of-memory handler.",
            "Killed",
        )
        node.rounds(3)

        assert now.events() == {("slurm_job", "ada", "4711", "host_cgroup"): 1}


def test_a_file_that_is_of_no_job_goes_by_its_own_name(tmp_path: Path) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=(f"{tmp_path}/*.log",)) as now:
        append(tmp_path / "trainer.log", "starting")
        now.node.rounds(5)

        append(tmp_path / "trainer.log", PYTORCH)
        now.node.rounds(70)

        assert now.events("workload_kind", "pod", "cause") == {
            ("process", "trainer", "device_alloc"): 1
        }


def test_an_entry_of_a_journal_is_its_process_s(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with watched(shared_card(1, process(11, 30, 0.5)), journal_globs=(str(path),)) as now:
        now.node.run(SimulatedWorkload("ollama", pod="ollama"), 11, command="ollama", user_id=0)
        append(path, "MESSAGE=starting", "_PID=11", "")
        now.node.rounds(5)
        for _ in range(2):
            now.node.scrape()

        append(path, f"MESSAGE={PYTORCH}", "_PID=11", "_COMM=ollama", "")
        append(path, f"MESSAGE={PYTORCH}", "_PID=4242", "_COMM=elsewhere", "")
        now.node.rounds(70)

        assert now.events("workload_kind", "pod", "cause") == {
            ("process", "ollama", "device_alloc"): 1
        }


def test_a_restart_counts_what_was_written_meanwhile_once(tmp_path: Path) -> None:
    positions = tmp_path / "positions.json"
    chat = pod("chat")
    with watched(
        shared_card(1, process(11, 30, 0.5)), has_kubelet=True, position_file=positions
    ) as now:
        node = now.node
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        folder = node.tree.pods_folder / f"team_chat_{chat.pod_uid}" / "main"
        append(folder / "0.log", "2023-11-14T22:13:20Z stderr F starting")
        node.rounds(5)
        append(folder / "0.log", f"2023-11-14T22:13:20Z stderr F {PYTORCH}")
        node.rounds(5)
        node.node.host.ooms.close()
        append(folder / "0.log", f"2023-11-14T22:14:20Z stderr F {PYTORCH}")

        host = node.node.host
        host.ooms = host._made_ooms()
        node.sampler = node.node.sampler()
        node.rounds(75)

        assert now.events("pod", "cause") == {("chat", "device_alloc"): 1}
        assert node.told(AVAILABLE, "source")["logs_position"] == 1


def test_a_place_that_cannot_keep_positions_is_told_and_costs_nothing_else(
    tmp_path: Path,
) -> None:
    chat = pod("chat")
    with watched(
        shared_card(1, process(11, 30, 0.5)),
        has_kubelet=True,
        position_file=tmp_path / "absent" / "positions.json",
    ) as now:
        node = now.node
        node.run(chat, 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        folder = node.tree.pods_folder / f"team_chat_{chat.pod_uid}" / "main"
        append(folder / "0.log", "2020-01-01T00:00:00Z stderr F starting")
        node.rounds(5)
        append(folder / "0.log", f"2099-01-01T00:00:00Z stderr F {PYTORCH}")
        node.rounds(70)

        assert now.events("pod", "cause") == {("chat", "device_alloc"): 1}
        assert node.told(AVAILABLE, "source")["logs_position"] == 0


@pytest.mark.parametrize("restart_count", [0, 3])
def test_all_containers_are_read_where_it_is_not_known_which_has_the_card(
    restart_count: int,
) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), has_kubelet=True) as now:
        node, whole = now.node, replace(pod("chat"), container="")
        node.tree.start(11, whole.cgroup_text)
        node.tree.add_pod("team", "chat", whole.pod_uid, {"a": "", "b": ""})
        node.tree.add_cgroup(whole.cgroup_path, (11,))
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        folder = node.tree.pods_folder / f"team_chat_{whole.pod_uid}"
        node.rounds(20)
        for _ in range(2):
            node.scrape()
        path = folder / "b" / f"{restart_count}.log"

        append(path, f"2099-01-01T00:00:00Z stderr F {PYTORCH}")
        node.rounds(75)

        assert now.events("container", "cause") == {("b", "device_alloc"): 1}


def test_the_host_made_by_default_keeps_nothing() -> None:
    assert Host("node-a").oom_options == OomOptions()
