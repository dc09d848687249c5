"""Jobs that leave the node's RDMA ports alone, told from those that use them or need none."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.rdma_sleep import (
    SIDECAR_CGROUP,
    TRAIN,
    TWO_NODES,
    UID,
    FakeQueuePairs,
    SleepNode,
    queue_pair,
)

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.host.net import asleep as module
from rightslice.exporter.host.net import card_processes
from rightslice.exporter.host.net.asleep import START_SECONDS, RdmaSleep, Verdict
from rightslice.exporter.host.net.port_now import PortNow
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.exporter.simulate.proc_tree import ProcTree

VERBS = ("/dev/nvidia0", "/dev/infiniband/uverbs3")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
UP_SECONDS = 3600
STEP = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n"


@pytest.fixture
def node(tmp_path: Path) -> SleepNode:
    return SleepNode(ProcTree(tmp_path))


def test_a_job_that_has_no_device_open_is_asleep(node: SleepNode) -> None:
    node.run(7)
    node.run(8)

    assert node.is_asleep() == {TRAIN: True}


def test_a_job_of_which_one_process_has_a_device_open_is_awake(node: SleepNode) -> None:
    node.run(7)
    node.run(8, files=VERBS)

    assert node.verdicts() == [Verdict(TRAIN, is_asleep=False)]
    assert node.queue_pairs.list_count == 0  # the firmware is left alone


def test_a_job_whose_child_holds_a_queue_pair_is_awake(node: SleepNode) -> None:
    node.run(7, cgroup="0::/user.slice\n")
    node.beside(70, parent_id=7)
    node.queue_pairs.rows = [queue_pair(70)]

    assert list(node.is_asleep().values()) == [False]


def test_a_job_in_whose_container_another_holds_a_queue_pair_is_awake(node: SleepNode) -> None:
    folder = node.run(7)
    node.beside(70, cgroup=(folder / "cgroup").read_text())
    node.queue_pairs.rows = [queue_pair(70)]

    assert node.is_asleep() == {TRAIN: False}


def test_a_sidecar_that_uses_rdma_does_not_wake_its_neighbour(node: SleepNode) -> None:
    node.run(7)
    node.beside(70, cgroup=SIDECAR_CGROUP)
    node.queue_pairs.rows = [queue_pair(70), queue_pair(kernel="nvme_rdma")]

    assert node.is_asleep() == {TRAIN: True}


def test_a_slurm_job_is_told_by_its_step(node: SleepNode) -> None:
    node.tree.add_cgroup("", files={"cgroup.controllers": ""})
    node.tree.add_cgroup(STEP.strip().removeprefix("0::"), [7])
    node.run(7, {"SLURM_STEP_NUM_NODES": "2"}, cgroup=STEP)
    node.attribution.owners.refresh(0.0)
    node.attribution.owner_of(7)

    (workload,) = node.is_asleep()

    assert (workload.kind, workload.pod, workload.container) == ("slurm_job", "12", "0")


@pytest.mark.parametrize(
    ("is_held", "is_complete", "verdicts"),
    [
        pytest.param(True, False, {TRAIN: False}, id="held"),
        pytest.param(False, True, {TRAIN: True}, id="not held, and all are known"),
        pytest.param(False, False, {}, id="not held, as far as is known"),
    ],
)
def test_queue_pairs_decide_where_open_files_are_hidden(
    node: SleepNode, is_held: bool, is_complete: bool, verdicts: dict[Workload, bool]
) -> None:
    node.run(7, files=None)
    with (node.tree.procfs / "7/status").open("a") as status:
        status.write("Tgid:\t7\n")
    others = [queue_pair(kernel="ib_core")] if is_complete else [queue_pair(None)]
    node.queue_pairs.rows = [*others, *([queue_pair(7)] if is_held else [])]

    assert node.is_asleep() == verdicts


def test_open_files_decide_where_not_all_queue_pairs_are_known(node: SleepNode) -> None:
    node.run(7)
    node.queue_pairs.rows = [queue_pair(None)]

    assert node.is_asleep() == {TRAIN: True}


def test_open_files_decide_where_the_kernel_refuses(node: SleepNode) -> None:
    node.run(7)
    node.queue_pairs.error = ReadingError("permission", "no netlink")

    assert node.is_asleep() == {TRAIN: True}


@pytest.mark.parametrize(
    "ports",
    [
        pytest.param([], id="no port"),
        pytest.param([PortNow("mlx5_0", 1, is_up=False)], id="none that is active"),
    ],
)
def test_without_an_active_port_nothing_is_told_or_read(
    node: SleepNode, ports: list[PortNow]
) -> None:
    node.ports = ports
    (node.run(7) / "environ").unlink()

    assert node.verdicts() == []
    assert node.sleep.unavailable_reason == ""


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, id="on one node"),
        pytest.param({"RAY_JOB": "1"}, id="where nothing tells"),
        pytest.param(TWO_NODES | {"NCCL_NET": "Socket"}, id="that chose TCP"),
    ],
)
def test_a_job_that_needs_no_rdma_is_not_judged(
    node: SleepNode, environment: dict[str, str]
) -> None:
    node.run(7, environment)

    assert node.verdicts() == []


@pytest.mark.parametrize(
    ("label", "environment", "verdicts"),
    [
        pytest.param("off", TWO_NODES, {}, id="meant to use TCP"),
        pytest.param("on", TWO_NODES | {"NCCL_NET": "Socket"}, {TRAIN: True}, id="meant not to"),
        pytest.param("no", TWO_NODES, {TRAIN: True}, id="no word of ours"),
    ],
)
def test_a_label_says_whether_rdma_is_meant(
    node: SleepNode, label: str, environment: dict[str, str], verdicts: dict[Workload, bool]
) -> None:
    node.pods.append(PodFacts("team", "train-0", UID, labels={"rightslice.io/rdma": label}))
    node.attribution.kubelet_pods.refresh()
    node.run(7, environment)

    assert node.is_asleep() == verdicts


def test_two_agents_on_one_node_span_no_nodes(node: SleepNode) -> None:
    for rank in range(2):
        ranks = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "RANK": str(rank)}
        node.run(7 + rank, ranks, cgroup="0::/user.slice\n")

    assert node.verdicts() == []


def test_a_young_job_is_not_judged(node: SleepNode) -> None:
    young_seconds = START_SECONDS / 2
    start_ticks = int((UP_SECONDS - young_seconds) * TICKS_PER_SECOND)
    node.run(7, start_ticks=start_ticks)

    assert node.is_asleep() == {}

    (node.tree.procfs / "uptime").write_text(f"{UP_SECONDS + young_seconds + 1} 9.0\n")

    assert node.is_asleep() == {TRAIN: True}


def test_where_the_uptime_is_hidden_what_was_seen_counts(node: SleepNode) -> None:
    node.run(7)
    (node.tree.procfs / "uptime").unlink()

    assert node.is_asleep() == {}

    node.clock.advance(START_SECONDS)

    assert node.is_asleep() == {TRAIN: True}


def test_of_a_job_that_was_old_a_process_that_begins_does_not_matter(node: SleepNode) -> None:
    node.run(7)
    node.run(8, start_ticks=UP_SECONDS * TICKS_PER_SECOND)

    assert node.is_asleep() == {TRAIN: True}


def test_a_job_that_wakes_up_is_awake(node: SleepNode) -> None:
    folder = node.run(7)
    assert node.is_asleep() == {TRAIN: True}

    (folder / "fd/9").symlink_to("/dev/infiniband/uverbs0")

    assert node.is_asleep() == {TRAIN: False}


def test_a_job_that_ends_is_told_no_more(node: SleepNode) -> None:
    node.run(7)
    assert node.is_asleep() == {TRAIN: True}

    node.tree.end(7)

    assert node.verdicts() == []


def test_another_process_with_the_id_of_one_that_ended_is_not_taken_for_it(node: SleepNode) -> None:
    node.run(7)
    node.verdicts()

    node.tree.start(7, start_ticks=9_999, environment=TWO_NODES)

    assert node.verdicts() == []


def test_a_process_that_hangs_is_asked_when_it_goes_on(node: SleepNode) -> None:
    node.run(7, state="D")
    assert node.verdicts() == []
    assert node.sleep.unavailable_reason == ""

    node.run(7, state="R", files=None)

    assert node.is_asleep() == {TRAIN: True}


def test_an_environment_is_read_once(node: SleepNode) -> None:
    folder = node.run(7)
    node.verdicts()

    (folder / "environ").write_text("")

    assert node.is_asleep() == {TRAIN: True}


def test_a_hidden_environment_is_told_with_what_to_do(
    node: SleepNode, caplog: pytest.LogCaptureFixture
) -> None:
    environ = node.run(7) / "environ"
    text = environ.read_text()
    environ.unlink()
    with caplog.at_level(logging.WARNING):
        assert [node.verdicts(), node.verdicts()] == [[], []]
        reason = node.sleep.unavailable_reason
        environ.write_text(text)
        assert node.is_asleep() == {TRAIN: True}

    assert reason == (
        "1 processes on cards hide their environment: give CAP_SYS_PTRACE and "
        "CAP_DAC_READ_SEARCH, or run as root"
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"use of RDMA by jobs: {reason}",
        "use of RDMA by jobs: all can be judged again",
    ]


def test_a_process_that_ends_while_it_is_read_hides_nothing(
    node: SleepNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.run(7)

    def end(procfs: Path, process_id: int, names: object) -> None:
        node.tree.end(process_id)

    monkeypatch.setattr(card_processes, "read_variables", end)

    assert node.verdicts() == []
    assert node.sleep.unavailable_reason == ""


def test_a_job_that_cannot_be_judged_is_told_with_what_to_do(node: SleepNode) -> None:
    node.run(7, files=None)
    node.queue_pairs.error = ReadingError("permission", "RDMA resources: refused")

    assert node.verdicts() == []
    assert node.sleep.unavailable_reason == (
        "1 jobs hide which files they have open: give CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or "
        "run as root; queue pairs: RDMA resources: refused"
    )


def test_so_many_files_are_not_all_read(node: SleepNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN_FILES", 3)
    node.queue_pairs.rows = [queue_pair(None)]
    node.run(7)
    node.run(8)

    assert node.verdicts() == []


def test_the_causes_of_all_processes_are_told_once_and_in_order(node: SleepNode) -> None:
    node.run(7, TWO_NODES | {"NCCL_IB_DISABLE": "1"})
    node.run(8, TWO_NODES | {"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "bnxt_re"})

    assert node.hints() == ("nccl_ib_disable", "nccl_ib_hca")


def test_of_a_real_process_the_kernel_tells_enough() -> None:
    clock = ManualClock(1_000.0)
    attribution = Attribution(Paths(), clock.clock())
    sleep = RdmaSleep(
        attribution,
        lambda: [PortNow("mlx5_0", 1, is_up=True)],
        FakeQueuePairs([queue_pair(None)]),
        lambda: 8,
        clock.clock(),
    )
    environment = TWO_NODES | {"NCCL_IB_DISABLE": "1"}
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]

    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        attribution.owner_of(process.pid)
        attribution.owners.refresh_names(clock.now_seconds())
        attribution.owner_of(process.pid)
        at_first = sleep.refresh()
        clock.advance(START_SECONDS)
        later = sleep.refresh()
        process.stdin.close()

    assert at_first == []
    (verdict,) = later
    assert verdict.is_asleep
    assert "nccl_ib_disable" in verdict.hints
