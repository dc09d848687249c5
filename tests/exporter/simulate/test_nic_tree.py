"""The files of simulated network cards: in the shape of real ones, and as the reader sees them."""

import os
from pathlib import Path

import pytest
from conftest import shared_folder

from rightslice.exporter.host.net.devices import RdmaDevice, find_rdma_devices
from rightslice.exporter.host.net.distance import distance
from rightslice.exporter.host.net.netdevs import bytes_per_second, find_netdevs
from rightslice.exporter.host.net.port_state import PortState, read_port_state
from rightslice.exporter.simulate.pci_tree import add_function, card_place

from .simulated_network import PlayedNetwork, play_network, play_scenario, scenario_of

CAPTURE = "cases/ib-mlx5-h100-ndr.tree"
CARD_PLACE = "0000:07:00.0"
GIGABYTES_PER_SECOND_400G = 50e9


def only_device(played: PlayedNetwork) -> RdmaDevice:
    (device,) = find_rdma_devices(played.sysfs)
    return device


def names_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_an_infiniband_port_has_the_files_of_a_real_one(tmp_path: Path) -> None:
    shared = shared_folder()
    if shared is None:
        pytest.skip("no captures of real machines: RIGHTSLICE_SHARED is not set")
    lines = (shared / CAPTURE).read_text(encoding="utf-8").splitlines()
    root = "/sys/class/infiniband/mlx5_0/"
    real = {line.partition("\t")[0].removeprefix(root) for line in lines if line}

    device = play_network(tmp_path, "nics: [{link_layer: infiniband}]").port().parents[1]

    assert real - names_below(device) == set()
    more = {name.rpartition("/")[2] for name in names_below(device) - real}
    # What that kernel was too old for, and what the capture leaves out.
    assert more <= {
        "node_type",
        "0",
        "1",
        "port_rcv_switch_relay_errors",
        "resp_cqe_flush_error",
        "req_transport_retries_exceeded",
        "req_rnr_retries_exceeded",
    }


def test_a_roce_device_is_found_with_its_interface_and_its_place(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}]")

    device = only_device(played)

    assert (device.name, device.driver, device.pci_bus_id) == (
        "mlx5_0",
        "mlx5_core",
        "0000:40:00.0",
    )
    assert (device.firmware, device.model, device.is_virtual) == ("28.43.1014", "MT4129", False)
    (port,) = device.ports
    assert (port.link_layer, port.protocol, port.netdevs) == ("Ethernet", "roce", ("eth0",))
    assert read_port_state(played.port()) == PortState(4, 5, GIGABYTES_PER_SECOND_400G)
    assert bytes_per_second(played.sysfs, "eth0") == GIGABYTES_PER_SECOND_400G


def test_class_and_bus_lead_to_one_folder(tmp_path: Path) -> None:
    sysfs = play_network(tmp_path, "nics: [{}]").sysfs

    function = (sysfs / "bus/pci/devices/0000:40:00.0").resolve()

    assert function.is_relative_to(sysfs / "devices/pci0000:00")
    assert (sysfs / "class/infiniband/mlx5_0/device").resolve() == function
    assert (sysfs / "class/net/eth0/device").resolve() == function
    assert (sysfs / "class/infiniband_verbs/uverbs0/device").resolve() == function
    bridges = function.relative_to(sysfs / "devices/pci0000:00").parts[:-1]
    on_bus = {each.name for each in (sysfs / "bus/pci/devices").iterdir()}
    assert len(bridges) == 3
    assert set(bridges) <= on_bus


def test_a_port_that_is_down_shows_a_rate_that_is_none(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{link: down}]")

    assert read_port_state(played.port()) == PortState(1, 3, None)
    assert (played.port() / "rate").read_text() == "40 Gb/sec (4X QDR)\n"
    assert bytes_per_second(played.sysfs, "eth0") is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param("rate_gigabits: 400", "400 Gb/sec (4X NDR)", id="NDR"),
        pytest.param("rate_gigabits: 200, lanes: 2", "200 Gb/sec (2X NDR)", id="half of its lanes"),
        pytest.param("rate_gigabits: 100", "100 Gb/sec (4X EDR)", id="EDR"),
        pytest.param("rate_gigabits: 2.5, lanes: 1", "2.5 Gb/sec (1X SDR)", id="SDR"),
    ],
)
def test_rates_are_spelt_as_the_kernel_does(settings: str, text: str, tmp_path: Path) -> None:
    played = play_network(tmp_path, f"nics: [{{link_layer: infiniband, {settings}}}]")

    assert (played.port() / "rate").read_text() == f"{text}\n"


def test_a_virtual_function_belongs_to_its_physical_one(tmp_path: Path) -> None:
    text = 'nics: [{}, {virtual_function_of: 0, pci_bus_id: "0000:40:00.2"}]'
    sysfs = play_network(tmp_path, text).sysfs

    assert [device.is_virtual for device in find_rdma_devices(sysfs)] == [False, True]
    assert [netdev.is_virtual for netdev in find_netdevs(sysfs)] == [False, True]
    physical = sysfs / "bus/pci/devices/0000:40:00.0"
    assert (physical / "sriov_numvfs").read_text() == "1\n"
    assert (physical / "virtfn0").resolve().name == "0000:40:00.2"
    assert distance(sysfs, "0000:40:00.0", "0000:40:00.2") == "pix"


def test_a_bond_has_one_device_for_its_members_whose_counters_it_adds(tmp_path: Path) -> None:
    played = play_network(
        tmp_path,
        """
nics:
  - {name: mlx5_bond_0, bond: bond0, pci_bus_id: "0000:40:00.0", rdma_rx_bytes_per_second: 4000}
  - {bond: bond0, pci_bus_id: "0000:40:00.1", rdma_rx_bytes_per_second: 8000}
""",
    )

    played.after(10)

    device = only_device(played)
    assert (device.name, device.ports[0].netdevs) == ("mlx5_bond_0", ("eth0", "eth1"))
    assert played.counter("counters/port_rcv_data", "mlx5_bond_0") == 30_000
    assert (played.port("mlx5_bond_0") / "gid_attrs/ndevs/0").read_text() == "bond0\n"
    assert [netdev.name for netdev in find_netdevs(played.sysfs)] == ["eth0", "eth1"]


def test_in_switchdev_mode_names_change_and_others_are_stood_for(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{representors: 2}]")

    hardware = {each.name for each in (played.port() / "hw_counters").iterdir()}
    assert "vport_out_of_sequence" in hardware
    assert "out_of_sequence" not in hardware
    assert (played.port().parents[1] / "hw_counters/np_cnp_sent").exists()
    assert [(each.name, each.is_representor) for each in find_netdevs(played.sysfs)] == [
        ("eth0", False),
        ("eth0_0", True),
        ("eth0_1", True),
    ]
    assert only_device(played).ports[0].netdevs == ("eth0",)


@pytest.mark.parametrize(
    ("driver", "device", "has_port_folder"),
    [("mlx5", "mlx5_0", True), ("bnxt", "bnxt_re0", False), ("ice", "irdma0", False)],
)
def test_only_some_drivers_have_standard_counters(
    driver: str, device: str, has_port_folder: bool, tmp_path: Path
) -> None:
    port = play_network(tmp_path, f"nics: [{{driver: {driver}}}]").port(device)

    assert (port / "counters").exists() == has_port_folder
    assert (port / "hw_counters").is_dir()


@pytest.mark.parametrize("word", ["pix", "pxb", "phb", "node", "sys"])
def test_a_network_card_is_as_far_from_its_card_as_the_file_says(word: str, tmp_path: Path) -> None:
    played = play_network(tmp_path, f"nics: [{{distance: {word}}}]")
    add_function(played.sysfs, card_place(CARD_PLACE, 0), {})

    assert distance(played.sysfs, CARD_PLACE, "0000:40:00.0") == word


def test_each_network_card_shares_a_switch_with_the_card_at_its_position(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}, {}]", card_count=2)
    for position in range(2):
        add_function(played.sysfs, card_place(f"0000:{7 + position:02x}:00.0", position), {})

    assert [
        distance(played.sysfs, f"0000:{7 + card:02x}:00.0", f"0000:{0x40 + nic:02x}:00.0")
        for card in range(2)
        for nic in range(2)
    ] == ["pix", "phb", "phb", "pix"]


def test_ports_of_one_card_have_one_way(tmp_path: Path) -> None:
    text = 'nics: [{}, {pci_bus_id: "0000:40:00.1", distance: sys}]'
    sysfs = play_network(tmp_path, text).sysfs

    ports = [(sysfs / f"bus/pci/devices/0000:40:00.{port}").resolve() for port in range(2)]

    assert ports[0].parent == ports[1].parent


def test_a_link_to_the_host_that_came_up_narrow_can_be_seen(tmp_path: Path) -> None:
    sysfs = play_network(tmp_path, "nics: [{pcie: {width: 8, generation: 3}}]").sysfs

    function = sysfs / "bus/pci/devices/0000:40:00.0"
    names = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")
    assert [(function / name).read_text() for name in names] == [
        "8\n",
        "16\n",
        "8.0 GT/s PCIe\n",
        "32.0 GT/s PCIe\n",
    ]


def test_files_are_written_in_place_and_only_if_their_text_changed(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{rdma_rx_bytes_per_second: 4000}]")
    moving, still = (played.port() / "counters" / name for name in ("port_rcv_data", "link_downed"))
    with open(moving, "rb", buffering=0) as file:
        before, since = os.fstat(file.fileno()).st_ino, still.stat().st_mtime_ns

        played.after(1)

        assert os.pread(file.fileno(), 64, 0) == b"1000\n"
    assert moving.stat().st_ino == before
    assert still.stat().st_mtime_ns == since


def test_a_driver_that_is_taken_out_takes_its_files_along(tmp_path: Path) -> None:
    text = """
nics: [{rdma_rx_bytes_per_second: 4000}]
events: [{at_seconds: 10, nic: 0, present: false}, {at_seconds: 15, nic: 0, present: true}]
"""
    played = play_network(tmp_path, text)
    with open(played.port() / "counters/port_rcv_data", "rb", buffering=0) as file:
        played.after(12)

        assert os.pread(file.fileno(), 64, 0) == b""
    assert find_rdma_devices(played.sysfs) == ()
    assert find_netdevs(played.sysfs) == ()
    assert (played.sysfs / "bus/pci/devices/0000:40:00.0").exists()

    played.after(4)

    assert only_device(played).ports[0].netdevs == ("eth0",)
    assert played.counter("counters/port_rcv_data") == 1000


def test_where_ports_hang_is_written_for_the_operator_s_file(tmp_path: Path) -> None:
    told = scenario_of(tmp_path, "nics: [{rail: '1', switch: 'leaf-{node}'}, {}]")

    network = play_scenario(tmp_path, told).network

    assert network.options.topology_file is not None
    assert network.options.topology_file.read_text() == (
        '[[port]]\ndevice = "mlx5_0"\nrail = "1"\nswitch = "leaf-1"\n'
    )


def test_nobody_tells_where_ports_hang_of_which_nothing_is_said(tmp_path: Path) -> None:
    assert play_network(tmp_path, "nics: [{}]").network.options.topology_file is None
