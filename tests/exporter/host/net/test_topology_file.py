"""The operator's file of places: which entry counts, and a sentence for each mistake."""

from pathlib import Path

import pytest

from rightslice.exporter.host.net.topology_file import (
    UNKNOWN,
    Place,
    Row,
    TopologyError,
    load_topology,
    place_of,
    read_rows,
)

FLEET = b"""
[[port]]
node = "gpu-17"
device = "mlx5_1"
rail = "repaired"

[[port]]
device = "mlx5_0"
rail = 0

[[port]]
device = ["mlx5_1", "mlx5_bond_*"]
rail = 1

[[port]]
node = "gpu-[0-9][0-9]"
netdev = "eth?"
port = [1, 2]
switch = "leaf-1"

[[port]]
switch = "leaf-of-last-resort"
switch_port = 12
"""


def place(node: str, device: str, port: int = 1, netdevs: tuple[str, ...] = ()) -> Place:
    rows = [row for row in read_rows(FLEET, "x") if row.is_of_node(node)]
    return place_of(rows, device, port, netdevs)


def test_each_part_comes_from_the_first_entry_that_tells_it() -> None:
    last = "leaf-of-last-resort"

    assert place("gpu-17", "mlx5_1", netdevs=("eth1",)) == Place("repaired", "leaf-1", "12")
    assert place("gpu-18", "mlx5_1", netdevs=("eth1",)) == Place("1", "leaf-1", "12")
    assert place("gpu-18", "mlx5_0", port=3, netdevs=("eth1",)) == Place("0", last, "12")
    assert place("gpu-180", "mlx5_0", netdevs=("eth1",)) == Place("0", last, "12")
    assert place("gpu-18", "mlx5_2", netdevs=("ib0",)) == Place(None, last, "12")
    assert place("gpu-18", "mlx5_bond_0", netdevs=("b", "eth3")) == Place("1", "leaf-1", "12")


def test_a_node_goes_by_its_name_with_and_without_domain() -> None:
    row = Row(Place("0"), nodes=("gpu-17",))

    assert row.is_of_node("gpu-17")
    assert row.is_of_node("gpu-17.rack.example")
    assert not row.is_of_node("gpu-171")
    assert Row(Place("0"), nodes=("*.rack.example",)).is_of_node("gpu-17.rack.example")
    assert not Row(Place("0"), nodes=("GPU-17",)).is_of_node("gpu-17")


def test_an_entry_about_interfaces_is_not_about_a_port_that_has_none() -> None:
    rows = read_rows(b'[[port]]\nnetdev = "*"\nrail = 1\n', "x")

    assert place_of(rows, "mlx5_0", 1, ()) == UNKNOWN


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(b"[[port]", "x.toml: is no TOML: .*line 1", id="no TOML"),
        pytest.param(b"\xff", "x.toml: is not UTF-8; save it as UTF-8", id="no UTF-8"),
        pytest.param(b"", r"x.toml: has no entry; begin each with \[\[port\]\]", id="empty"),
        pytest.param(b'[[ports]]\nrail = "0"', "unknown key 'ports'; each entry", id="other table"),
        pytest.param(b"[port]\nrail = 0", "begin each entry with", id="one table"),
        pytest.param(b"port = [3]", r"\[\[port\]\] 1: port = '3'", id="no table"),
        pytest.param(
            b"[[port]]\nrail = 0\n[[port]]\nrial = 1",
            r"x.toml: \[\[port\]\] 2: rial = '1': no such key; it has node, netdev",
            id="misspelt",
        ),
        pytest.param(
            b'[[port]]\nnode = "a"',
            "1: tells no place; give one of rail, switch, switch_port",
            id="no place",
        ),
        pytest.param(b'[[port]]\nrail = ""', "rail = '': want a name", id="empty name"),
        pytest.param(b'[[port]]\nrail = " 1"', "rail = ' 1': want a name", id="padded name"),
        pytest.param(b"[[port]]\nrail = true", "rail = 'True': want a name", id="truth"),
        pytest.param(b"[[port]]\nrail = 0.5", "rail = '0.5': want a name", id="fraction"),
        pytest.param(b'[[port]]\nswitch = "a\\nb"', "switch = .*: want a name", id="two lines"),
        pytest.param(b"[[port]]\nrail = 0\nnode = []", "want a name or a glob", id="no node"),
        pytest.param(b"[[port]]\nrail = 0\ndevice = 5", "device = '5': want", id="device"),
        pytest.param(b"[[port]]\nrail = 0\nport = 0", "port = '0': want a port", id="port 0"),
        pytest.param(b'[[port]]\nrail = 0\nport = "1"', "want a port's number", id="port in text"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: bytes, complaint: str) -> None:
    with pytest.raises(TopologyError, match=complaint):
        read_rows(text, "x.toml")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"none\.toml: cannot be read \(No such file"):
        load_topology(tmp_path / "none.toml")
    with pytest.raises(TopologyError, match="cannot be read"):
        load_topology(tmp_path)

    (tmp_path / "large.toml").write_bytes(b"#" * (5 << 20))
    with pytest.raises(TopologyError, match="larger than 4 MiB"):
        load_topology(tmp_path / "large.toml")
