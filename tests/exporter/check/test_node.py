"""What counts as a card or a network card of the node."""

from support.sysfs_tree import CARD, NIC, SysfsTree, link, write


def test_cards_are_those_of_the_nodes_own(tree: SysfsTree) -> None:
    own = tree.add_card()
    tree.add_card("0000:3d:00.0", driver="vfio-pci")
    link(tree.add_card("0000:3c:00.4") / "physfn", own)
    tree.add_card("0000:3e:00.0", {"vendor": "0x1002"})
    tree.add_card("0000:3f:00.0", {"class": "0x068000"})
    tree.add_card("0000:40:00.0", driver="")

    assert tree.node().cards == (CARD, "0000:40:00.0")


def test_devices_of_software_and_virtual_functions_are_no_network_cards(tree: SysfsTree) -> None:
    physical = tree.add_nic().parent.parent
    link(tree.add_nic("mlx5_1", "0000:3b:00.2").parent.parent / "physfn", physical)
    write(tree.sysfs / "class/infiniband/rxe0", {"node_type": "1: CA"})

    node = tree.node()

    assert [device.name for device in node.rdma] == ["mlx5_0", "mlx5_1", "rxe0"]
    assert [(device.name, device.pci_bus_id) for device in node.nics] == [("mlx5_0", NIC)]
