"""The two ways of GPUDirect RDMA."""

import pytest
from support.sysfs_tree import SysfsTree

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING
from rightslice.exporter.check.peer_memory import check

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 2024"


@pytest.fixture
def gpu_node(tree: SysfsTree) -> SysfsTree:
    """A node with a card, a network card, and some kernel module."""
    tree.add_nic()
    tree.add_card()
    (tree.sysfs / "module/nvidia").mkdir(parents=True)
    return tree


@pytest.mark.parametrize("module", ["nvidia_peermem", "nv_peer_mem"])
def test_a_module_serves(gpu_node: SysfsTree, module: str) -> None:
    (gpu_node.sysfs / "module" / module).mkdir()

    (finding,) = check(gpu_node.node())

    assert finding.level == OK
    assert module in finding.text


@pytest.mark.parametrize(
    ("release", "version", "level", "words"),
    [
        ("5.12.0", OPEN, OK, "DMA-BUF"),
        ("6.8.0-45-generic", OPEN, OK, "DMA-BUF"),
        ("5.4.0-200-generic", OPEN, WARNING, "5.4.0-200-generic is older than 5.12"),
        ("6.8.0", CLOSED, WARNING, "not the open ones"),
        ("4.18.0", CLOSED, WARNING, "older than 5.12 and NVIDIA's kernel modules"),
        (None, OPEN, UNKNOWN, "the kernel's release is not told"),
        ("new", OPEN, UNKNOWN, "the kernel's release is not told"),
        ("6.8.0", None, UNKNOWN, "NVIDIA's driver is not told"),
    ],
)
def test_else_dma_buf_serves(
    gpu_node: SysfsTree, release: str | None, version: str | None, level: str, words: str
) -> None:
    if release is not None:
        gpu_node.write_proc("sys/kernel/osrelease", release)
    if version is not None:
        gpu_node.write_proc("driver/nvidia/version", version)

    (finding,) = check(gpu_node.node())

    assert finding.level == level
    assert words in finding.text


def test_a_sysfs_without_modules_tells_nothing(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_card()
    tree.write_proc("sys/kernel/osrelease", "4.18.0")
    tree.write_proc("driver/nvidia/version", CLOSED)

    (finding,) = check(tree.node())

    assert finding.level == UNKNOWN
    assert str(tree.sysfs / "module") in finding.text


@pytest.mark.parametrize("kind", ["card", "nic"])
def test_one_kind_of_cards_alone_needs_none(tree: SysfsTree, kind: str) -> None:
    (tree.sysfs / "module").mkdir(parents=True)
    if kind == "card":
        tree.add_card()
    else:
        tree.add_nic()

    assert list(check(tree.node())) == []
