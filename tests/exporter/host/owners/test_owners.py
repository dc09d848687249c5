"""Owners of processes: named in the background, and told from memory."""

import os
import threading
from typing import Any

import pytest

from rightslice.exporter.host.owners import owners as module
from rightslice.exporter.host.owners.naming import PATIENCE_SECONDS
from rightslice.exporter.host.owners.owners import NAMES_SECONDS, TREES_SECONDS, Owner, Owners
from rightslice.exporter.host.owners.workload import NOTHING_KNOWN, Details, Workload
from rightslice.exporter.simulate.proc_tree import ProcTree

UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"
OLD_UID = UID.replace(UID[:8], "f" * 8)
ID, OTHER_ID = "ab" * 32, "cd" * 32
POD_CGROUP = f"0::/kubepods/burstable/pod{UID}/{ID}\n"
DOCKER_CGROUP = f"0::/system.slice/docker-{ID}.scope\n"
JOB_PATH = "/system.slice/slurmstepd.scope/job_12/step_0/user/task_0"
MIB = 1024**2
NAMES = {1000: "ada"}
NOW_SECONDS = 5_000.0


@pytest.fixture
def owners(tree: ProcTree) -> Owners:
    return Owners(
        tree.procfs,
        tree.sysfs,
        tree.pods_folder,
        tree.docker_folder,
        user_name=lambda user: NAMES.get(user, str(user)),
        hami_folder=tree.root / "vgpu/containers",
    )


def found(owners: Owners, process_id: int, now_seconds: float = NOW_SECONDS) -> Owner:
    owner = owners.owner_of(process_id, now_seconds)
    assert owner is not None
    return owner


def named(owners: Owners, process_id: int) -> Workload | None:
    """Ask, let the background read, and ask again."""
    found(owners, process_id)
    owners.refresh(NOW_SECONDS + 1)
    return found(owners, process_id, NOW_SECONDS + 1).workload


def test_a_process_that_is_not_visible_has_no_owner(owners: Owners) -> None:
    assert owners.owner_of(7, NOW_SECONDS) is None


def test_a_new_process_is_named_after_the_next_refresh(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(7, POD_CGROUP, start_ticks=321)

    at_first = found(owners, 7)
    owners.refresh(NOW_SECONDS)
    owner = found(owners, 7)

    assert at_first.workload is None
    assert owner.workload == Workload("pod", "team-a", "train-0", "main")
    assert (owner.pod_uid, owner.container_id, owner.start_ticks) == (UID, ID, 321)
    assert owner.place.qos == "burstable"


def test_names_that_are_known_are_told_at_once(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(7, POD_CGROUP)
    owners.refresh(NOW_SECONDS)

    assert found(owners, 7).workload == Workload("pod", "team-a", "train-0", "main")


def test_the_only_container_of_a_pod_needs_no_link(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ""})
    tree.start(7, POD_CGROUP)

    assert named(owners, 7) == Workload("pod", "team-a", "train-0", "main")


def test_one_of_several_containers_without_a_link_stays_unnamed(
    tree: ProcTree, owners: Owners
) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": "", "sidecar": OTHER_ID})
    tree.start(7, POD_CGROUP)

    assert named(owners, 7) == Workload("pod", "team-a", "train-0", "")


def test_a_link_that_may_be_younger_than_the_scan_is_waited_for(
    tree: ProcTree, owners: Owners
) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": "", "sidecar": OTHER_ID})
    owners.refresh(NOW_SECONDS - 1)
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(7, POD_CGROUP)

    assert found(owners, 7).workload is None
    owners.refresh(NOW_SECONDS + 1)
    assert found(owners, 7).workload == Workload("pod", "team-a", "train-0", "main")


def test_a_pod_that_nobody_names_is_called_by_its_uid_after_a_minute(
    tree: ProcTree, owners: Owners
) -> None:
    tree.start(7, POD_CGROUP)
    found(owners, 7)
    owners.refresh(NOW_SECONDS)

    assert found(owners, 7, NOW_SECONDS + PATIENCE_SECONDS - 1).workload is None
    late = found(owners, 7, NOW_SECONDS + PATIENCE_SECONDS)
    assert late.workload == Workload("pod", "", UID)


def test_a_name_does_not_change_any_more(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(7, POD_CGROUP)
    first = named(owners, 7)
    tree.remove_pod("team-a", "train-0", UID)

    owners.refresh(NOW_SECONDS + 10 * NAMES_SECONDS)

    assert found(owners, 7).workload is first


def test_dockers_labels_name_a_pod_without_logs(tree: ProcTree, owners: Owners) -> None:
    labels = {
        "io.kubernetes.pod.namespace": "team-a",
        "io.kubernetes.pod.name": "train-0",
        "io.kubernetes.pod.uid": UID,
        "io.kubernetes.container.name": "main",
    }
    tree.add_docker(ID, "k8s_main", labels)
    tree.start(7, f"0::/kubepods/burstable/pod{UID}/docker-{ID}.scope\n")
    tree.start(8, DOCKER_CGROUP)

    assert named(owners, 7) == Workload("pod", "team-a", "train-0", "main")
    assert named(owners, 8) == Workload("pod", "team-a", "train-0", "main")
    assert found(owners, 8).pod_uid == UID


def test_a_docker_container_has_its_name(tree: ProcTree, owners: Owners) -> None:
    tree.add_docker(ID, "jupyter-1")
    tree.start(7, DOCKER_CGROUP)

    assert named(owners, 7) == Workload("container", "", "jupyter-1")


@pytest.mark.parametrize("runtime", ["docker", "libpod", "nerdctl"])
def test_a_container_without_a_name_has_a_short_id(
    runtime: str, tree: ProcTree, owners: Owners
) -> None:
    tree.start(7, f"0::/system.slice/{runtime}-{ID}.scope\n")

    assert named(owners, 7) == Workload("container", "", "abababababab")


def test_a_job_has_user_id_and_step(tree: ProcTree, owners: Owners) -> None:
    tree.add_cgroup("", files={"cgroup.controllers": ""})
    tree.add_cgroup(JOB_PATH, [7])
    tree.start(7, f"0::{JOB_PATH}\n", environment={"SLURM_STEP_GPUS": "3"})

    assert named(owners, 7) == Workload("slurm_job", "ada", "12", "0")
    assert owners.has_slurm
    assert owners.slurm_jobs["12"].minors == {3}
    assert owners.slurm_since_seconds == NOW_SECONDS + 1


def test_a_job_that_no_scan_finds_is_named_after_a_minute(tree: ProcTree, owners: Owners) -> None:
    tree.start(7, "0::/slurm/uid_1000/job_12/step_0\n", user_id=0)

    assert named(owners, 7) is None
    late_seconds = NOW_SECONDS + PATIENCE_SECONDS
    found(owners, 7, late_seconds)
    owners.refresh(late_seconds)
    assert found(owners, 7, late_seconds).workload == Workload("slurm_job", "ada", "12", "0")


@pytest.mark.parametrize(
    ("command", "user_id", "workload"),
    [
        ("python3", 1000, Workload("process", "ada", "python3")),
        ("ray::48213", 1000, Workload("process", "ada", "ray::N")),
        ("x\ty", 2000, Workload("process", "2000", "x_y")),
    ],
)
def test_any_other_process_has_user_and_command(
    command: str, user_id: int, workload: Workload, tree: ProcTree, owners: Owners
) -> None:
    tree.start(7, command=command, user_id=user_id)

    assert named(owners, 7) == workload


def test_a_command_holds_no_id_of_its_process_or_parent(tree: ProcTree, owners: Owners) -> None:
    tree.start(57, command="w57-of-23-as-8-12", parent_id=23, namespace_ids=(57, 8))

    assert named(owners, 57) == Workload("process", "ada", "wN-of-N-as-N-12")


def test_a_process_whose_user_is_hidden_has_a_command(tree: ProcTree, owners: Owners) -> None:
    (tree.start(7) / "status").unlink()

    assert named(owners, 7) == Workload("process", "", "python3")


def test_a_used_process_id_is_another_process(tree: ProcTree, owners: Owners) -> None:
    tree.start(7, command="first", start_ticks=100)
    first = named(owners, 7)
    tree.start(7, command="second", start_ticks=200)

    owner = found(owners, 7)

    assert (first, owner.workload) == (
        Workload("process", "ada", "first"),
        Workload("process", "ada", "second"),
    )
    assert owners.process_count == 1


def test_only_procfs_is_read_by_who_asks(tree: ProcTree, owners: Owners) -> None:
    tree.start(7, environment={"CUDA_DEVICE_MEMORY_LIMIT": "3000m"})
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(8, POD_CGROUP)

    workloads = [found(owners, process_id).workload for process_id in (7, 8, 7, 8)]

    assert workloads == [None] * 4
    assert owners.details(found(owners, 7)) == NOTHING_KNOWN


def test_promises_of_card_memory_come_with_the_environment(tree: ProcTree, owners: Owners) -> None:
    promises = {"CUDA_DEVICE_MEMORY_LIMIT_0": "3000m", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=512M"}
    tree.start(7, environment=promises)
    named(owners, 7)

    owners.refresh(NOW_SECONDS + 2)

    assert owners.details(found(owners, 7)) == Details(
        memory_limits={"hami": 3000 * MIB, "mps": 512 * MIB}
    )


def test_the_environment_is_read_once(tree: ProcTree, owners: Owners) -> None:
    tree.start(7, environment={"CUDA_DEVICE_MEMORY_LIMIT": "3000m"})
    named(owners, 7)
    owners.refresh(NOW_SECONDS + 2)
    (tree.procfs / "7/environ").unlink()

    owners.refresh(NOW_SECONDS + 3)

    assert owners.details(found(owners, 7)).memory_limits == {"hami": 3000 * MIB}


def test_the_environment_of_a_process_that_hangs_waits(tree: ProcTree, owners: Owners) -> None:
    limits = {"CUDA_DEVICE_MEMORY_LIMIT": "3000m"}
    tree.start(7, environment=limits, state="D")
    named(owners, 7)
    owners.refresh(NOW_SECONDS + 2)
    before = owners.details(found(owners, 7)).memory_limits
    tree.start(7, environment=limits, state="R")

    owners.refresh(NOW_SECONDS + 3)

    assert (before, owners.details(found(owners, 7)).memory_limits) == ({}, {"hami": 3000 * MIB})


def test_details_come_from_labels_before_the_job(tree: ProcTree, owners: Owners) -> None:
    labels = {"rightslice.io/team": "vision", "rightslice.io/memory-limit": "1Gi"}
    path = f"/slurm/uid_1000/job_12/step_batch/docker-{ID}.scope"
    tree.add_docker(ID, "jupyter-1", labels)
    tree.add_cgroup("freezer/slurm/uid_1000/job_12/step_batch", [7])
    tree.start(7, f"3:freezer:{path}\n", environment={"SLURM_JOB_ACCOUNT": "chem"})
    named(owners, 7)
    owners.details(found(owners, 7))

    owners.refresh(NOW_SECONDS + 2)

    assert owners.details(found(owners, 7)) == Details(
        owner_kind="slurm_account",
        owner="chem",
        team="vision",
        memory_limits={"label": 1024 * MIB},
    )


def test_an_owner_of_before_has_no_promises_of_its_successor(
    tree: ProcTree, owners: Owners
) -> None:
    tree.start(7, start_ticks=100)
    before = found(owners, 7)
    tree.start(7, start_ticks=200, environment={"CUDA_DEVICE_MEMORY_LIMIT": "3000m"})
    named(owners, 7)
    owners.refresh(NOW_SECONDS + 2)

    assert owners.details(before) == NOTHING_KNOWN


def test_names_are_read_anew_when_wanted_or_due(tree: ProcTree, owners: Owners) -> None:
    owners.refresh(NOW_SECONDS)
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    tree.start(7, POD_CGROUP)
    owners.refresh(NOW_SECONDS + NAMES_SECONDS - 1)
    not_due = found(owners, 7).workload

    owners.refresh(NOW_SECONDS + NAMES_SECONDS - 1)

    assert not_due is None
    assert found(owners, 7).workload == Workload("pod", "team-a", "train-0", "main")


def test_pods_are_alive_as_of_the_last_listing(tree: ProcTree, owners: Owners) -> None:
    before = owners.is_pod_alive(UID)
    tree.add_cgroup(f"kubepods/pod{UID}")
    owners.refresh(NOW_SECONDS)
    tree.add_cgroup(f"kubepods/pod{UID[::-1]}")

    owners.refresh(NOW_SECONDS + TREES_SECONDS - 1)

    assert (before, owners.is_pod_alive(UID)) == (None, True)


def test_a_pod_that_was_made_anew_has_one_cgroup(tree: ProcTree, owners: Owners) -> None:
    tree.add_cgroup(f"kubepods/pod{UID}")
    tree.add_pod("team-a", "train-0", UID)
    tree.add_pod("team-a", "train-0", OLD_UID)
    owners.refresh(NOW_SECONDS)

    at_first = owners.has_cgroup("team-a", "train-0")
    owners.refresh(NOW_SECONDS + TREES_SECONDS)

    assert at_first == {UID: True, OLD_UID: None}
    assert owners.has_cgroup("team-a", "train-0") == {UID: True, OLD_UID: False}
    assert owners.has_cgroup("team-a", "train-1") == {}


def test_where_no_pod_of_a_name_has_a_cgroup_a_younger_one_is_looked_for(
    tree: ProcTree, owners: Owners
) -> None:
    tree.add_cgroup(f"kubepods/pod{OLD_UID}")
    tree.add_pod("team-a", "web-0", OLD_UID)
    owners.refresh(NOW_SECONDS)
    tree.remove_cgroup(f"kubepods/pod{OLD_UID}")
    tree.add_cgroup(f"kubepods/pod{UID}")
    tree.add_pod("team-a", "web-0", UID)
    owners.refresh(NOW_SECONDS + TREES_SECONDS)

    at_first = owners.has_cgroup("team-a", "web-0")
    owners.refresh(NOW_SECONDS + TREES_SECONDS + 1)

    assert at_first == {OLD_UID: None}
    assert owners.has_cgroup("team-a", "web-0") == {UID: True, OLD_UID: None}


def test_names_are_looked_for_once_after_each_listing_of_cgroups(
    tree: ProcTree, owners: Owners
) -> None:
    tree.add_cgroup("kubepods/burstable")
    tree.add_pod("team-a", "job-1", UID)
    told = []
    for second in range(25):
        owners.refresh(NOW_SECONDS + second)
        told.append(owners.has_cgroup("team-a", "job-1")[UID])

    tree.add_pod("team-a", "job-1", OLD_UID)  # nothing is due, and nobody wants it
    owners.refresh(NOW_SECONDS + 25)

    assert told == [None] * 11 + [False] * 9 + [None] + [False] * 4
    assert owners.has_cgroup("team-a", "job-1") == {UID: False}


def test_a_node_without_any_folder_has_no_trouble(owners: Owners) -> None:
    owners.refresh(NOW_SECONDS)

    assert owners.sources == {}


def test_a_folder_that_can_be_read_is_told_without_a_reason(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID)

    owners.refresh(NOW_SECONDS)

    assert owners.sources == {"logs": ""}


def test_jobs_whose_cards_are_kept_from_us_are_told_with_the_remedy(
    tree: ProcTree, owners: Owners
) -> None:
    tree.add_cgroup("", files={"cgroup.controllers": "cpu\n"})
    step = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
    tree.add_cgroup(step, [11])
    tree.start(11, f"0::/{step}\n")  # its environment is not ours to read

    owners.refresh(NOW_SECONDS)

    assert owners.sources["slurm"].startswith("the cards of 1 jobs are not told: give CAP_")


def test_a_folder_that_cannot_be_read_is_told(
    tree: ProcTree, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.add_pod("team-a", "train-0", UID)

    def forbid(folder: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "listdir", forbid)  # root, which tests may be, is denied nothing
    owners.refresh(NOW_SECONDS)

    reason = owners.sources["logs"]
    assert reason.startswith(f"{tree.pods_folder} cannot be read (Permission denied): ")


def test_ten_thousand_processes_leave_nothing_behind(tree: ProcTree, owners: Owners) -> None:
    for process_id in range(100):
        uid = UID.replace(UID[:8], f"{process_id:08x}")
        tree.start(process_id, f"0::/kubepods/pod{uid}/{process_id:064x}\n")
    counts = []
    for begin in range(0, 10_000, 100):
        for process_id in range(begin, begin + 100):
            found(owners, process_id)
            # Ends this one and starts another, in less time than writing its files takes.
            (tree.procfs / str(process_id)).rename(tree.procfs / str(process_id + 100))
        counts.append(owners.process_count)
        owners.refresh(NOW_SECONDS + begin)

    assert counts == [100] * 100
    assert owners.process_count == 0


def test_what_is_remembered_is_bounded_also_while_all_live(
    tree: ProcTree, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    for process_id in range(5):
        tree.start(process_id)
        found(owners, process_id)

    assert owners.process_count == 3
    assert named(owners, 0) == Workload("process", "ada", "python3")


class Guarded(dict[int, Any]):
    """Remembers whether somebody took something away without the lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.was_locked: list[bool] = []

    def pop(self, *arguments: Any) -> Any:
        self.was_locked.append(self.lock.locked())
        return super().pop(*arguments)


def test_what_is_forgotten_is_taken_away_under_the_lock(tree: ProcTree, owners: Owners) -> None:
    owners._seen = guarded = Guarded(owners._lock)
    for process_id in (7, 8):
        tree.start(process_id)
        found(owners, process_id)
        tree.end(process_id)

    owners.owner_of(7, NOW_SECONDS)
    owners.refresh(NOW_SECONDS)

    assert (guarded, guarded.was_locked) == ({}, [True] * 4)


def test_many_threads_get_one_answer(tree: ProcTree, owners: Owners) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    for process_id in range(20):
        tree.start(process_id, POD_CGROUP)
    answers: list[Workload | None] = []

    def ask() -> None:
        for turn in range(20):
            answers.extend(found(owners, number).workload for number in range(20))
            owners.owner_of(1_000 + turn, NOW_SECONDS)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    owners.refresh(NOW_SECONDS)
    for thread in threads:
        thread.join()

    assert set(answers) <= {None, Workload("pod", "team-a", "train-0", "main")}
    assert named(owners, 0) == Workload("pod", "team-a", "train-0", "main")
    assert owners.process_count == 20
