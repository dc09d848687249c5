"""Which RDMA devices there are, and which interfaces belong to each port."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.network_node import add_interface
from support.sysfs_tree import SysfsTree, link, make_unreadable, write

from rightslice.exporter.host.net.devices import RdmaDevice, find_rdma_devices
from rightslice.exporter.host.net.netdevs import Netdev, find_netdevs, members_of

NIC = "0000:3b:00.0"


def only(tree: SysfsTree) -> RdmaDevice:
    (device,) = find_rdma_devices(tree.sysfs)
    return device


def netdevs(tree: SysfsTree) -> list[tuple[str, ...]]:
    return [port.netdevs for device in find_rdma_devices(tree.sysfs) for port in device.ports]


def give_addresses(folder: Path, names: Sequence[str], port: int = 1) -> None:
    """Let the slots of a port's addresses name interfaces; an empty one cannot be read."""
    slots = folder / f"ports/{port}/gid_attrs/ndevs"
    slots.mkdir(parents=True)
    for slot, name in enumerate(names):
        if name:
            write(slots, {str(slot): name})
        else:
            make_unreadable(slots / str(slot))


def add_netdev(tree: SysfsTree, name: str, bus_id: str = NIC, **files: str) -> None:
    tree.add_netdev(name, tree.sysfs / "bus/pci/devices" / bus_id, files)


def test_a_node_without_the_class_has_no_devices(tree: SysfsTree) -> None:
    assert find_rdma_devices(tree.sysfs) == ()
    assert find_netdevs(tree.sysfs) == ()


def test_a_device_says_what_it_is(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    write(folder, {"fw_ver": "28.41.1000", "hca_type": "MT4129"})

    device = only(tree)

    assert (device.name, device.driver, device.pci_bus_id) == ("mlx5_0", "mlx5_core", NIC)
    assert (device.firmware, device.model, device.is_virtual) == ("28.41.1000", "MT4129", False)
    (port,) = device.ports
    assert (port.number, port.link_layer, port.protocol) == (1, "Ethernet", "roce")
    assert port.netdevs == ("eth0",)


def test_what_cannot_be_read_is_empty(tree: SysfsTree) -> None:
    (tree.sysfs / "class/infiniband/odd").mkdir(parents=True)

    assert only(tree) == RdmaDevice("odd", "", "", False, "", "", ())


@pytest.mark.parametrize(
    ("node_type", "link_layer", "driver", "protocol"),
    [
        ("1: CA", "InfiniBand", "mlx5_core", "infiniband"),
        ("1: CA", "Ethernet", "mlx5_core", "roce"),
        ("4: RNIC", "Ethernet", "i40e", "iwarp"),
        ("7: <unknown>", "Unspecified", "efa", "efa"),
        ("1: CA", "Unspecified", "mlx5_core", ""),
    ],
)
def test_the_protocol_is_of_node_and_link(
    tree: SysfsTree, node_type: str, link_layer: str, driver: str, protocol: str
) -> None:
    folder = tree.add_nic("dev0", NIC, driver=driver, link_layer=link_layer)
    write(folder, {"node_type": node_type})

    assert only(tree).ports[0].protocol == protocol


def test_efa_has_no_interface(tree: SysfsTree) -> None:
    tree.add_nic("rdmap0s31", NIC, driver="efa", link_layer="Unspecified")

    assert netdevs(tree) == [()]


def test_of_an_excluded_device_no_file_is_read(
    tree: SysfsTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read of a limited function lets the kernel log errors."""
    tree.add_nic("mlx5_0", "0000:01:00.0")
    tree.add_nic("mlx5_nvl0", "0000:02:00.0")
    touched: list[str] = []
    for module in ("devices", "port_netdevs", "pci_function"):
        name = f"rightslice.exporter.host.net.{module}.read_text"
        monkeypatch.setattr(name, lambda path: touched.append(str(path)))

    found = find_rdma_devices(tree.sysfs, ("mlx5_nvl*",))

    assert [device.name for device in found] == ["mlx5_0"]
    assert touched
    assert not any("mlx5_nvl0" in path for path in touched)


def test_a_virtual_function_is_one(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_2", NIC, netdev="eth0v2")
    link(folder / "device/physfn", tree.add_function("0000:3b:00.1"))

    assert only(tree).is_virtual
    assert [netdev.is_virtual for netdev in find_netdevs(tree.sysfs)] == [True]


def test_a_subfunction_is_no_physical_function_and_has_its_modules_counters(
    tree: SysfsTree,
) -> None:
    """Its device is no PCI function but one of the auxiliary bus, below it."""
    tree.add_nic("mlx5_4", "mlx5_core.sf.4", netdev="eth0s88", driver="mlx5_core.sf")

    assert only(tree).is_virtual
    assert find_netdevs(tree.sysfs)[0].is_virtual


def test_two_ports_of_one_function_have_their_own_interfaces(tree: SysfsTree) -> None:
    tree.add_nic("mlx4_0", NIC, ports=2, link_layer="Ethernet", driver="mlx4_core")
    add_netdev(tree, "eth1", dev_port="1")
    add_netdev(tree, "eth0", dev_port="0")

    assert netdevs(tree) == [("eth0",), ("eth1",)]


def test_an_old_kernel_numbers_interfaces_otherwise(tree: SysfsTree) -> None:
    tree.add_nic("mlx4_0", NIC, ports=2, driver="mlx4_core")
    add_netdev(tree, "ib0", dev_port="0", dev_id="0x0")
    add_netdev(tree, "ib1", dev_port="0", dev_id="0x1")

    assert netdevs(tree) == [("ib0",), ("ib1",)]


def test_addresses_name_interfaces_and_empty_slots_none(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    give_addresses(folder, ["eth0", "", "eth0", "", "eth0"])

    assert netdevs(tree) == [("eth0",)]


def test_an_address_of_a_vlan_is_of_the_interface_below(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    vlan = tree.sysfs / "class/net/eth0.100"
    vlan.mkdir()
    link(vlan / "lower_eth0", tree.sysfs / "class/net/eth0")
    write(vlan, {"follower_eth9": ""})
    give_addresses(folder, ["eth0.100"])

    assert netdevs(tree) == [("eth0",)]
    assert members_of(tree.sysfs, "eth0.100") == ("eth0",)


def test_a_bond_is_its_members_also_below_a_vlan(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_bond_0", NIC, netdev="eth0")
    add_interface(tree, "eth1", "mlx5_core", "0000:3b:00.1")
    tree.add_bond("bond0", ["eth0", "eth1"])
    vlan = tree.sysfs / "class/net/bond0.7"
    vlan.mkdir()
    link(vlan / "lower_bond0", tree.sysfs / "class/net/bond0")
    give_addresses(folder, ["bond0", "bond0.7"])

    assert netdevs(tree) == [("eth0", "eth1")]


def test_an_interface_that_another_namespace_hides_is_none(tree: SysfsTree) -> None:
    """The slots of addresses name it all the same, maybe as one of ours is called."""
    folder = tree.add_nic("mlx5_0", NIC, link_layer="Ethernet")
    give_addresses(folder, ["net1"])

    assert netdevs(tree) == [()]


@pytest.mark.parametrize(
    ("port_name", "is_representor"),
    [
        ("p0", False),
        ("p1", False),
        ("", False),
        ("pf0vf3", True),
        ("c1pf0vf3", True),
        ("pf0sf88", True),
        ("pf0", True),
        ("c1pf0", True),
    ],
)
def test_an_interface_that_stands_for_anothers_function_is_not_the_ports(
    tree: SysfsTree, port_name: str, is_representor: bool
) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0")
    add_netdev(tree, "eth0_0", phys_port_name=port_name, dev_port="0")

    assert ("eth0_0" in netdevs(tree)[0]) == (not is_representor)
    found = {netdev.name: netdev.is_representor for netdev in find_netdevs(tree.sysfs)}
    assert found == {"eth0": False, "eth0_0": is_representor}


def test_only_interfaces_with_a_driver_are_hardware(tree: SysfsTree) -> None:
    add_interface(tree, "eth0", "ice", NIC)
    tree.add_bond("bond0", ["eth0"])
    (tree.sysfs / "class/net/lo").mkdir()
    write(tree.sysfs / "class/net", {"bonding_masters": "bond0"})

    assert find_netdevs(tree.sysfs) == (Netdev("eth0", "ice", NIC, False, False),)
