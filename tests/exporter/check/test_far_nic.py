"""How far cards are from network cards."""

import pytest
from support.sysfs_tree import ACTIVE, CARD, DOWN, HOST_BRIDGE, ROOT_PORT, SysfsTree

from rightslice.exporter.check.far_nic import check
from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING

SWITCH = (HOST_BRIDGE, ROOT_PORT, "0000:3b:00.0")
FAR = ("pci0000:80", "0000:80:01.0")


def add_card(tree: SysfsTree, numa_node: int = 0) -> None:
    tree.add_card(files={"numa_node": str(numa_node)}, way=(*SWITCH, "0000:3c:02.0"))


def add_nic(
    tree: SysfsTree, name: str, way: tuple[str, ...], numa: int, state: str = ACTIVE
) -> None:
    bus_id = f"0000:{0x90 + int(name[-1]):x}:00.0"
    tree.add_nic(name, bus_id, {"numa_node": str(numa)}, way=way, state=state)


@pytest.mark.parametrize(
    ("way", "numa", "level", "words"),
    [
        ((*SWITCH, "0000:3c:01.0"), 0, OK, "below the same PCIe switch (pix)"),
        ((HOST_BRIDGE, "0000:3a:02.0"), 0, OK, "at the same host bridge (phb)"),
        (FAR, 0, WARNING, "another host bridge of the same processor (node)"),
        (FAR, 1, WARNING, "at another processor (sys)"),
        (FAR, -1, UNKNOWN, "not told"),
    ],
)
def test_the_distance_to_the_nearest(
    tree: SysfsTree, way: tuple[str, ...], numa: int, level: str, words: str
) -> None:
    add_card(tree)
    add_nic(tree, "mlx5_0", way, numa)

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (level, CARD)
    assert words in finding.text


def test_a_near_one_makes_up_for_a_far_one(tree: SysfsTree) -> None:
    add_card(tree)
    add_nic(tree, "mlx5_0", FAR, 1)
    add_nic(tree, "mlx5_1", (*SWITCH, "0000:3c:01.0"), 0)

    (finding,) = check(tree.node())

    assert (finding.level, "(mlx5_1)" in finding.text) == (OK, True)


def test_a_near_one_that_is_down_does_not(tree: SysfsTree) -> None:
    add_card(tree)
    add_nic(tree, "mlx5_0", FAR, 1)
    add_nic(tree, "mlx5_1", (*SWITCH, "0000:3c:01.0"), 0, state=DOWN)

    (finding,) = check(tree.node())

    assert (finding.level, "(mlx5_0)" in finding.text) == (WARNING, True)


def test_without_an_active_port_all_are_looked_at(tree: SysfsTree) -> None:
    add_card(tree)
    add_nic(tree, "mlx5_1", (*SWITCH, "0000:3c:01.0"), 0, state=DOWN)

    assert [finding.level for finding in check(tree.node())] == [OK]


def test_a_node_without_network_cards_has_none_far(tree: SysfsTree) -> None:
    add_card(tree)

    assert list(check(tree.node())) == []
