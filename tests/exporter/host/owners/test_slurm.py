"""Jobs and the cards they hold, from the environment of their processes."""

import shutil
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners import slurm
from rightslice.exporter.host.owners.slurm import JobHolding, SlurmJobs, parse_cards
from rightslice.exporter.host.owners.users import UserNames
from rightslice.exporter.simulate.proc_tree import ProcTree

ROOT = "system.slice/slurmstepd.scope"
UUID = "GPU-5e7c1b0d-2a94-4f36-8d1e-b7a05c93f248"
MIG_UUID = "MIG-0c1d2e3f-4a5b-5c6d-8e7f-90a1b2c3d4e5"
NOW_SECONDS = 5_000.0
SCRIPT = {"SLURM_JOB_ACCOUNT": "chem", "SLURM_JOB_USER": "ada", "SLURM_JOB_NAME": "secret"}


@pytest.fixture
def jobs(tree: ProcTree) -> SlurmJobs:
    """The jobs of a node with cgroup v2 that knows one user's name."""
    tree.add_cgroup("", files={"cgroup.controllers": "cpu\n"})
    tree.add_cgroup(ROOT)
    names = {1000: "ada"}
    return SlurmJobs(tree.sysfs, tree.procfs, UserNames(lambda user: names.get(user, str(user))))


def run_step(
    tree: ProcTree,
    job: int,
    step: str,
    process_id: int,
    environment: Mapping[str, str] | None,
    user_id: int = 1000,
    state: str = "S",
) -> None:
    tree.add_cgroup(f"{ROOT}/job_{job}/step_{step}/user/task_0", [process_id])
    tree.start(process_id, environment=environment, user_id=user_id, state=state)


def scan_until_it_hangs(jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan, and break off where a process's environment would be read."""

    def hang(*_: object) -> None:
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(slurm, "read_variables", hang)
        with pytest.raises(TimeoutError):
            jobs.scan(NOW_SECONDS + 10)


def test_a_script_tells_the_cards_of_its_job(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "0,2-3"})

    assert jobs.scan(NOW_SECONDS) == {
        "12": JobHolding("12", "ada", "chem", frozenset({0, 2, 3}), is_known=True)
    }
    assert jobs.is_present


def test_steps_tell_their_cards_where_there_is_no_script(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "0", 7, {"SLURM_STEP_GPUS": "1"})
    run_step(tree, 12, "1", 8, {"SLURM_STEP_GPUS": "4,5"})

    assert jobs.scan(NOW_SECONDS)["12"].minors == {1, 4, 5}


def test_a_script_without_cards_holds_none(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, SCRIPT)

    assert jobs.scan(NOW_SECONDS) == {"12": JobHolding("12", "ada", "chem", is_known=True)}


@pytest.mark.parametrize(
    ("step", "environment"),
    [
        pytest.param("batch", None, id="hidden"),
        pytest.param("batch", {}, id="cleared by the job"),
        pytest.param("0", SCRIPT, id="a step without cards in a job that may have some"),
        pytest.param("batch", {**SCRIPT, "SLURM_JOB_GPUS": "gpu:a100:2"}, id="another spelling"),
    ],
)
def test_what_is_not_told_is_unknown_and_never_no_card(
    step: str, environment: dict[str, str] | None, tree: ProcTree, jobs: SlurmJobs
) -> None:
    run_step(tree, 12, step, 7, environment)

    (holding,) = jobs.scan(NOW_SECONDS).values()

    assert (holding.is_known, holding.minors, holding.uuids) == (False, frozenset(), frozenset())
    assert holding.user == "ada"


def test_the_first_process_that_tells_something_counts(tree: ProcTree, jobs: SlurmJobs) -> None:
    tree.add_cgroup(f"{ROOT}/job_12/step_batch/user/task_0", [5, 6, 7])
    tree.start(5, user_id=0, environment={"PATH": "/bin"})
    tree.start(7, environment={**SCRIPT, "SLURM_JOB_GPUS": "1"})

    assert jobs.scan(NOW_SECONDS)["12"] == JobHolding(
        "12", "ada", "chem", frozenset({1}), is_known=True
    )


def test_a_job_without_processes_is_unknown(tree: ProcTree, jobs: SlurmJobs) -> None:
    tree.add_cgroup(f"{ROOT}/job_12/step_batch")

    assert jobs.scan(NOW_SECONDS) == {"12": JobHolding("12")}


def test_a_job_of_v1_is_read_from_the_controller_that_has_its_processes(tree: ProcTree) -> None:
    tree.add_cgroup("cpuset/slurm/uid_1000/job_12")
    tree.add_cgroup("freezer/slurm/uid_1000/job_12/step_batch", [7])
    tree.start(7, user_id=0, environment={**SCRIPT, "SLURM_JOB_GPUS": UUID})

    jobs = SlurmJobs(tree.sysfs, tree.procfs, UserNames(lambda user: f"user-{user}"))

    assert jobs.scan(NOW_SECONDS) == {
        "12": JobHolding("12", "user-1000", "chem", uuids=frozenset({UUID}), is_known=True)
    }


@pytest.mark.parametrize(
    ("user_id", "told", "user"),
    [
        pytest.param(1000, "bob", "ada", id="the kernel knows better than the job"),
        pytest.param(2000, "bob", "bob", id="a user without a name here"),
        pytest.param(2000, "", "2000", id="a user without any name"),
        pytest.param(2000, "bo\nb", "bo_b", id="a strange name"),
    ],
)
def test_a_job_has_a_user(
    user_id: int, told: str, user: str, tree: ProcTree, jobs: SlurmJobs
) -> None:
    run_step(tree, 12, "batch", 7, {"SLURM_JOB_USER": told}, user_id=user_id)

    assert jobs.scan(NOW_SECONDS)["12"].user == user


def test_what_a_script_told_is_read_once(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "1"})
    first = jobs.scan(NOW_SECONDS)["12"]
    tree.end(7)

    assert jobs.scan(NOW_SECONDS)["12"] is first


def test_a_requeued_job_is_read_again(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "1"})
    jobs.scan(NOW_SECONDS)
    folder = tree.sysfs / "fs/cgroup" / ROOT / "job_12"
    folder.rename(folder.parent / "old")  # so that its number is not used again
    run_step(tree, 12, "batch", 8, {**SCRIPT, "SLURM_JOB_GPUS": "2"})

    assert jobs.scan(NOW_SECONDS)["12"].minors == {2}


def test_a_job_that_was_unknown_is_read_again_and_keeps_its_user(
    tree: ProcTree, jobs: SlurmJobs
) -> None:
    run_step(tree, 12, "batch", 7, None, user_id=2000)
    before = jobs.scan(NOW_SECONDS)["12"]
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "1"}, user_id=2000)

    after = jobs.scan(NOW_SECONDS)["12"]

    assert (before.is_known, before.user) == (False, "2000")
    assert after == JobHolding("12", "2000", "chem", frozenset({1}), is_known=True)


def test_a_job_that_ends_is_forgotten(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, SCRIPT)
    jobs.scan(NOW_SECONDS)
    shutil.rmtree(tree.sysfs / "fs/cgroup" / ROOT / "job_12")

    assert (jobs.scan(NOW_SECONDS), jobs.is_present) == ({}, True)


def test_who_asks_for_an_unknown_job_wants_a_scan(jobs: SlurmJobs) -> None:
    jobs.scan(NOW_SECONDS)

    assert (jobs.is_wanted, jobs.job("12"), jobs.is_wanted) == (False, None, True)


def test_a_node_without_slurm_says_so(tree: ProcTree) -> None:
    jobs = SlurmJobs(tree.sysfs, tree.procfs)
    before = jobs.is_present

    assert (before, jobs.scan(NOW_SECONDS), jobs.is_present) == (None, {}, False)


# Processes that hang: reading what they were started with may not come back.


def test_a_process_that_hangs_is_not_asked(tree: ProcTree, jobs: SlurmJobs) -> None:
    environment = {**SCRIPT, "SLURM_JOB_GPUS": "1"}
    run_step(tree, 12, "batch", 7, environment, state="D")
    before = jobs.scan(NOW_SECONDS)["12"]
    run_step(tree, 12, "batch", 7, environment, state="S")

    after = jobs.scan(NOW_SECONDS + 10)["12"]

    assert before == JobHolding("12", "ada")
    assert after == JobHolding("12", "ada", "chem", frozenset({1}), is_known=True)


def test_another_process_of_the_step_tells_as_much(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, SCRIPT, state="D")
    tree.add_cgroup(f"{ROOT}/job_12/step_batch/user/task_0", [7, 8])
    tree.start(8, environment={**SCRIPT, "SLURM_JOB_GPUS": "1"})

    assert jobs.scan(NOW_SECONDS)["12"].minors == {1}


def test_cards_are_not_known_while_one_of_the_steps_hangs(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "0", 7, {"SLURM_STEP_GPUS": "1"})
    run_step(tree, 12, "1", 8, {"SLURM_STEP_GPUS": "4"}, state="D")

    assert not jobs.scan(NOW_SECONDS)["12"].is_known


def test_what_is_known_stays_while_a_process_hangs(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "0", 7, {"SLURM_STEP_GPUS": "1"})
    before = jobs.scan(NOW_SECONDS)["12"]
    run_step(tree, 12, "0", 7, {"SLURM_STEP_GPUS": "1"}, state="D")

    assert jobs.scan(NOW_SECONDS + 10)["12"] == before


def test_which_jobs_there_are_is_told_before_any_is_read(
    tree: ProcTree, jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "1"})
    run_step(tree, 13, "batch", 8, {**SCRIPT, "SLURM_JOB_GPUS": "2"})
    known = jobs.scan(NOW_SECONDS)["13"]
    shutil.rmtree(tree.sysfs / "fs/cgroup" / ROOT / "job_12")
    run_step(tree, 14, "batch", 9, {**SCRIPT, "SLURM_JOB_GPUS": "3"})

    scan_until_it_hangs(jobs, monkeypatch)

    assert jobs.jobs == {"13": known, "14": JobHolding("14")}
    assert (jobs.job("12"), jobs.job("13"), jobs.job("14")) == (None, known, None)


def test_a_requeued_job_is_unknown_at_once(
    tree: ProcTree, jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step(tree, 12, "batch", 7, {**SCRIPT, "SLURM_JOB_GPUS": "1"})
    jobs.scan(NOW_SECONDS)
    folder = tree.sysfs / "fs/cgroup" / ROOT / "job_12"
    folder.rename(folder.parent / "old")
    run_step(tree, 12, "batch", 8, {**SCRIPT, "SLURM_JOB_GPUS": "2"})

    scan_until_it_hangs(jobs, monkeypatch)

    assert jobs.jobs == {"12": JobHolding("12")}


def test_only_a_scan_that_came_to_its_end_counts(
    tree: ProcTree, jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step(tree, 12, "batch", 7, SCRIPT)
    at_first = jobs.since_seconds
    jobs.scan(NOW_SECONDS)
    run_step(tree, 13, "batch", 8, SCRIPT)

    scan_until_it_hangs(jobs, monkeypatch)

    assert (at_first, jobs.since_seconds) == (float("-inf"), NOW_SECONDS)


def test_it_is_told_why_cards_are_not_known(tree: ProcTree, jobs: SlurmJobs) -> None:
    run_step(tree, 12, "batch", 7, SCRIPT, state="D")
    jobs.scan(NOW_SECONDS)
    while_it_hangs = jobs.unavailable_reason
    run_step(tree, 13, "batch", 8, None)
    jobs.scan(NOW_SECONDS)
    while_another_hides = jobs.unavailable_reason
    run_step(tree, 12, "batch", 7, SCRIPT)
    run_step(tree, 13, "batch", 8, SCRIPT)

    jobs.scan(NOW_SECONDS)

    assert while_it_hangs == (
        "the cards of 1 jobs are not told by their processes: "
        "they hang in the kernel, and are read when they go on"
    )
    assert (while_another_hides or "").startswith("the cards of 2 jobs are not told: give CAP_")
    assert jobs.unavailable_reason is None


@pytest.mark.parametrize(
    ("text", "minors", "uuids"),
    [
        ("0", {0}, set()),
        ("0,2-3, 7", {0, 2, 3, 7}, set()),
        (f"{UUID},{MIG_UUID}", set(), {UUID, MIG_UUID}),
        ("3-1", set(), set()),
    ],
)
def test_a_list_of_cards_is_read(text: str, minors: set[int], uuids: set[str]) -> None:
    assert parse_cards([text]) == (frozenset(minors), frozenset(uuids))


@pytest.mark.parametrize("text", ["", "x", "0,", "0-", "1000000", "GPU-", "N/A", "(null)"])
def test_other_text_is_no_list_of_cards(text: str) -> None:
    assert parse_cards([text]) is None


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_cards([text])
