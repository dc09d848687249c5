"""What the simulated kernel answers about network cards, as the readers of real ones decode it."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rightslice.exporter.host.net import ethtool_messages as layout
from rightslice.exporter.host.net.dcb import pfc_of
from rightslice.exporter.host.net.ethtool import NO_SUCH_NETDEV, NOT_SUPPORTED
from rightslice.exporter.host.net.ethtool_messages import DriverInfo, LinkPause
from rightslice.exporter.host.net.rdma_netlink import QueuePair, RdmaNetlink
from rightslice.exporter.host.reading_error import ReadingError

from .simulated_network import PlayedNetwork, play_network

BOND = 'nics: [{bond: bond0, pci_bus_id: "0000:40:00.0"}, {bond: bond0}]'
VIRTUAL = 'nics: [{}, {virtual_function_of: 0, pci_bus_id: "0000:40:00.2"}]'
JOB = """
    processes:
      - {pid: 11, memory_mib: 1, workload: train}
      - {pid: 12, memory_mib: 1, workload: train}
workloads: [{name: train, queue_pairs: 2, until_seconds: 60}]
nics: [{}, {link_layer: infiniband, name: mlx5_9}]
"""


def reason_of(read: Callable[[], object]) -> str:
    with pytest.raises(ReadingError) as caught:
        read()
    return str(caught.value.reason)


def errno_of(played: PlayedNetwork, netdev: bytes, request: bytes) -> int | None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 the number is what is looked at
        played.network.ethtool.call(netdev, request)
    return caught.value.errno


def test_a_driver_tells_its_name_firmware_and_place(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{driver: bnxt}]")

    assert played.ethtool.driver("eth0") == DriverInfo(
        "bnxt_en", "6.12.117", "231.0.153.0", "0000:40:00.0"
    )


def test_settings_are_those_of_the_scenario(tmp_path: Path) -> None:
    ethtool = play_network(
        tmp_path, "nics: [{link_pause: true, pfc_watchdog_milliseconds: 0}]"
    ).ethtool

    assert ethtool.link_pause("eth0") == LinkPause(False, True, True)
    assert ethtool.pfc_watchdog_milliseconds("eth0") == 0


def test_what_a_driver_does_not_offer_is_not_told(tmp_path: Path) -> None:
    ethtool = play_network(tmp_path, f"{VIRTUAL[:-1]}, {{driver: ice}}]").ethtool

    assert ethtool.link_pause("eth1") is None
    assert ethtool.pfc_watchdog_milliseconds("eth1") is None
    assert ethtool.pfc_watchdog_milliseconds("eth2") is None


def test_an_interface_that_is_not_there_is_no_such_device(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}]")

    assert reason_of(lambda: played.ethtool.statistics("eth7")) == NO_SUCH_NETDEV


def test_a_bond_has_no_statistics_and_its_members_have(tmp_path: Path) -> None:
    played = play_network(tmp_path, BOND)

    assert reason_of(lambda: played.ethtool.statistics("bond0")) == NOT_SUPPORTED
    assert played.ethtool.driver("bond0").driver == "bonding"
    assert "rx_prio3_pause" in played.statistics("eth1")


def test_who_stands_for_others_has_statistics_of_software_only(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{representors: 1}]")

    assert "vport_rx_packets" in played.statistics("eth0_0")
    assert "rx_bytes_phy" not in played.statistics("eth0_0")


def test_who_asks_for_another_count_gets_nothing(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}]")
    count = len(played.statistics())

    for wrong_count in (count - 1, count + 1):
        names = played.network.ethtool.call(b"eth0", layout.names_request(wrong_count))
        values = played.network.ethtool.call(b"eth0", layout.values_request(wrong_count))
        assert layout.NAMES_HEAD.unpack_from(names)[-1] == 0
        assert layout.VALUES_HEAD.unpack_from(values)[-1] == 0


def test_other_requests_are_not_supported(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}]")
    other_set = layout.NAMES_HEAD.pack(layout.GSTRINGS, 7, 1)

    assert errno_of(played, b"eth0", (0x4C).to_bytes(4, sys.byteorder)) == errno.EOPNOTSUPP
    assert errno_of(played, b"eth0", other_set) == errno.EOPNOTSUPP


def test_a_driver_that_is_taken_out_answers_nobody(tmp_path: Path) -> None:
    played = play_network(
        tmp_path, "nics: [{}]\nevents: [{at_seconds: 10, nic: 0, present: false}]"
    )
    played.after(10)

    assert reason_of(lambda: played.ethtool.statistics("eth0")) == NO_SUCH_NETDEV
    assert RdmaNetlink(played.network.rdma).devices() == []


def test_the_kernel_tells_which_priorities_lose_nothing(tmp_path: Path) -> None:
    pauses = "pauses: {4: {received_ratio: 0.1}}"
    played = play_network(tmp_path, f"nics: [{{pfc_priorities: [3, 4], {pauses}}}]")
    played.after(10)

    pfc = pfc_of(played.network.dcb, "eth0")

    assert pfc is not None
    assert pfc.enabled_priorities == (3, 4)
    assert pfc.received_frame_counts == (0, 0, 0, 0, 50_000, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "netdev"),
    [
        pytest.param("nics: [{link_layer: infiniband}]", "ib0", id="InfiniBand"),
        pytest.param(VIRTUAL, "eth1", id="virtual function"),
        pytest.param(BOND, "bond0", id="bond"),
        pytest.param("nics: [{representors: 1}]", "eth0_0", id="representor"),
    ],
)
def test_the_kernel_tells_no_priorities_of_others(text: str, netdev: str, tmp_path: Path) -> None:
    assert pfc_of(play_network(tmp_path, text).network.dcb, netdev) is None


def test_priorities_of_an_interface_that_is_not_there_are_an_error(tmp_path: Path) -> None:
    played = play_network(tmp_path, "nics: [{}]")

    with pytest.raises(ReadingError, match="no such netdev"):
        pfc_of(played.network.dcb, "eth7")


def test_devices_are_listed_with_their_protocols(tmp_path: Path) -> None:
    devices = RdmaNetlink(play_network(tmp_path, JOB).network.rdma).devices()

    assert devices is not None
    assert [(each.index, each.name, each.protocol) for each in devices] == [
        (0, "mlx5_0", "roce"),
        (1, "mlx5_9", "ib"),
    ]


def test_processes_hold_queue_pairs_as_long_as_they_live(tmp_path: Path) -> None:
    played = play_network(tmp_path, JOB)
    kernel = RdmaNetlink(played.network.rdma)

    queue_pairs = kernel.queue_pairs(1)

    assert queue_pairs is not None
    assert queue_pairs[0] == QueuePair("mlx5_9", 1, 1, "GSI", "RTS", None, "ib_core")
    assert [each.thread_id for each in queue_pairs[1:]] == [11, 11, 12, 12]
    assert kernel.queue_pair_counts() == {"mlx5_0": 5, "mlx5_9": 5}
    assert kernel.namespace_mode() == "shared"

    played.after(60)

    assert kernel.queue_pair_counts() == {"mlx5_0": 1, "mlx5_9": 1}
