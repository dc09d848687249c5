"""The reader beside the `ethtool` program, on virtual interfaces of this machine's kernel."""

import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from support.network_namespace import NetworkNamespace, namespace_with_pair

from rightslice.exporter.host.net.ethtool import Ethtool
from rightslice.exporter.host.reading_error import ReadingError

pytestmark = pytest.mark.integration

needs_program = pytest.mark.skipif(
    shutil.which("ethtool") is None, reason="the program ethtool is not installed"
)
QUEUE_COUNT = 8
RECEIVED = re.compile(r"rx_queue_\d+_xdp_packets")
TIMEOUT_SECONDS = 10.0
FRAME_COUNT = 25
FRAME = b"\xff" * 12 + b"\x88\xb5" + bytes(46)  # to all, of a type for experiments


@pytest.fixture
def namespace() -> Iterator[NetworkNamespace]:
    with namespace_with_pair("left", "right", QUEUE_COUNT) as namespace:
        yield namespace


@pytest.fixture
def ethtool(namespace: NetworkNamespace) -> Iterator[Ethtool]:
    ethtool = Ethtool()
    with namespace.entered():
        ethtool.driver("left")  # the socket is of this namespace from now on
    yield ethtool
    ethtool.close()


def printed(namespace: NetworkNamespace, flag: str, netdev: str) -> list[tuple[str, str]]:
    """Give the names and values that the program prints, in their order."""
    lines = namespace.run("ethtool", flag, netdev).splitlines()
    return [
        (name.strip(), value.strip())
        for name, colon, value in (line.rpartition(":") for line in lines)
        if colon and value
    ]


def read(ethtool: Ethtool, netdev: str) -> list[tuple[str, str]]:
    statistics = ethtool.statistics(netdev)
    return list(zip(statistics.names, map(str, statistics.values), strict=True))


def send_frames(namespace: NetworkNamespace, netdev: str) -> None:
    with namespace.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((netdev, 0))
        for _ in range(FRAME_COUNT):
            sender.send(FRAME)


def received_packet_count(ethtool: Ethtool, netdev: str) -> int:
    return sum(int(value) for name, value in read(ethtool, netdev) if RECEIVED.fullmatch(name))


def wait_until(holds: Callable[[], bool]) -> None:
    until_seconds = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < until_seconds
        time.sleep(0.01)


@needs_program
def test_names_and_values_are_those_that_the_program_prints(
    namespace: NetworkNamespace, ethtool: Ethtool
) -> None:
    # A queue counts nothing without these.
    namespace.run("ethtool", "-K", "right", "gro", "on", "rx-udp-gro-forwarding", "on")
    send_frames(namespace, "left")
    wait_until(lambda: received_packet_count(ethtool, "right") == FRAME_COUNT)
    reading = read(ethtool, "right")
    assert reading == printed(namespace, "-S", "right")
    assert ethtool.names("right") == tuple(name for name, _ in reading)


@needs_program
def test_a_real_set_that_shrinks_and_grows_is_followed(
    namespace: NetworkNamespace, ethtool: Ethtool
) -> None:
    counts = []
    for channels in ("8", "1", "5"):
        namespace.run("ethtool", "-L", "left", "rx", channels, "tx", channels)
        reading = read(ethtool, "left")
        assert reading == printed(namespace, "-S", "left")
        counts.append(len(reading))
    assert counts[1] < counts[2] < counts[0]


@needs_program
def test_the_driver_is_the_one_that_the_program_prints(
    namespace: NetworkNamespace, ethtool: Ethtool
) -> None:
    driver, program = ethtool.driver("left"), dict(printed(namespace, "-i", "left"))
    assert driver.driver == program["driver"] == "veth"
    assert driver.version == program["version"] != ""


def test_an_interface_with_an_odd_name_is_read(
    namespace: NetworkNamespace, ethtool: Ethtool
) -> None:
    name = "v\udcffé\\'x"  # the first is a byte that is no UTF-8
    namespace.add_pair(name, "peer")
    assert ethtool.driver(name).driver == "veth"
    assert "peer_ifindex" in ethtool.names(name)


def test_an_interface_without_statistics_says_so(ethtool: Ethtool) -> None:
    with pytest.raises(ReadingError) as caught:
        ethtool.statistics("lo")
    assert caught.value.reason == "not_supported"


def test_virtual_interfaces_have_neither_pause_nor_watchdog(ethtool: Ethtool) -> None:
    assert ethtool.link_pause("left") is None
    assert ethtool.pfc_watchdog_milliseconds("left") is None


def test_an_interface_of_another_namespace_is_told_as_such(namespace: NetworkNamespace) -> None:
    with (
        closing(Ethtool()) as outside,
        pytest.raises(ReadingError, match="hostNetwork: true") as caught,
    ):
        outside.statistics("left")
    assert caught.value.reason == "no_such_netdev"


def test_an_interface_that_goes_and_comes_back_is_read_again(
    namespace: NetworkNamespace, ethtool: Ethtool
) -> None:
    many = ethtool.statistics("left").names
    namespace.run("ip", "link", "delete", "left")
    with pytest.raises(ReadingError):
        ethtool.statistics("left")
    namespace.add_pair("left", "right", queue_count=1)
    assert len(ethtool.statistics("left").names) < len(many)


def test_a_closed_reader_opens_again(namespace: NetworkNamespace, ethtool: Ethtool) -> None:
    ethtool.close()
    with namespace.entered():
        assert ethtool.driver("right").driver == "veth"
