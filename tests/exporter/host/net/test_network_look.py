"""What is looked at on a node, how often, and what is left alone."""

import os
from pathlib import Path

import pytest
from support.open_files import no_file_more
from support.sysfs_tree import SysfsTree, link, write

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.devices import (
    READ_AGAIN_SECONDS,
    excluded_functions,
    find_rdma_devices,
)
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.netdevs import NetdevFinder, find_netdevs
from rightslice.exporter.host.net.network import FIND_SECONDS, Network
from rightslice.exporter.host.net.network_calls import NetworkCalls
from rightslice.exporter.host.net.network_options import NO_NETWORK
from rightslice.exporter.host.net.topology import Topology
from rightslice.exporter.host.reading_error import ReadingError

PHYSICAL, SECOND, OTHER, PART = "0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0", "0000:3b:00.2"


class Bench:
    """A network that looks when a test says so."""

    def __init__(
        self, tree: SysfsTree, excluded: tuple[str, ...] = (), *, reads_virtual: bool = False
    ) -> None:
        self.clock = ManualClock(1_000.0)
        self.network = Network(
            tree.sysfs,
            self.clock.clock(),
            Ethtool(NetworkCalls().ethtool),
            lambda netdev: None,
            dict,
            Topology("node-a", NO_NETWORK),
            excluded,
            reads_virtual=reads_virtual,
        )

    def look(self, seconds: float = FIND_SECONDS) -> None:
        self.clock.advance(seconds)
        self.network.refresh()

    @property
    def found(self) -> tuple[list[str], list[str]]:
        network = self.network
        return [each.id for each in network.rdma], [each.id for each in network.nics]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the files that are opened below sysfs, from now on."""
    paths: list[str] = []
    real_open = os.open

    def noted(path: Path | str, flags: int) -> int:
        paths.append(str(path))
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", noted)
    return paths


def add_parts(tree: SysfsTree) -> None:
    """Add a physical function, a virtual one and a subfunction of it."""
    tree.add_nic("mlx5_0", PHYSICAL, netdev="eth0")
    part = tree.add_nic("mlx5_1", PART, netdev="eth0v0")
    link(part / "device/physfn", tree.sysfs / "bus/pci/devices" / PHYSICAL)
    tree.add_nic("mlx5_2", "mlx5_core.sf.4", netdev="eth0s4", driver="mlx5_core.sf")


def test_parts_of_functions_on_this_node_are_not_read(tree: SysfsTree, opened: list[str]) -> None:
    add_parts(tree)
    bench = Bench(tree)
    for _ in range(8):
        bench.look()

    assert bench.found == (["mlx5_0"], ["eth0"])
    assert opened
    assert not any("mlx5_1" in path or "mlx5_2" in path for path in opened)


def test_parts_of_functions_are_read_where_that_is_wanted(tree: SysfsTree) -> None:
    add_parts(tree)
    bench = Bench(tree, reads_virtual=True)
    bench.look()

    assert bench.found == (["mlx5_0", "mlx5_1", "mlx5_2"], ["eth0", "eth0s4", "eth0v0"])


def test_a_part_that_becomes_a_whole_device_of_the_same_name_is_read(tree: SysfsTree) -> None:
    add_parts(tree)
    bench = Bench(tree)
    bench.look()

    (tree.sysfs / "class/infiniband/mlx5_1").unlink()
    tree.add_nic("mlx5_1", OTHER, netdev="eth1")
    bench.look()

    assert bench.found == (["mlx5_0", "mlx5_1"], ["eth0", "eth1"])


def test_the_interface_of_an_excluded_device_is_not_read_either(tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", PHYSICAL, netdev="eth0")
    folder = tree.add_nic("mlx5_1", SECOND)
    tree.add_netdev("ib1", folder / "device")
    bench = Bench(tree, excluded=("mlx5_1",))
    bench.look()

    assert bench.found == (["mlx5_0"], ["eth0"])
    assert excluded_functions(tree.sysfs, ("mlx5_1", "hfi*")) == {SECOND}
    assert excluded_functions(tree.sysfs, ()) == excluded_functions(tree.sysfs, ("hfi*",)) == set()


def test_a_device_without_a_place_has_no_function_to_leave_out(tree: SysfsTree) -> None:
    (tree.sysfs / "class/infiniband/odd").mkdir(parents=True)
    link(tree.sysfs / "class/infiniband/rxe0", Path("../../devices/virtual/rdma/rxe0"))

    assert excluded_functions(tree.sysfs, ("*",)) == set()


def test_interfaces_for_other_partitions_are_not_read(tree: SysfsTree) -> None:
    function = tree.add_nic("mlx5_0", PHYSICAL) / "device"
    tree.add_netdev("ib0", function.resolve())
    tree.add_netdev("ib0.8001", function.resolve())
    bench = Bench(tree)
    bench.look()

    assert bench.found == (["mlx5_0"], ["ib0"])


def add_representors(tree: SysfsTree, count: int) -> None:
    function = tree.sysfs / "bus/pci/devices" / PHYSICAL
    for number in range(count):
        tree.add_netdev(f"rep{number}", function, {"phys_port_name": f"pf0vf{number}"})


def test_what_is_known_is_read_again_from_time_to_time_only(
    tree: SysfsTree, opened: list[str]
) -> None:
    """And of an interface never: the kernel takes the lock of its settings for each reading."""
    folder = tree.add_nic("mlx5_0", PHYSICAL, netdev="eth0")
    add_representors(tree, 5)
    bench = Bench(tree)
    counts: list[tuple[int, int]] = []
    for _ in range(int(READ_AGAIN_SECONDS / FIND_SECONDS) + 3):
        opened.clear()
        bench.look()
        names = [path.rpartition("/")[2] for path in opened]
        counts.append((names.count("phys_port_name"), names.count("fw_ver")))

    # What is new is read at the next look once more; it may have been half made.
    assert counts == [(6, 1), (6, 1), *[(0, 0)] * 4, (0, 1), (0, 0), (0, 0)]
    write(folder, {"fw_ver": "28.43.1014"})
    bench.look(READ_AGAIN_SECONDS)
    assert bench.network.rdma[0].device.firmware == "28.43.1014"


def test_an_interface_that_comes_to_a_known_device_is_seen_at_the_next_look(
    tree: SysfsTree,
) -> None:
    tree.add_nic("mlx5_0", PHYSICAL, link_layer="Ethernet")
    bench = Bench(tree)
    bench.look()
    bench.look()

    tree.add_netdev("eth0", tree.sysfs / "bus/pci/devices" / PHYSICAL)
    bench.look()

    assert [port.netdevs for port in bench.network.rdma[0].device.ports] == [("eth0",)]


def test_what_was_half_made_at_the_first_look_is_right_at_the_second(tree: SysfsTree) -> None:
    finder = NetdevFinder(tree.sysfs)
    function = tree.add_function(PHYSICAL, driver="mlx5_core")
    tree.add_netdev("rep0", function)
    assert [netdev.is_representor for netdev in finder.find()] == [False]

    write(function / "net/rep0", {"phys_port_name": "pf0vf0"})

    assert [netdev.is_representor for netdev in finder.find()] == [True]


def test_addresses_that_a_new_device_has_a_little_later_are_seen(tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_bond_0", PHYSICAL, netdev="eth0")
    tree.add_netdev("eth1", tree.add_function(SECOND, driver="mlx5_core"))
    tree.add_bond("bond0", ["eth0", "eth1"])
    bench = Bench(tree)
    bench.look()

    write(folder / "ports/1/gid_attrs/ndevs", {"0": "bond0"})
    bench.look()

    assert [port.netdevs for port in bench.network.rdma[0].device.ports] == [("eth0", "eth1")]


def test_interfaces_without_hardware_are_not_touched(tree: SysfsTree, opened: list[str]) -> None:
    for number in range(3):
        place = f"devices/virtual/net/veth{number}"
        write(tree.sysfs / place, {"operstate": "up"})
        link(tree.sysfs / f"class/net/veth{number}", Path("../..") / place)

    assert find_netdevs(tree.sysfs) == ()
    assert opened == []


@pytest.mark.parametrize("seconds", [FIND_SECONDS, READ_AGAIN_SECONDS])
def test_a_look_without_a_descriptor_fails_and_what_was_known_stays(
    tree: SysfsTree, seconds: float
) -> None:
    """Else twenty ports too many let all devices vanish, and return as if loaded anew."""
    tree.add_nic("mlx5_0", PHYSICAL, netdev="eth0")
    bench = Bench(tree)
    bench.look()
    before = (bench.network.rdma, bench.network.nics)

    with no_file_more():
        for _ in range(2):  # in the round after as well, not only when a look is due
            with pytest.raises(ReadingError) as raised:
                bench.look(seconds)
            seconds = 1.0
            assert raised.value.reason == "too_many_open_files"
            assert (bench.network.rdma, bench.network.nics) == before
    tree.add_nic("mlx5_1", OTHER, netdev="eth1")
    bench.look(1.0)

    assert bench.found == (["mlx5_0", "mlx5_1"], ["eth0", "eth1"])
    assert bench.network.rdma[0] is before[0][0]


def test_the_check_lists_parts_as_well(tree: SysfsTree) -> None:
    add_parts(tree)

    assert [device.name for device in find_rdma_devices(tree.sysfs)] == [
        "mlx5_0",
        "mlx5_1",
        "mlx5_2",
    ]
