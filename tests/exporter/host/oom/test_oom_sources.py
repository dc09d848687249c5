"""Which files are looked through, and whose their lines are."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.tenants import Tenants, granted, pod, process, shared_card, tenants

from rightslice.exporter.host.host import Host
from rightslice.exporter.host.oom.file_targets import FileTargets
from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.host.owners.users import UserNames
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
        node.read_half_a_minute()

        append(path, json.dumps({"log": f"{PYTORCH}\n", "stream": "stderr", "time": "x"}))
        node.rounds(3)

        assert now.events() == {("container", "", "train", "device_alloc"): 1}


def test_a_file_goes_by_what_the_pattern_s_wildcards_stand_for(tmp_path: Path) -> None:
    patterns = (f"{tmp_path}/*/train.out", f"{tmp_path}/plain.log")
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=patterns) as now:
        files = [tmp_path / name for name in ("ada/train.out", "bob/train.out", "plain.log")]
        for path in files:
            append(path, "starting")
        now.node.rounds(12)
        for path in files:
            append(path, PYTORCH)
        now.node.rounds(70)

        assert now.events("pod", "cause") == {
            ("ada/train", "device_alloc"): 1,
            ("bob/train", "device_alloc"): 1,
            ("plain", "device_alloc"): 1,
        }


def test_a_number_in_a_file_s_name_is_the_job_s_of_its_owner(tmp_path: Path) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=(f"{tmp_path}/*.out",)) as now:
        node = now.node
        files = node.node.host.ooms.logs[1]._targets
        assert isinstance(files, FileTargets)
        files.users = UserNames({0: "root", 61_001: "ada", 61_002: "bob"}.__getitem__)
        node.run(JOB, 11)
        node.tree.add_cgroup(JOB.cgroup_path, (11,))
        for path, owner in (("train-4711.out", 61_001), ("other-4711.out", 61_002)):
            append(tmp_path / path, "starting")
            os.chown(tmp_path / path, owner, -1)
        node.rounds(12)
        node.read_half_a_minute()

        append(tmp_path / "train-4711.out", PYTORCH)
        append(tmp_path / "other-4711.out", PYTORCH)
        node.rounds(70)

        assert now.events("workload_kind", "pod", "cause") == {
            ("slurm_job", "4711", "device_alloc"): 1,
            ("process", "other-4711", "device_alloc"): 1,
        }


def test_files_that_nobody_writes_have_no_series(tmp_path: Path) -> None:
    with watched(shared_card(1), file_globs=(f"{tmp_path}/*.log",)) as now:
        for number in range(20):
            append(tmp_path / f"{number}.log", "of last year")
        now.node.rounds(12)
        append(tmp_path / "3.log", "of now")
        now.node.rounds(3)

        assert set(now.node.told(EVENTS, "pod")) == {"3"}
        (tmp_path / "3.log").unlink()
        now.node.rounds(100)
        now.node.read_half_a_minute()
        now.node.rounds(180)
        assert set(now.node.told(EVENTS, "pod")) == set()


def test_a_file_counts_once_by_whatever_names_it_is_found(tmp_path: Path) -> None:
    """Links, names that overlap, what was rotated, and logs of containers, which others read."""
    with watched(
        shared_card(1, process(11, 30, 0.5)),
        file_globs=(f"{tmp_path}/*", f"{tmp_path}/train.*", f"{tmp_path}/train.log"),
    ) as now:
        files = now.node.node.host.ooms.logs[1]
        pods = now.node.tree.pods_folder
        append(pods / "a_b_c" / "main" / "0.log", "starting")
        (tmp_path / "of-a-pod.log").symlink_to(pods / "a_b_c" / "main" / "0.log")
        (tmp_path / "folder").mkdir()
        for name in ("train.log", "train.log.1", "train.log-20260102.gz", "rank.1", "rank.2"):
            append(tmp_path / name, "starting")
        (tmp_path / "a-link.log").symlink_to("train.log")
        os.link(tmp_path / "rank.1", tmp_path / "z-link.log")
        now.node.rounds(12)

        assert files.file_count == 3
        (tmp_path / "train.log").rename(tmp_path / "train.log.2")  # and the next one is to come
        now.node.rounds(32)
        assert {path.name for path in files._found} == {"a-link.log", "rank.1", "rank.2"}


def test_a_pattern_that_finds_nothing_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(shared_card(1), file_globs=(f"{tmp_path}/none-*",)) as now:
        now.node.rounds(40)

    assert [record.getMessage() for record in caplog.records if "finds no" in record.message] == [
        f"memory that ran out: {tmp_path}/none-* finds no file yet"
    ]


def test_a_job_is_known_by_the_name_that_slurm_gives_its_output(tmp_path: Path) -> None:
    with watched(shared_card(1, process(11, 30, 0.5)), file_globs=(f"{tmp_path}/*.out",)) as now:
        node = now.node
        node.run(JOB, 11)
        node.tree.add_cgroup(JOB.cgroup_path, (11,))
        append(tmp_path / "slurm-4711.out", "starting")
        node.rounds(12)
        node.read_half_a_minute()

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
        node.read_half_a_minute()

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


def test_a_journal_itself_is_not_taken_for_an_export(tmp_path: Path) -> None:
    (tmp_path / "system.journal").write_bytes(b"LPKSHHRH" + bytes(100))
    append(tmp_path / "exported", "MESSAGE=starting", "")
    with watched(shared_card(1), journal_globs=(f"{tmp_path}/*",)) as now:
        now.node.rounds(3)
        files = now.node.node.host.ooms.logs[1]

        assert files.file_count == 1
        assert now.node.told(AVAILABLE, "source")["files"] == 0
        assert "system.journal is a journal itself" in (files._targets.unavailable_reason or "")


def test_an_entry_of_a_journal_is_its_process_s(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with watched(shared_card(1, process(11, 30, 0.5)), journal_globs=(str(path),)) as now:
        now.node.run(SimulatedWorkload("ollama", pod="ollama"), 11, command="ollama", user_id=0)
        append(path, "MESSAGE=starting", "_PID=11", "")
        now.node.rounds(5)
        now.node.read_half_a_minute()

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
        node.read_half_a_minute()
        path = folder / "b" / f"{restart_count}.log"

        append(path, f"2099-01-01T00:00:00Z stderr F {PYTORCH}")
        node.rounds(75)

        assert now.events("container", "cause") == {("b", "device_alloc"): 1}


def test_the_host_made_by_default_keeps_nothing() -> None:
    assert Host("node-a").oom_options == OomOptions()
