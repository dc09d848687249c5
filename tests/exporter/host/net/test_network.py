"""What there is on a node as it comes and goes, what is seen of pauses, and what is near."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing

import pytest
from support.network_node import (
    EthtoolKernels,
    add_interface,
    kernel_of,
)
from support.sysfs_tree import ACTIVE, DOWN, SysfsTree, link, write

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.net.ethtool_socket import EthtoolSocket
from rightslice.exporter.host.net.network import FIND_SECONDS, Network
from rightslice.exporter.host.net.network_options import NO_NETWORK
from rightslice.exporter.host.net.topology import Topology

NIC, SECOND, OTHER = "0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0"
PAUSED = [(b"rx_prio3_pause_duration", 5), (b"rx_prio3_pause", 1)]


class Bench:
    """A network whose kernel and cards a test sets."""

    def __init__(
        self, tree: SysfsTree, excluded: tuple[str, ...] = (), *, reads_virtual: bool = False
    ) -> None:
        self.clock, self.kernels = ManualClock(1_000.0), EthtoolKernels()
        self.cards: dict[str, str] = {}
        self.calls = EthtoolSocket(self.kernels.ioctl)
        self.network = Network(
            tree.sysfs,
            self.clock.clock(),
            Ethtool(self.calls, now_seconds=self.clock.now_seconds),
            lambda netdev: None,
            lambda: self.cards,
            Topology("node-a", NO_NETWORK),
            excluded,
            reads_virtual=reads_virtual,
        )

    def look(self, seconds: float = FIND_SECONDS) -> None:
        self.clock.advance(seconds)
        self.network.refresh()

    def close(self) -> None:
        self.calls.close()
        for reader in self.network.rdma:
            reader.close()

    def read(self) -> None:
        """Read all interfaces; what cannot be read is not what is looked for."""
        for reader in self.network.nics:
            if reader.id in self.kernels.by_name:
                reader.read()

    @property
    def devices(self) -> list[str]:
        return [reader.id for reader in self.network.rdma]

    @property
    def interfaces(self) -> list[str]:
        return [reader.id for reader in self.network.nics]

    @property
    def sights(self) -> Mapping[str, str]:
        return {f"{name} {port.number}": each.reason for name, port, each in self.network.sights()}


Start = Callable[..., Bench]


@pytest.fixture
def start(tree: SysfsTree) -> Iterator[Start]:
    """Start a bench of one's own; it ends with the test."""
    with ExitStack() as stack:

        def bench(excluded: tuple[str, ...] = (), *, reads_virtual: bool = False) -> Bench:
            return stack.enter_context(closing(Bench(tree, excluded, reads_virtual=reads_virtual)))

        yield bench


@pytest.fixture
def bench(start: Start) -> Bench:
    return start()


def test_a_node_without_devices_has_nothing(bench: Bench) -> None:
    bench.look()

    assert (bench.network.rdma, bench.network.nics) == ((), ())
    assert (list(bench.network.sights()), bench.network.nearest()) == ([], ())


def test_what_comes_and_goes_is_seen_in_time_and_what_stays_keeps_its_reader(
    bench: Bench, tree: SysfsTree
) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0")
    bench.look()
    first, nic = bench.network.rdma[0], bench.network.nics[0]

    tree.add_nic("mlx5_1", OTHER, netdev="eth1")
    bench.look(FIND_SECONDS / 2)
    assert bench.devices == ["mlx5_0"]
    bench.look(FIND_SECONDS / 2)
    assert bench.devices == ["mlx5_0", "mlx5_1"]
    assert (bench.network.rdma[0], bench.network.nics[0]) == (first, nic)

    (tree.sysfs / "class/infiniband/mlx5_1").unlink()
    (tree.sysfs / "class/net/eth1").unlink()
    bench.look()
    assert (bench.devices, [each.id for each in bench.network.nics]) == (["mlx5_0"], ["eth0"])


def test_a_device_whose_interface_moves_away_keeps_its_reader(
    bench: Bench, tree: SysfsTree
) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0")
    bench.look()
    (reader,) = bench.network.rdma
    list(reader.read())

    interface = tree.sysfs / "class/net/eth0"
    hidden = interface.resolve()
    interface.unlink()
    hidden.rename(hidden.with_name("hidden"))
    bench.look()

    assert bench.network.rdma == (reader,)
    assert [port.netdevs for port in reader.device.ports] == [("hidden",)] or [
        port.netdevs for port in reader.device.ports
    ] == [()]


def test_another_device_of_the_same_name_has_a_reader_of_its_own(
    bench: Bench, tree: SysfsTree
) -> None:
    tree.add_nic("mlx5_0", NIC)
    bench.look()
    before = bench.network.rdma

    (tree.sysfs / "class/infiniband/mlx5_0").unlink()
    tree.add_nic("mlx5_0", OTHER)
    bench.look()

    assert bench.devices == ["mlx5_0"]
    assert bench.network.rdma != before


def test_a_device_that_was_gone_for_a_while_counts_a_reset(bench: Bench, tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_0", NIC)
    write(folder / "ports/1/hw_counters", {"out_of_buffer": "5"})
    bench.look()
    growth = [reading.reset_growth for reading in bench.network.rdma[0].read()]
    entry = tree.sysfs / "class/infiniband/mlx5_0"
    entry.unlink()
    bench.look()
    link(entry, folder)
    bench.look()

    growth += [reading.reset_growth for reading in bench.network.rdma[0].read()]

    assert growth == [0, 1]


def test_representors_and_interfaces_whose_drivers_are_not_known_are_not_read(
    bench: Bench, tree: SysfsTree
) -> None:
    add_interface(tree, "eth0", "mlx5_core", NIC)
    add_interface(tree, "eth0_0", "mlx5_core", "0000:3b:00.1", {"phys_port_name": "pf0vf0"})
    add_interface(tree, "eth1", "virtio_net", "0000:00:05.0")
    add_interface(tree, "eth2", "efa", "0000:00:06.0")
    bench.look()

    assert [reader.id for reader in bench.network.nics] == ["eth0"]


def test_what_is_seen_of_pauses_is_said_when_it_was_read(bench: Bench, tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0")
    tree.add_nic("mlx5_1", OTHER)
    bench.kernels.by_name["eth0"] = kernel_of(PAUSED, bus=NIC)
    bench.look()
    assert bench.sights == {}

    bench.read()

    assert bench.sights == {"mlx5_0 1": "time"}


@pytest.mark.parametrize(
    ("driver", "files", "reason"),
    [
        pytest.param("virtio_net", {}, "driver", id="nothing known"),
        pytest.param("mana", {}, "virtual_function", id="virtual by design"),
        pytest.param("iavf", {}, "virtual_function", id="a driver of virtual functions"),
    ],
)
def test_an_interface_whose_driver_counts_no_pauses_hides_them(
    bench: Bench, tree: SysfsTree, driver: str, files: dict[str, str], reason: str
) -> None:
    """Nobody reads it, and that is known at once."""
    tree.add_nic("dev0", NIC, files, netdev="eth0", driver=driver)
    bench.look()

    assert bench.sights == {"dev0 1": reason}


def test_what_a_guests_virtual_function_does_not_show_it_hides_because_it_is_one(
    bench: Bench, tree: SysfsTree
) -> None:
    """There it is all there is to see, and nothing says of what it is a part."""
    tree.add_nic("mlx5_0", NIC, {"device": "0x101e"}, netdev="eth0")
    bench.kernels.by_name["eth0"] = kernel_of([(b"rx_vport_unicast_bytes", 1)], bus=NIC)
    bench.look()
    bench.read()

    assert (bench.devices, bench.interfaces) == (["mlx5_0"], ["eth0"])
    assert bench.sights == {"mlx5_0 1": "virtual_function"}


def test_a_bond_is_seen_as_its_worst_member(bench: Bench, tree: SysfsTree) -> None:
    folder = tree.add_nic("mlx5_bond_0", NIC, netdev="eth0")
    add_interface(tree, "eth1", "mlx5_core", SECOND)
    tree.add_bond("bond0", ["eth0", "eth1"])
    write(folder / "ports/1/gid_attrs/ndevs", {"0": "bond0"})
    bench.kernels.by_name = {
        "eth0": kernel_of(PAUSED, bus=NIC),
        "eth1": kernel_of([(b"rx_bytes_phy", 1)], bus=SECOND),
    }
    bench.look()
    bench.read()

    assert bench.sights == {"mlx5_bond_0 1": "driver"}


def test_efa_and_hidden_interfaces_say_so(bench: Bench, tree: SysfsTree) -> None:
    tree.add_nic("rdmap0s31", NIC, driver="efa", link_layer="Unspecified")
    tree.add_nic("mlx5_0", OTHER, link_layer="Ethernet")
    bench.look()

    assert bench.sights == {"mlx5_0 1": "network_namespace", "rdmap0s31 1": "no_netdev"}


def test_each_card_has_its_nearest_devices(bench: Bench, tree: SysfsTree) -> None:
    way = ("pci0000:3a", "0000:3a:00.0", "0000:d0:00.0", "0000:e0:00.0")
    tree.add_card("0000:3c:00.0", way=way)
    tree.add_nic("mlx5_0", NIC, way=(*way[:-1], "0000:e0:01.0"))
    tree.add_nic("mlx5_1", OTHER, way=("pci0000:3a", "0000:3a:05.0"))
    folder = tree.add_nic("mlx5_2", "0000:3b:00.2", way=way)
    link(folder / "device/physfn", tree.sysfs / "bus/pci/devices" / NIC)
    bench.cards = {"GPU-1": "0000:3c:00.0", "GPU-2": "0000:ff:00.0"}
    bench.look()

    assert bench.network.nearest() == (("GPU-1", "mlx5_0", "pix"),)


def test_of_near_devices_those_with_an_active_port_count(bench: Bench, tree: SysfsTree) -> None:
    way = ("pci0000:3a", "0000:3a:00.0", "0000:d0:00.0", "0000:e0:00.0")
    tree.add_card("0000:3c:00.0", way=way)
    port = tree.add_nic("mlx5_0", NIC, way=(*way[:-1], "0000:e0:01.0"), state=DOWN) / "ports/1"
    tree.add_nic("mlx5_1", OTHER, way=("pci0000:3a", "0000:3a:05.0"))
    bench.cards = {"GPU-1": "0000:3c:00.0"}
    bench.look()
    seen = [bench.network.nearest()]

    for state in (DOWN, ACTIVE):
        write(port, {"state": state})
        for reader in bench.network.rdma:
            list(reader.read())
        seen.append(bench.network.nearest())

    near = (("GPU-1", "mlx5_0", "pix"),)
    assert seen == [near, (("GPU-1", "mlx5_1", "phb"),), near]


def test_what_is_near_is_found_again_when_cards_or_devices_change(
    bench: Bench, tree: SysfsTree
) -> None:
    tree.add_card("0000:3c:00.0", way=("pci0000:3a",))
    bench.look()
    assert bench.network.nearest() == ()

    bench.cards = {"GPU-1": "0000:3c:00.0"}
    tree.add_nic("mlx5_0", NIC)
    bench.look()

    assert bench.network.nearest() == (("GPU-1", "mlx5_0", "phb"),)
