"""Cards with two ports: both used, one used, none told."""

import pytest
from support.sysfs_tree import ACTIVE, DOWN, ETHERNET_CLASS, SysfsTree, link, make_unreadable

from rightslice.exporter.check.dual_port import check
from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING

SLOT, SECOND = "0000:3b:00", "0000:3b:00.1"


def test_a_card_with_one_port_is_not_spoken_of(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_nic("mlx5_1", "0000:5e:00.0", state=DOWN)

    assert list(check(tree.node())) == []


@pytest.mark.parametrize(
    ("second", "level", "words"),
    [
        (ACTIVE, OK, "2 ports, all active"),
        (DOWN, WARNING, "mlx5_0 is active and mlx5_1 is not"),
        ("nonsense", UNKNOWN, "whether mlx5_1 is used is not told"),
    ],
)
def test_the_functions_of_a_card_are_its_ports(
    tree: SysfsTree, second: str, level: str, words: str
) -> None:
    tree.add_nic()
    tree.add_nic("mlx5_1", SECOND, state=second)

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (level, SLOT)
    assert words in finding.text


def test_no_active_port_is_no_single_port_use(tree: SysfsTree) -> None:
    tree.add_nic(state=DOWN)
    tree.add_nic("mlx5_1", SECOND, state=DOWN)

    (finding,) = check(tree.node())

    assert (finding.level, finding.text) == (OK, "the card has 2 ports, none active")


def test_two_ports_of_one_device_are_told_by_number(tree: SysfsTree) -> None:
    device = tree.add_nic("mlx4_0", driver="mlx4_core", ports=2)
    (device / "ports/2/state").write_text(f"{DOWN}\n")

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert "mlx4_0/1 is active and mlx4_0/2 is not" in finding.text


@pytest.mark.parametrize(
    ("operstate", "level"), [("up", OK), ("down", WARNING), ("unknown", UNKNOWN)]
)
def test_of_a_bond_each_member_counts(tree: SysfsTree, operstate: str, level: str) -> None:
    device = tree.add_nic("mlx5_bond_0", netdev="eth2")
    second = tree.add_function(SECOND, {"class": ETHERNET_CLASS}, driver="mlx5_core")
    tree.add_netdev("eth3", second, {"operstate": operstate})
    tree.add_bond("bond0", ("eth2", "eth3"))
    names = device / "ports/1/gid_attrs/ndevs"
    names.mkdir(parents=True)
    (names / "0").write_text("bond0\n")

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (level, SLOT)


def test_a_bond_of_two_cards_is_no_card_with_two_ports(tree: SysfsTree) -> None:
    device = tree.add_nic("mlx5_bond_0", netdev="eth2")
    other = tree.add_function("0000:5e:00.0", {"class": ETHERNET_CLASS}, driver="mlx5_core")
    tree.add_netdev("eth3", other, {"operstate": "down"})
    tree.add_bond("bond0", ("eth2", "eth3"))
    names = device / "ports/1/gid_attrs/ndevs"
    names.mkdir(parents=True)
    (names / "0").write_text("bond0\n")

    assert list(check(tree.node())) == []


def test_a_function_without_an_rdma_device_is_not_used(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_function(SECOND, {"class": ETHERNET_CLASS})

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert f"{SECOND} (without an RDMA device) is not" in finding.text


def test_a_function_whose_rdma_device_is_excluded_is_not_judged(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_nic("mlx5_1", SECOND)

    assert list(check(tree.node(excluded=("mlx5_1",)))) == []


def test_a_function_of_a_virtual_machine_is_not_judged(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_function(SECOND, {"class": ETHERNET_CLASS}, driver="vfio-pci")

    (finding,) = check(tree.node())

    assert finding.level == UNKNOWN


def test_virtual_functions_and_other_functions_are_no_ports(tree: SysfsTree) -> None:
    physical = tree.add_nic().parent.parent
    virtual = tree.add_nic("mlx5_2", "0000:3b:00.2", state=DOWN).parent.parent
    link(virtual / "physfn", physical)
    link(tree.add_function("0000:3b:00.3", {"class": ETHERNET_CLASS}) / "physfn", physical)
    tree.add_function("0000:3b:00.4", {"class": "0x080100"})

    assert list(check(tree.node())) == []


def test_a_port_that_cannot_be_read_is_unknown(tree: SysfsTree) -> None:
    tree.add_nic()
    make_unreadable(tree.add_nic("mlx5_1", SECOND) / "ports/1/state")

    (finding,) = check(tree.node())

    assert finding.level == UNKNOWN
