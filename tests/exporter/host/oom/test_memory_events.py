"""The counters of cgroup folders, under v1, v2 and both, as folders come and go."""

from pathlib import Path

import pytest

from rightslice.exporter.host.oom.memory_events import KillCount, MemoryEvents
from rightslice.exporter.simulate.proc_tree import ProcTree

POD = "/kubepods.slice/kubepods-pod5e2a8f10_7b1c_4d7e_9a55_03c1d2e4f6a7.slice"
GIB = 1 << 30
V1_NO_LIMIT = "9223372036854771712\n"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def write_v2(
    tree: ProcTree, kills: int, groups: int | None = 0, path: str = POD, limit: str = f"{GIB}\n"
) -> Path:
    group = "" if groups is None else f"oom_group_kill {groups}\n"
    events = f"low 0\nhigh 12\nmax 4711\noom {kills}\noom_kill {kills}\n{group}"
    files = {"memory.events": events, "memory.max": limit, "memory.peak": f"{GIB}\n"}
    return tree.add_cgroup(path, files=files)


def write_v1(tree: ProcTree, kills: int, limit: str = f"{GIB}\n", path: str = POD) -> Path:
    files = {
        "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
        "memory.limit_in_bytes": limit,
        "memory.max_usage_in_bytes": f"{GIB + 4096}\n",
    }
    return tree.add_cgroup(f"memory{path}", files=files)


def test_the_first_reading_is_where_counting_begins(tree: ProcTree) -> None:
    write_v2(tree, kills=7, groups=2)
    events = MemoryEvents(tree.sysfs)

    assert events.read([POD]) == {POD: KillCount(0, 0, GIB, GIB)}
    write_v2(tree, kills=15, groups=3)
    assert events.read([POD, POD]) == {POD: KillCount(8, 1, GIB, GIB, 8)}
    assert events.read([POD]) == {POD: KillCount(0, 0, GIB, GIB, 0)}


def test_v1_counts_and_its_peak_may_pass_the_limit(tree: ProcTree) -> None:
    write_v1(tree, kills=0)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v1(tree, kills=2)

    assert events.read([POD]) == {POD: KillCount(2, 0, GIB, GIB + 4096)}


def test_beside_each_other_v1_has_the_memory(tree: ProcTree) -> None:
    tree.add_cgroup(f"unified{POD}", files={"cgroup.events": "populated 1\n"})
    write_v1(tree, kills=1)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v1(tree, kills=2)

    assert events.read([POD])[POD].kill_count == 1


def test_beside_each_other_v2_may_have_the_memory(tree: ProcTree) -> None:
    write_v2(tree, kills=1, path=f"unified{POD}")
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v2(tree, kills=2, path=f"unified{POD}")

    assert events.read([POD])[POD].kill_count == 1


@pytest.mark.parametrize("limit", ["max\n", V1_NO_LIMIT, "", "x\n"])
def test_no_limit_is_none(tree: ProcTree, limit: str) -> None:
    write_v2(tree, kills=1, limit=limit)
    write_v1(tree, kills=1, limit=limit, path="/other")

    counts = MemoryEvents(tree.sysfs).read([POD, "/other"])

    assert [count.limit_bytes for count in counts.values()] == [None, None]


def test_the_limit_is_as_of_the_kill(tree: ProcTree) -> None:
    write_v2(tree, kills=0)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v2(tree, kills=1, limit=f"{2 * GIB}\n")

    assert events.read([POD])[POD].limit_bytes == 2 * GIB


def test_older_kernels_have_no_peak_and_count_no_groups(tree: ProcTree) -> None:
    (write_v2(tree, kills=0, groups=None) / "memory.peak").unlink()
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v2(tree, kills=8, groups=None)
    (tree.sysfs / f"fs/cgroup{POD}/memory.peak").unlink()

    assert events.read([POD]) == {POD: KillCount(8, 0, GIB, None, 8)}


@pytest.mark.parametrize(
    "text", ["oom_kill_disable 0\nunder_oom 0\n", "", "oom_kill\n", "oom_kill x\n"]
)
def test_a_kernel_that_counts_no_kills_tells_nothing(tree: ProcTree, text: str) -> None:
    (write_v1(tree, kills=0) / "memory.oom_control").write_text(text)

    assert MemoryEvents(tree.sysfs).read([POD]) == {}


def test_the_folders_own_processes_alone(tree: ProcTree) -> None:
    folder = write_v2(tree, kills=0)
    local = MemoryEvents(tree.sysfs, is_local=True)
    assert local.read([POD]) == {}
    (folder / "memory.events.local").write_text("oom_kill 3\n")
    local.read([POD])
    write_v2(tree, kills=9)
    (folder / "memory.events.local").write_text("oom_kill 4\n")

    assert local.read([POD])[POD].kill_count == 1


def test_a_folder_that_is_gone_keeps_what_was_seen_and_adds_nothing(tree: ProcTree) -> None:
    write_v2(tree, kills=3)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    tree.remove_cgroup(POD)

    assert events.read([POD]) == events.read([POD]) == {POD: KillCount(0, 0, GIB, GIB, 0)}


def test_a_folder_made_anew_while_watched_counts_from_nothing(tree: ProcTree) -> None:
    before = write_v2(tree, kills=3)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    before.rename(before.with_name("kept, so that its inode is not used again"))
    write_v2(tree, kills=4)

    assert events.read([POD])[POD].kill_count == 4


def test_a_count_that_fell_is_of_a_folder_made_anew(tree: ProcTree) -> None:
    write_v2(tree, kills=3)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    write_v2(tree, kills=1)

    assert events.read([POD])[POD].kill_count == 1


def test_a_folder_no_longer_wanted_begins_anew(tree: ProcTree) -> None:
    write_v2(tree, kills=3)
    events = MemoryEvents(tree.sysfs)
    events.read([POD])
    assert events.read([]) == {}
    write_v2(tree, kills=5)

    assert events.read([POD])[POD].kill_count == 0


@pytest.mark.parametrize(
    "path", ["", "x", "/../etc", "/a/../../b", "/none", "/a\0b", POD + "/none"]
)
def test_what_is_no_folder_here_is_left_out(tree: ProcTree, path: str) -> None:
    write_v2(tree, kills=3)

    assert MemoryEvents(tree.sysfs).read([path]) == {}


def test_a_node_without_cgroups(tmp_path: Path) -> None:
    assert MemoryEvents(tmp_path).read([POD]) == {}
