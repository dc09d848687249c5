"""Ports beside others of their model."""

import pytest
from support.sysfs_tree import DOWN, SysfsTree, link, make_unreadable

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING
from rightslice.exporter.check.link_rate import check

FAST, SLOW, NARROW = "200 Gb/sec (4X HDR)", "100 Gb/sec (4X EDR)", "50 Gb/sec (1X HDR)"


def add_nics(tree: SysfsTree, *rates: str) -> None:
    for number, rate in enumerate(rates):
        tree.add_nic(f"mlx5_{number}", f"0000:{0x3B + number:x}:00.0", rate=rate)


def test_equal_ports_are_ok(tree: SysfsTree) -> None:
    add_nics(tree, FAST, FAST)

    assert [finding.level for finding in check(tree.node())] == [OK, OK]


@pytest.mark.parametrize("rate", [SLOW, NARROW])
def test_a_port_below_most_of_its_model_is_a_warning(tree: SysfsTree, rate: str) -> None:
    add_nics(tree, FAST, rate, FAST)

    findings = {finding.subject: finding for finding in check(tree.node())}

    assert [findings[f"mlx5_{n}"].level for n in range(3)] == [OK, WARNING, OK]
    assert rate.partition(" ")[0] + " Gbit/s" in findings["mlx5_1"].text
    assert "at 200 Gbit/s (4X)" in findings["mlx5_1"].text


def test_of_two_the_slower_is_the_odd_one(tree: SysfsTree) -> None:
    add_nics(tree, SLOW, FAST)

    assert [finding.level for finding in check(tree.node())] == [WARNING, OK]


def test_one_faster_port_makes_no_others_slow(tree: SysfsTree) -> None:
    add_nics(tree, FAST, SLOW, SLOW)

    assert [finding.level for finding in check(tree.node())] == [OK, OK, OK]


def test_the_same_rate_on_fewer_lanes_is_ok(tree: SysfsTree) -> None:
    add_nics(tree, FAST, "200 Gb/sec (2X NDR)", FAST)

    assert [finding.level for finding in check(tree.node())] == [OK, OK, OK]


def test_other_models_and_virtual_functions_are_no_measure(tree: SysfsTree) -> None:
    physical = tree.add_nic(rate=SLOW).parent.parent
    tree.add_nic("mlx5_1", "0000:5e:00.0", model="MT4129")
    tree.add_nic("mlx5_2", "0000:5f:00.0", netdev="eth2")
    link(tree.add_nic("mlx5_3", "0000:3b:00.2").parent.parent / "physfn", physical)

    findings = list(check(tree.node()))

    assert [finding.level for finding in findings] == [OK, OK, OK]
    assert all("no other of its model" in finding.text for finding in findings)


def test_the_placeholder_rate_of_a_port_that_is_down_is_none(tree: SysfsTree) -> None:
    add_nics(tree, FAST)
    tree.add_nic("mlx5_9", "0000:5e:00.0", state=DOWN, rate="40 Gb/sec (4X QDR)")

    findings = {finding.subject: finding for finding in check(tree.node())}

    assert findings["mlx5_9"].level == UNKNOWN
    assert "not active (state '1: DOWN')" in findings["mlx5_9"].text
    assert findings["mlx5_0"].level == OK


@pytest.mark.parametrize("rate", ["", "N/A", "fast (4X HDR)"])
def test_an_odd_rate_costs_that_port_alone(tree: SysfsTree, rate: str) -> None:
    add_nics(tree, rate, FAST, FAST)

    levels = {finding.subject: finding.level for finding in check(tree.node())}

    assert levels == {"mlx5_0": UNKNOWN, "mlx5_1": OK, "mlx5_2": OK}


def test_a_state_that_cannot_be_read_is_unknown(tree: SysfsTree) -> None:
    make_unreadable(tree.add_nic() / "ports/1/state")

    (finding,) = check(tree.node())

    assert (finding.level, "in an unknown state" in finding.text) == (UNKNOWN, True)
