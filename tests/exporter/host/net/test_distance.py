"""How near two functions are, by where sysfs has them."""

from collections.abc import Sequence

import pytest
from support.sysfs_tree import SysfsTree

from rightslice.exporter.host.net.distance import distance, nearest

CARD, NIC = "0000:3c:00.0", "0000:3b:00.0"
HOST = "pci0000:3a"
SWITCH = (HOST, "0000:3a:01.0", "0000:d0:00.0")


def put(tree: SysfsTree, bus_id: str, way: Sequence[str], numa_node: str = "0") -> None:
    tree.add_function(bus_id, {"numa_node": numa_node}, way=way)


@pytest.mark.parametrize(
    ("card_way", "nic_way", "word"),
    [
        pytest.param(
            (*SWITCH, "0000:e0:00.0"), (*SWITCH, "0000:e0:01.0"), "pix", id="below one switch"
        ),
        pytest.param((HOST, "0000:3a:01.0"), (HOST, "0000:3a:01.0"), "pix", id="one bridge"),
        pytest.param(
            (*SWITCH, "0000:e0:00.0"),
            (*SWITCH, "0000:e0:01.0", "0000:a0:00.0", "0000:b0:00.0"),
            "pxb",
            id="a switch below the switch",
        ),
        pytest.param(
            (*SWITCH, "0000:e0:00.0"), (HOST, "0000:3a:02.0"), "phb", id="another root port"
        ),
        pytest.param((HOST,), (HOST,), "phb", id="on the host bridge itself"),
        pytest.param(
            (*SWITCH, "0000:e0:00.0"), ("pci0000:40", "0000:40:01.0"), "node", id="host bridges"
        ),
    ],
)
def test_what_is_between_two_functions_is_their_distance(
    tree: SysfsTree, card_way: Sequence[str], nic_way: Sequence[str], word: str
) -> None:
    put(tree, CARD, card_way)
    put(tree, NIC, nic_way)

    assert distance(tree.sysfs, CARD, NIC) == word
    assert distance(tree.sysfs, NIC, CARD) == word


@pytest.mark.parametrize(
    ("card_node", "nic_node", "word"),
    [("0", "0", "node"), ("0", "1", "sys"), ("-1", "0", None), ("-1", "-1", None), ("", "1", None)],
)
def test_host_bridges_are_as_near_as_their_processors(
    tree: SysfsTree, card_node: str, nic_node: str, word: str | None
) -> None:
    put(tree, CARD, (HOST, "0000:3a:01.0"), card_node)
    put(tree, NIC, ("pci0000:80", "0000:80:01.0"), nic_node)

    assert distance(tree.sysfs, CARD, NIC) == word


@pytest.mark.parametrize(("nic_node", "word"), [("0", "node"), ("1", "sys")])
def test_each_card_may_have_a_domain_of_its_own(tree: SysfsTree, nic_node: str, word: str) -> None:
    """As on Grace: the same numbers below another domain are another place."""
    put(tree, "0009:01:00.0", ("pci0009:00", "0009:00:00.0"), "0")
    put(tree, "0000:01:00.0", ("pci0000:00", "0000:00:00.0"), nic_node)

    assert distance(tree.sysfs, "0009:01:00.0", "0000:01:00.0") == word


@pytest.mark.parametrize("folder", ["pci-tree", "pci0000", "pcix"])
def test_the_folder_that_sysfs_is_in_may_have_any_name(tree: SysfsTree, folder: str) -> None:
    elsewhere = SysfsTree(tree.root / folder / "a" / "b")
    put(elsewhere, CARD, (HOST, "0000:3a:01.0"), "0")
    put(elsewhere, NIC, ("pci0000:80", "0000:80:01.0"), "1")

    assert distance(elsewhere.sysfs, CARD, NIC) == "sys"


def test_a_function_that_is_not_there_has_no_distance(tree: SysfsTree) -> None:
    put(tree, CARD, (HOST,))

    assert distance(tree.sysfs, CARD, NIC) is None
    assert distance(tree.sysfs, NIC, CARD) is None


def test_the_nearest_are_all_at_the_shortest_distance(tree: SysfsTree) -> None:
    put(tree, CARD, (*SWITCH, "0000:e0:00.0"))
    put(tree, "0000:3b:00.0", (*SWITCH, "0000:e0:01.0"))
    put(tree, "0000:3b:00.1", (*SWITCH, "0000:e0:01.0"))
    put(tree, "0000:41:00.0", ("pci0000:40", "0000:40:01.0"))
    places = {
        "mlx5_2": "0000:41:00.0",
        "mlx5_1": "0000:3b:00.1",
        "mlx5_0": "0000:3b:00.0",
        "gone": "0000:ff:00.0",
    }

    assert nearest(tree.sysfs, CARD, places) == ("pix", ["mlx5_0", "mlx5_1"])


def test_where_no_distance_is_known_nothing_is_nearest(tree: SysfsTree) -> None:
    put(tree, CARD, (HOST,), "-1")
    put(tree, NIC, ("pci0000:80",), "-1")

    assert nearest(tree.sysfs, CARD, {"mlx5_0": NIC}) is None
    assert nearest(tree.sysfs, CARD, {}) is None
