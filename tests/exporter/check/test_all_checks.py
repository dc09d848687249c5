"""The checks together: none hides another, whatever is broken."""

from collections.abc import Iterator
from pathlib import Path

from support.sysfs_tree import CARD, NIC, SysfsTree, link, make_unreadable, write

from rightslice.exporter.check import all_checks
from rightslice.exporter.check.all_checks import CHECKS, findings_of
from rightslice.exporter.check.finding import LEVELS, OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.node import Node

NO_CHECKS = (
    "all_checks",
    "command",
    "finding",
    "interface",
    "kernel",
    "node",
    "patience",
    "pcie_link",
    "pfc",
)


def test_each_module_with_a_check_is_run() -> None:
    folder = Path(str(all_checks.__file__)).parent
    modules = {path.stem for path in folder.glob("[!_]*.py")} - {*NO_CHECKS, "report"}

    assert modules == set(CHECKS)


def test_a_check_that_fails_is_told_with_what_it_found_before(tree: SysfsTree) -> None:
    def failing(_: Node) -> Iterator[Finding]:
        yield Finding("a", "node", WARNING, "first")
        raise RuntimeError("broken")

    def working(_: Node) -> Iterator[Finding]:
        yield Finding("b", "node", OK, "fine")

    findings = findings_of(tree.node(), {"a": failing, "b": working})

    assert [(each.check, each.level) for each in findings] == [
        ("a", WARNING),
        ("a", UNKNOWN),
        ("b", OK),
    ]
    assert "RuntimeError: broken" in findings[1].text


def test_the_worst_comes_first(tree: SysfsTree) -> None:
    tree.add_nic(hw_counters=False)
    tree.add_card()

    levels = [LEVELS.index(finding.level) for finding in findings_of(tree.node())]

    assert levels == sorted(levels)
    assert set(levels) == {0, 1, 2}


def test_broken_files_break_no_check(tree: SysfsTree) -> None:
    good = tree.add_nic("mlx5_0", netdev="eth2")
    tree.add_nic("mlx5_1", "0000:5e:00.0", netdev="eth3")
    card = tree.add_card()
    for name in ("state", "rate", "link_layer"):
        make_unreadable(good / "ports/1" / name)
    for folder in (card, good.parent.parent):
        for name in ("resource", "current_link_speed", "max_link_width", "sriov_totalvfs"):
            make_unreadable(folder / name)
    for path in ("driver/nvidia/version", "sys/kernel/osrelease"):
        (tree.root / "proc" / path).mkdir(parents=True)
    link(tree.sysfs / "class/infiniband/gone", tree.sysfs / "nowhere")
    link(tree.sysfs / "bus/pci/devices/0000:ff:00.0", tree.sysfs / "nowhere")
    write(tree.sysfs / "class/infiniband/odd", {"node_type": "\xff"})

    findings = findings_of(tree.node())

    assert not [finding for finding in findings if "ended early" in finding.text]
    assert {"mlx5_1", "mlx5_0", CARD} <= {finding.subject for finding in findings}
    assert ("link_rate", "mlx5_1", OK) in {(f.check, f.subject, f.level) for f in findings}


def test_excluded_devices_are_not_looked_at(tree: SysfsTree) -> None:
    tree.add_nic(hw_counters=False)

    findings = findings_of(tree.node())
    assert NIC in str(findings)

    excluded = tree.node(excluded=("mlx5_*",))
    assert [finding.text for finding in findings_of(excluded)] == ["no RDMA devices"]
