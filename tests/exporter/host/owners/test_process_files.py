"""Processes as procfs shows them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.process_files import (
    parse_stat,
    read_cgroup_text,
    read_stat,
    read_status,
    read_user_id,
)
from rightslice.exporter.simulate.proc_tree import START_TICKS, ProcTree


@pytest.mark.parametrize("command", ["python3", "tmux: server", "(sd-pam)", "a) R 1 (b) S 2", ""])
def test_any_command_is_read(command: str, tree: ProcTree) -> None:
    tree.start(7, command=command, state="D", user_ticks=30, system_ticks=12)

    stat = read_stat(tree.procfs, 7)

    assert stat is not None
    assert (stat.command, stat.state) == (command, "D")
    assert (stat.cpu_ticks, stat.start_ticks) == (42, START_TICKS)


def test_ticks_become_seconds(tree: ProcTree) -> None:
    tree.start(7, user_ticks=2 * os.sysconf("SC_CLK_TCK"))

    stat = read_stat(tree.procfs, 7)

    assert stat is not None
    assert stat.cpu_seconds == 2.0


@pytest.mark.parametrize("text", [b"", b"7 (x) S 1", b"7 (x", b"7 (x) " + b"y " * 30])
def test_other_text_tells_nothing(text: bytes) -> None:
    assert parse_stat(text) is None


@given(st.binary() | st.binary().map(lambda tail: b"7 (x) " + tail))
def test_no_bytes_break_the_parser(text: bytes) -> None:
    parse_stat(text)


def test_the_real_user_is_whose_the_process_is(tree: ProcTree) -> None:
    tree.start(7, user_id=1234)

    assert read_user_id(tree.procfs, 7) == 1234


def test_a_process_has_a_parent_and_an_id_in_each_namespace(tree: ProcTree) -> None:
    tree.start(4821, parent_id=57, namespace_ids=(4821, 17))

    stat = read_stat(tree.procfs, 4821)

    assert stat is not None
    assert (stat.parent_id, stat.may_hang) == (57, False)
    assert read_status(tree.procfs, 4821).process_ids == (4821, 17)


def test_a_kernel_without_pid_namespaces_tells_no_ids(tree: ProcTree) -> None:
    tree.start(4821)

    assert read_status(tree.procfs, 4821).process_ids == ()


def test_a_process_that_is_not_shown_tells_nothing(tree: ProcTree) -> None:
    assert read_stat(tree.procfs, 7) is None
    assert read_user_id(tree.procfs, 7) is None
    assert read_cgroup_text(tree.procfs, 7) == ""


def test_this_process_is_read_from_the_real_kernel() -> None:
    stat = read_stat(Path("/proc"), os.getpid())

    assert stat is not None
    assert stat.command == Path("/proc/self/comm").read_text().rstrip("\n")
    assert stat.cpu_seconds > 0
    assert stat.parent_id == os.getppid()
    assert read_status(Path("/proc"), os.getpid()).process_ids[0] == os.getpid()
    assert read_user_id(Path("/proc"), os.getpid()) == os.getuid()
    assert read_cgroup_text(Path("/proc"), os.getpid()) == Path("/proc/self/cgroup").read_text()
