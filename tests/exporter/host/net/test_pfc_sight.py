"""Whether pauses are seen, and what hides them."""

import pytest

from rightslice.exporter.host.net.devices import RdmaPort
from rightslice.exporter.host.net.netdevs import Netdev
from rightslice.exporter.host.net.pfc_sight import Sight, sight_of, sight_of_error, sight_of_port
from rightslice.exporter.host.reading_error import ReadingError

PHYSICAL = Netdev("eth0", "mlx5_core", "0000:01:00.0", is_virtual=False, is_representor=False)
VIRTUAL = Netdev("eth1", "mlx5_core", "0000:01:00.2", is_virtual=True, is_representor=False)
TIME, FRAMES = Sight(True, "time"), Sight(True, "frames")
BLIND = Sight(False, "virtual_function")
Values = dict[tuple[str, tuple[str, ...]], float]
ROCE = RdmaPort(1, "Ethernet", "roce", ("eth0",))


@pytest.mark.parametrize(
    ("metrics", "word"),
    [
        (["pfc_pause_received_seconds_total", "pfc_pause_frames_received_total"], "time"),
        (["pfc_pause_frames_received_total", "pfc_port_frames_received_total"], "frames"),
        (["pfc_port_frames_received_total"], "port_frames"),
    ],
)
def test_the_best_that_is_seen_is_said(metrics: list[str], word: str) -> None:
    values: Values = {(metric, ("3",)): 0.0 for metric in reversed(metrics)}

    assert sight_of(PHYSICAL, values, {}) == Sight(True, word)


@pytest.mark.parametrize(
    ("netdev", "enabled", "reason"),
    [
        pytest.param(VIRTUAL, {}, "virtual_function", id="virtual function"),
        pytest.param(PHYSICAL, {"3": False}, "pfc_off", id="switched off"),
        pytest.param(PHYSICAL, {"3": True}, "driver", id="on, and nothing is counted"),
        pytest.param(PHYSICAL, {}, "driver", id="not known"),
    ],
)
def test_what_hides_pauses_is_said(netdev: Netdev, enabled: dict[str, bool], reason: str) -> None:
    link_pause: Values = {("pfc_global_pause_frames_received_total", ()): 5.0}

    assert sight_of(netdev, link_pause, enabled) == Sight(False, reason)


@pytest.mark.parametrize(
    ("netdev", "error", "reason"),
    [
        (PHYSICAL, "no_such_netdev", "network_namespace"),
        (VIRTUAL, "no_such_netdev", "network_namespace"),
        (VIRTUAL, "not_supported", "virtual_function"),
        (PHYSICAL, "not_supported", "driver"),
        (PHYSICAL, "no_statistics", "driver"),
        (PHYSICAL, "permission", "unreadable"),
        (PHYSICAL, "changing", "unreadable"),
    ],
)
def test_what_cannot_be_read_says_why(netdev: Netdev, error: str, reason: str) -> None:
    assert sight_of_error(ReadingError(error, "no"), netdev) == Sight(False, reason)


@pytest.mark.parametrize(
    ("sights", "joined"),
    [
        pytest.param([TIME], TIME, id="one"),
        pytest.param([TIME, FRAMES], TIME, id="a bond that is seen"),
        pytest.param([TIME, BLIND], BLIND, id="a bond with one that is not seen"),
        pytest.param([TIME, None], None, id="one not read yet"),
    ],
)
def test_the_worst_interface_counts(sights: list[Sight | None], joined: Sight | None) -> None:
    assert sight_of_port(ROCE, False, sights) == joined


@pytest.mark.parametrize(
    ("port", "is_virtual", "sight"),
    [
        pytest.param(RdmaPort(1, "InfiniBand", "infiniband", ()), False, None, id="InfiniBand"),
        pytest.param(RdmaPort(1, "", "", ()), False, None, id="link layer not known"),
        pytest.param(RdmaPort(1, "", "efa", ()), False, Sight(False, "no_netdev"), id="EFA"),
        pytest.param(
            RdmaPort(1, "Ethernet", "roce", ()), False, Sight(False, "network_namespace"), id="hid"
        ),
        pytest.param(RdmaPort(1, "Ethernet", "roce", ()), True, BLIND, id="virtual function"),
    ],
)
def test_a_port_without_interfaces_says_what_it_is(
    port: RdmaPort, is_virtual: bool, sight: Sight | None
) -> None:
    assert sight_of_port(port, is_virtual, []) == sight
