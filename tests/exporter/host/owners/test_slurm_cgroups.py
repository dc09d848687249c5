"""Slurm's folders in the cgroup tree."""

from pathlib import Path

import pytest

from rightslice.exporter.host.owners.slurm_cgroups import (
    MOST_PROCESSES,
    job_folders,
    slurm_roots,
    step_processes,
)
from rightslice.exporter.simulate.proc_tree import ProcTree


def found(tree: ProcTree) -> list[tuple[str, int | None]]:
    return [(job.job_id, job.user_id) for job in job_folders(slurm_roots(tree.sysfs))]


@pytest.mark.parametrize(
    "scope",
    [
        "slurmstepd.scope",
        "system.slice/slurmstepd.scope",
        "system.slice/gpu-7_slurmstepd.scope",
        "site.slice/slurm.slice/slurmstepd.scope",
        "unified/system.slice/slurmstepd.scope",
    ],
)
def test_jobs_of_v2_are_found(scope: str, tree: ProcTree) -> None:
    if not scope.startswith("unified"):
        tree.add_cgroup("", files={"cgroup.controllers": "cpu memory\n"})
    tree.add_cgroup(f"{scope}/job_12/step_0/user/task_0", [7])
    tree.add_cgroup(f"{scope}/system", [8])

    assert found(tree) == [("12", None)]


@pytest.mark.parametrize("root", ["freezer/slurm", "freezer/slurm_gpu-7"])
def test_jobs_of_v1_are_found_with_their_user(root: str, tree: ProcTree) -> None:
    tree.add_cgroup(f"{root}/uid_1000/job_12/step_batch", [7])
    tree.add_cgroup(f"{root}/uid_0/job_13/step_0", [8])

    assert found(tree) == [("13", 0), ("12", 1000)]


@pytest.mark.parametrize(
    "path",
    [
        "system.slice/slurmd.service",
        "a/b/c/slurmstepd.scope/job_12",
        "kubepods.slice/pod/slurmstepd.scope/job_12",
        "system.slice/slurmstepd.scope/job_",
        "system.slice/slurmstepd.scope/jobs",
    ],
)
def test_other_folders_are_no_jobs(path: str, tree: ProcTree) -> None:
    tree.add_cgroup("", files={"cgroup.controllers": ""})
    tree.add_cgroup(path)

    assert found(tree) == []


def test_a_node_without_cgroups_has_no_jobs(tree: ProcTree) -> None:
    assert slurm_roots(tree.sysfs) == []


def test_processes_are_told_by_step_and_slurms_own_are_left_out(tree: ProcTree) -> None:
    job = tree.add_cgroup("slurmstepd.scope/job_12")
    for step, process_id in (("extern", 3), ("0", 5), ("batch", 9)):
        tree.add_cgroup(f"slurmstepd.scope/job_12/step_{step}/user/task_0", [process_id])
        tree.add_cgroup(f"slurmstepd.scope/job_12/step_{step}/slurm", [1000 + process_id])

    steps = step_processes(str(job))

    assert list(steps.items()) == [("batch", [9]), ("0", [5]), ("extern", [3])]


def test_a_crowd_of_processes_is_cut(tree: ProcTree) -> None:
    tree.add_cgroup("job_12/step_0", range(10 * MOST_PROCESSES))

    assert len(step_processes(str(tree.sysfs / "fs/cgroup/job_12"))["0"]) == MOST_PROCESSES


def test_strange_process_ids_are_left_out(tree: ProcTree) -> None:
    folder = tree.add_cgroup("job_12/step_0")
    (folder / "cgroup.procs").write_bytes(b"x\n7\n-1\n" + b"9" * 5_000 + b"\n\xff\n")

    assert step_processes(str(folder.parent)) == {"0": [7]}


def test_a_job_that_is_gone_has_no_steps(tmp_path: Path) -> None:
    assert step_processes(str(tmp_path / "job_12")) == {}
