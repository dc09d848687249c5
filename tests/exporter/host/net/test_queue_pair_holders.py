"""Who holds queue pairs, and when that is known of all."""

import os
import threading
from pathlib import Path

import pytest
from support.rdma_sleep import FakeQueuePairs, let_see_own_numbers, queue_pair

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net import queue_pair_holders as module
from rightslice.exporter.host.net.queue_pair_holders import (
    LIST_SECONDS,
    NOBODY_KNOWN,
    Holders,
    QueuePairHolders,
)
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.exporter.simulate.proc_tree import ProcTree

CLOCK = ManualClock(1_000.0)
JOB = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    tree = ProcTree(tmp_path)
    let_see_own_numbers(tree)
    return tree


def start(tree: ProcTree, thread_id: int, process_id: int, cgroup: str = JOB) -> None:
    folder = tree.start(thread_id, cgroup, parent_id=1)
    (folder / "status").write_text(f"Name:\tpython3\nTgid:\t{process_id}\nNgid:\t0\n")


def found(tree: ProcTree, kernel: FakeQueuePairs) -> Holders:
    return QueuePairHolders(kernel, tree.procfs, CLOCK.now_seconds).find()


def owner(process_id: int, **place: str) -> Owner:
    return Owner(process_id, 1, CgroupPlace(**place))  # type: ignore[arg-type]


def test_a_thread_is_told_as_its_process(tree: ProcTree) -> None:
    start(tree, 70, process_id=70)
    start(tree, 71, process_id=70)
    kernel = FakeQueuePairs([queue_pair(71), queue_pair(71), queue_pair(kernel="ib_core")])

    known = found(tree, kernel)

    assert known.is_complete
    (holder,) = known.holders
    assert holder.process_ids == {70, 1}
    assert holder.place.slurm_job_id == "12"


def test_a_real_thread_is_told_as_its_process() -> None:
    thread_ids: list[int] = []
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        thread_ids.append(threading.get_native_id())
        begun.set()
        done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    kernel = FakeQueuePairs([queue_pair(thread_ids[0])])

    (holder,) = QueuePairHolders(kernel, Path("/proc"), CLOCK.now_seconds).find().holders
    done.set()
    thread.join()

    assert thread_ids[0] != os.getpid()
    assert {os.getpid(), os.getppid()} <= holder.process_ids


def test_with_no_queue_pair_nobody_holds_one(tree: ProcTree) -> None:
    assert found(tree, FakeQueuePairs([])) == Holders((), is_complete=True)


@pytest.mark.parametrize(
    ("kernel", "release"),
    [
        pytest.param(FakeQueuePairs([queue_pair(None)]), "6.8.0", id="a thread that has ended"),
        pytest.param(FakeQueuePairs([queue_pair(99)]), "6.8.0", id="a process that has ended"),
        pytest.param(FakeQueuePairs([], mode="exclusive"), "6.8.0", id="devices of namespaces"),
        pytest.param(FakeQueuePairs([]), "5.4.0-150-generic", id="an old kernel"),
        pytest.param(FakeQueuePairs([]), "4.18.0-553.el8", id="an older one"),
        pytest.param(FakeQueuePairs([]), "", id="an unknown one"),
        pytest.param(FakeQueuePairs(None), "6.8.0", id="a kernel that does not tell"),
    ],
)
def test_others_may_hold_some(tree: ProcTree, kernel: FakeQueuePairs, release: str) -> None:
    (tree.procfs / "sys/kernel/osrelease").write_text(release)

    assert found(tree, kernel) == NOBODY_KNOWN


def test_so_many_threads_are_not_all_looked_at(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_THREADS", 1)
    start(tree, 70, process_id=70)
    start(tree, 80, process_id=80)

    known = found(tree, FakeQueuePairs([queue_pair(70), queue_pair(80)]))

    assert ([70 in each.process_ids for each in known.holders], known.is_complete) == (
        [True],
        False,
    )


def test_numbers_of_another_pid_namespace_are_not_looked_up(tree: ProcTree) -> None:
    (tree.procfs / "self").unlink()
    (tree.procfs / "self").symlink_to("1")
    start(tree, 70, process_id=70)
    kernel = FakeQueuePairs([queue_pair(70)])

    assert found(tree, kernel) == NOBODY_KNOWN
    assert kernel.list_count == 0


def test_the_list_is_asked_for_again_when_the_counts_change_or_it_is_old(tree: ProcTree) -> None:
    start(tree, 70, process_id=70)
    clock, kernel = ManualClock(0.0), FakeQueuePairs([])
    holders = QueuePairHolders(kernel, tree.procfs, clock.now_seconds)

    def lists_after(seconds: float) -> int:
        clock.advance(seconds)
        holders.find()
        return kernel.list_count

    assert [lists_after(30.0), lists_after(30.0)] == [1, 1]
    kernel.rows = [queue_pair(70)]
    assert lists_after(30.0) == 2
    assert len(holders.find().holders) == 1
    assert lists_after(LIST_SECONDS) == 3


def test_a_refusal_is_told_until_the_kernel_answers(tree: ProcTree) -> None:
    kernel = FakeQueuePairs(error=ReadingError("permission", "no netlink"))
    holders = QueuePairHolders(kernel, tree.procfs, CLOCK.now_seconds)

    assert (holders.find(), holders.unavailable_reason) == (NOBODY_KNOWN, "no netlink")
    kernel.error = None
    assert (holders.find().is_complete, holders.unavailable_reason) == (True, "")


def test_a_holder_is_known_by_itself_its_ancestors_and_its_container(tree: ProcTree) -> None:
    tree.start(60, parent_id=50)
    start(tree, 70, process_id=70)
    tree.start(70, JOB, parent_id=60)
    (tree.procfs / "70/status").write_text("Tgid:\t70\n")
    known = found(tree, FakeQueuePairs([queue_pair(70)]))

    assert known.include([owner(9), owner(70)])
    assert known.include([owner(50)])
    assert known.include([owner(9, slurm_job_id="12", slurm_step="0")])
    assert not known.include([owner(9), owner(10, slurm_job_id="12", slurm_step="1")])


def test_two_processes_in_no_container_are_not_in_the_same(tree: ProcTree) -> None:
    start(tree, 70, process_id=70, cgroup="0::/user.slice\n")
    known = found(tree, FakeQueuePairs([queue_pair(70)]))

    assert not known.include([owner(9)])
