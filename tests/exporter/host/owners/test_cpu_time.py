"""Processor time of cgroups and processes."""

import os

import pytest

from rightslice.exporter.host.owners.cgroup_path import parse_cgroups
from rightslice.exporter.host.owners.cpu_time import cgroup_cpu_seconds, process_cpu_seconds
from rightslice.exporter.simulate.proc_tree import ProcTree

ID = "7e" * 32
PATH = f"/system.slice/docker-{ID}.scope"
V2_STAT = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"


def test_v2_tells_microseconds(tree: ProcTree) -> None:
    tree.add_cgroup(PATH, files={"cpu.stat": V2_STAT})

    assert cgroup_cpu_seconds(tree.sysfs, parse_cgroups(f"0::{PATH}/init\n")) == 2.5


@pytest.mark.parametrize("mount", ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"])
def test_v1_tells_nanoseconds(mount: str, tree: ProcTree) -> None:
    tree.add_cgroup(f"{mount}{PATH}", files={"cpuacct.usage": "1500000000\n"})
    place = parse_cgroups(f"4:cpu,cpuacct:{PATH}\n0::/\n")

    assert cgroup_cpu_seconds(tree.sysfs, place) == 1.5


def test_v2_beside_v1_has_a_folder_of_its_own(tree: ProcTree) -> None:
    tree.add_cgroup(f"unified{PATH}", files={"cpu.stat": V2_STAT})
    place = parse_cgroups(f"4:memory:{PATH}\n0::{PATH}\n")

    assert cgroup_cpu_seconds(tree.sysfs, place) == 2.5


@pytest.mark.parametrize("text", ["", "usage_usec\n", "usage_usec -1\n", "nr_periods 3\n"])
def test_a_file_without_the_number_tells_nothing(text: str, tree: ProcTree) -> None:
    tree.add_cgroup(PATH, files={"cpu.stat": text})

    assert cgroup_cpu_seconds(tree.sysfs, parse_cgroups(f"0::{PATH}\n")) is None


def test_a_cgroup_that_is_gone_tells_nothing(tree: ProcTree) -> None:
    place = parse_cgroups(f"4:cpuacct:{PATH}\n0::{PATH}\n")

    assert cgroup_cpu_seconds(tree.sysfs, place) is None


def test_a_path_out_of_the_tree_is_not_followed(tree: ProcTree) -> None:
    (tree.sysfs / "fs/cgroup").mkdir(parents=True)
    outside = tree.root / "sys" / f"docker-{ID}.scope"
    outside.mkdir()
    (outside / "cpu.stat").write_text(V2_STAT)
    place = parse_cgroups(f"0::/../../docker-{ID}.scope\n")

    assert cgroup_cpu_seconds(tree.sysfs, place) is None


def test_a_process_tells_its_time_in_user_and_kernel(tree: ProcTree) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    tree.start(7, command="a) (b", user_ticks=3 * ticks, system_ticks=ticks)

    assert process_cpu_seconds(tree.procfs, 7) == 4.0
    assert process_cpu_seconds(tree.procfs, 8) is None
