"""Which interfaces are a port's: those on its card, not those that are called the same."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.network_node import add_interface
from support.sysfs_tree import SysfsTree, link, write

from rightslice.exporter.host.net.devices import RdmaDevice, find_rdma_devices
from rightslice.exporter.host.net.netdevs import find_netdevs

NIC, SECOND, OTHER = "0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0"
UPLINK, OF_VIRTUAL = "p0", "pf0vf{}"


def only(tree: SysfsTree) -> RdmaDevice:
    (device,) = find_rdma_devices(tree.sysfs)
    return device


def netdevs(tree: SysfsTree) -> list[tuple[str, ...]]:
    return [port.netdevs for port in only(tree).ports]


def give_addresses(folder: Path, names: Sequence[str], port: int = 1) -> None:
    slots = {str(slot): name for slot, name in enumerate(names)}
    write(folder / f"ports/{port}/gid_attrs/ndevs", slots)


def add_beside(tree: SysfsTree, name: str, bus_id: str = NIC, **files: str) -> None:
    tree.add_netdev(name, tree.sysfs / "bus/pci/devices" / bus_id, files)


def test_a_name_that_is_a_containers_own_interface_is_not_the_ports(tree: SysfsTree) -> None:
    """RDMA that all share names the node's interfaces, and here eth0 is one end of a pair."""
    folder = tree.add_nic("mlx5_0", NIC, link_layer="Ethernet")
    write(tree.sysfs / "class/net/eth0", {"operstate": "up"})
    give_addresses(folder, ["eth0"])

    assert netdevs(tree) == [()]


def test_a_name_that_is_another_cards_interface_is_not_the_ports(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, link_layer="Ethernet")
    add_interface(tree, "eth0", "mlx5_core", OTHER)
    give_addresses(folder, ["eth0"])

    assert netdevs(tree) == [()]


def test_where_the_names_are_others_those_of_the_function_are_the_ports(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    write(tree.sysfs / "class/net/net1", {"operstate": "up"})
    give_addresses(folder, ["net1"])

    assert netdevs(tree) == [("eth0",)]


def test_the_second_function_of_the_card_may_carry_the_ports_interface(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, link_layer="Ethernet")
    add_interface(tree, "eth1", "mlx5_core", SECOND)
    give_addresses(folder, ["eth1"])

    assert netdevs(tree) == [("eth1",)]


def test_of_a_bond_over_two_cards_only_the_own_member_is_the_ports(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    add_interface(tree, "eth1", "mlx5_core", OTHER)
    tree.add_bond("bond0", ["eth0", "eth1"])
    give_addresses(folder, ["bond0"])

    assert netdevs(tree) == [("eth0",)]


def test_a_device_that_borrows_the_interface_of_another_function_has_it(tree: SysfsTree) -> None:
    folder = tree.add_nic("erdma_0", NIC, driver="erdma", link_layer="Ethernet")
    add_interface(tree, "eth0", "virtio_net", OTHER)
    give_addresses(folder, ["eth0"])

    assert netdevs(tree) == [("eth0",)]


def test_a_device_of_software_has_what_it_names(tree: SysfsTree) -> None:
    folder = tree.sysfs / "class/infiniband/rxe0"
    write(folder / "ports/1", {"link_layer": "Ethernet"})
    write(tree.sysfs / "class/net/eth0", {"operstate": "up"})
    give_addresses(folder, ["eth0", "gone0"])

    assert netdevs(tree) == [("eth0",)]


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        pytest.param({}, {}, id="by the name"),
        pytest.param(
            {"ifindex": "4", "iflink": "4"}, {"ifindex": "9", "iflink": "4"}, id="by the number"
        ),
    ],
)
def test_an_interface_for_another_partition_is_not_the_ports(
    tree: SysfsTree, parent: dict[str, str], child: dict[str, str]
) -> None:
    tree.add_nic("mlx5_0", NIC)
    add_beside(tree, "ib0", **parent)
    add_beside(tree, "ib0.8001", **child)

    assert netdevs(tree) == [("ib0",)]
    assert [netdev.is_child for netdev in find_netdevs(tree.sysfs)] == [False, True]


def test_an_interface_with_a_dot_is_no_child_where_its_number_says_so(tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", NIC)
    add_beside(tree, "ib0")
    add_beside(tree, "ib0.8001", ifindex="4", iflink="4", dev_port="1")
    add_beside(tree, "ib1.5")

    assert not any(netdev.is_child for netdev in find_netdevs(tree.sysfs))


def add_switch(tree: SysfsTree, port_count: int, *, with_addresses: bool) -> Path:
    """Add a device in switchdev mode: the first port is the wire's, the others of parts."""
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0", ports=port_count)
    write(tree.sysfs / "class/net/eth0", {"phys_port_name": UPLINK})
    for number in range(2, port_count + 1):
        name = f"eth0_{number}"
        add_beside(tree, name, phys_port_name=OF_VIRTUAL.format(number))
        if with_addresses:
            give_addresses(folder, [name], number)
    if with_addresses:
        give_addresses(folder, ["eth0"])
    return folder


@pytest.mark.parametrize("with_addresses", [True, False])
@pytest.mark.parametrize("port_count", [2, 17])
def test_ports_of_functions_behind_the_cards_own_switch_are_left_out(
    tree: SysfsTree, port_count: int, with_addresses: bool
) -> None:
    add_switch(tree, port_count, with_addresses=with_addresses)

    assert [(port.number, port.netdevs) for port in only(tree).ports] == [(1, ("eth0",))]


def test_many_ports_of_which_one_has_an_interface_are_those_of_a_switch(tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0", ports=129)

    assert [port.number for port in only(tree).ports] == [1]


def test_a_port_that_only_others_interfaces_are_beside_stays_where_its_own_is_hidden(
    tree: SysfsTree,
) -> None:
    tree.add_nic("mlx5_0", NIC, link_layer="Ethernet")
    add_beside(tree, "eth0_0", phys_port_name=OF_VIRTUAL.format(0))

    assert netdevs(tree) == [()]


def test_two_ports_of_which_one_has_no_interface_stay(tree: SysfsTree) -> None:
    tree.add_nic("mlx4_0", NIC, ports=2, netdev="eth0", driver="mlx4_core")

    assert netdevs(tree) == [("eth0",), ()]


def test_a_port_of_two_whose_interface_is_a_virtual_functions_is_no_switchs(
    tree: SysfsTree,
) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    link(folder / "device/physfn", tree.add_function(SECOND))

    assert netdevs(tree) == [("eth0",)]
