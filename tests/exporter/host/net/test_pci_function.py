"""What a function is said to be: only what is known."""

import pytest
from support.sysfs_tree import MELLANOX, SysfsTree, link

from rightslice.exporter.host.net.devices import find_rdma_devices
from rightslice.exporter.host.net.netdevs import find_netdevs
from rightslice.exporter.host.net.pci_function import are_of_one_card

NIC = "0000:3b:00.0"


@pytest.mark.parametrize(
    ("driver", "files", "function"),
    [
        pytest.param("mlx5_core", {"device": "0x101e"}, "virtual", id="a guest's part"),
        pytest.param("mlx4_core", {"device": "0x1004"}, "virtual", id="an old one"),
        pytest.param("mlx5_core", {"device": "0x1021"}, "physical", id="whole, SR-IOV off"),
        pytest.param("mlx5_core", {}, "", id="no device id"),
        pytest.param("mlx5_core", {"vendor": "0x1af4", "device": "0x101e"}, "", id="imitated"),
        pytest.param("ice", {"sriov_totalvfs": "0"}, "physical", id="with SR-IOV"),
        pytest.param("ice", {"device": "0x101e"}, "", id="ids of another vendor"),
        pytest.param("bnxt_en", {"device": "0x1750"}, "", id="a card or a guest's part"),
        pytest.param("iavf", {}, "virtual", id="a driver of parts"),
        pytest.param("mana", {}, "virtual", id="virtual by design"),
        pytest.param("efa", {}, "", id="of which nothing is known"),
    ],
)
def test_it_is_said_only_where_it_is_known(
    tree: SysfsTree, driver: str, files: dict[str, str], function: str
) -> None:
    usual = {"vendor": MELLANOX if driver.startswith("mlx") else "0x8086"}
    tree.add_nic("dev0", NIC, usual | files, netdev="eth0", driver=driver)

    assert [device.function for device in find_rdma_devices(tree.sysfs)] == [function]
    assert [netdev.function for netdev in find_netdevs(tree.sysfs)] == [function]


def test_a_part_of_a_function_on_this_node_is_virtual_whatever_its_files_say(
    tree: SysfsTree,
) -> None:
    folder = tree.add_nic("mlx5_1", NIC, {"device": "0x1021", "sriov_totalvfs": "8"})
    link(folder / "device/physfn", tree.add_function("0000:3b:00.1"))

    assert [device.function for device in find_rdma_devices(tree.sysfs)] == ["virtual"]


def test_a_device_of_software_is_neither(tree: SysfsTree) -> None:
    (tree.sysfs / "class/infiniband/rxe0").mkdir(parents=True)

    assert [device.function for device in find_rdma_devices(tree.sysfs)] == [""]


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (NIC, True),
        ("0000:3b:00.1", True),
        ("0000:3b:01.0", False),
        ("0001:3b:00.0", False),
        ("", False),
        ("mlx5_core.sf.4", False),
    ],
)
def test_functions_of_one_slot_are_one_card(other: str, is_same: bool) -> None:
    assert are_of_one_card(NIC, other) == is_same
    assert are_of_one_card(other, NIC) == is_same


def test_two_subfunctions_are_not_one_card() -> None:
    assert not are_of_one_card("mlx5_core.sf.4", "mlx5_core.sf.5")
    assert are_of_one_card("mlx5_core.sf.4", "mlx5_core.sf.4")
