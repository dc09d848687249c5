"""What lldpcli writes, in all its shapes, and which neighbor is the switch."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.net.lldp import LldpError, SwitchPort, agreed, parse_neighbors

LEAF = SwitchPort("leaf-7", "swp1")


def capabilities(*enabled: str) -> list[dict[str, Any]]:
    kinds = ("Bridge", "Router", "Wlan", "Station")
    return [{"type": kind, "enabled": kind in enabled} for kind in kinds]


def heard(
    name: str | None = "leaf-7",
    port: str = "swp1",
    *,
    port_type: str = "ifname",
    description: str | None = None,
    enabled: tuple[str, ...] | None = ("Bridge", "Router"),
    via: str = "LLDP",
) -> dict[str, Any]:
    """One neighbor as the format json has it; `enabled` None for one that tells nothing."""
    chassis: dict[str, Any] = {"id": {"type": "mac", "value": "02:00:00:00:00:07"}}
    if enabled is not None:
        chassis["capability"] = capabilities(*enabled)
    told_port: dict[str, Any] = {"id": {"type": port_type, "value": port}, "ttl": "120"}
    if description is not None:
        told_port["descr"] = description
    chassis = chassis if name is None else {name: chassis}
    return {"via": via, "rid": "1", "age": "0 day, 00:01:02", "chassis": chassis, "port": told_port}


def listed(*neighbors: dict[str, Any], netdev: str = "eth0") -> bytes:
    return json.dumps({"lldp": {"interface": [{netdev: each} for each in neighbors]}}).encode()


def test_one_neighbor_stands_without_a_list() -> None:
    text = json.dumps({"lldp": {"interface": {"eth0": heard()}}}).encode()

    assert parse_neighbors(text) == {"eth0": LEAF}


def test_several_interfaces_in_one_object_are_read_too() -> None:
    interfaces = {"eth0": heard(), "eth1": heard("leaf-8")}

    assert parse_neighbors(json.dumps({"lldp": {"interface": interfaces}}).encode()) == {
        "eth0": LEAF,
        "eth1": SwitchPort("leaf-8", "swp1"),
    }


def test_the_format_with_lists_everywhere_reads_the_same() -> None:
    chassis = {
        "id": [{"type": "mac", "value": "02:00:00:00:00:07"}],
        "name": [{"value": "leaf-7"}],
        "capability": capabilities("Router"),
    }
    port = {"id": [{"type": "ifname", "value": "swp1"}], "descr": [{"value": "to gpu-17"}]}
    interface = {"name": "eth0", "via": "LLDP", "chassis": [chassis], "port": [port]}

    told = parse_neighbors(json.dumps({"lldp": [{"interface": [interface]}]}).encode())

    assert told == {"eth0": LEAF}


@pytest.mark.parametrize("text", ['{"lldp": {}}', '{"lldp": [{}]}', '{"lldp": {"interface": []}}'])
def test_where_nobody_is_heard_nothing_is_known(text: str) -> None:
    assert parse_neighbors(text.encode()) == {}


@pytest.mark.parametrize(
    ("neighbor", "end"),
    [
        pytest.param(heard(None), SwitchPort("02:00:00:00:00:07", "swp1"), id="no name"),
        pytest.param(heard("id"), SwitchPort("id", "swp1"), id="a name like a key"),
        pytest.param(
            heard(port="12", port_type="local", description="Ethernet1/12"),
            SwitchPort("leaf-7", "Ethernet1/12"),
            id="described port",
        ),
        pytest.param(
            heard(description="to gpu-17"), LEAF, id="the interface's name before its description"
        ),
        pytest.param(
            heard(port="02:00:00:00:00:08", port_type="mac"),
            SwitchPort("leaf-7", "02:00:00:00:00:08"),
            id="port with an address only",
        ),
        pytest.param(heard(port=" "), SwitchPort("leaf-7", None), id="nameless port"),
        pytest.param(heard("leaf\n7"), SwitchPort("leaf_7", "swp1"), id="control character"),
        pytest.param(heard("l" * 999), SwitchPort("l" * 253, "swp1"), id="too long a name"),
        pytest.param(heard(enabled=None), LEAF, id="silent about what it is"),
        pytest.param(heard(enabled=()), LEAF, id="nothing enabled"),
        pytest.param(heard(via="CDPv2"), LEAF, id="only by an older protocol"),
    ],
)
def test_the_other_end_is_named(neighbor: dict[str, Any], end: SwitchPort) -> None:
    assert parse_neighbors(listed(neighbor)) == {"eth0": end}


OTHER_NODE = heard("gpu-18", "eth0", enabled=("Station",))
SPINE = heard("spine-1", "swp30")


@pytest.mark.parametrize(
    ("neighbors", "ends"),
    [
        pytest.param((OTHER_NODE,), {}, id="another node is no switch"),
        pytest.param((OTHER_NODE, heard()), {"eth0": LEAF}, id="the switch among nodes"),
        pytest.param((heard(), OTHER_NODE), {"eth0": LEAF}, id="in whatever order"),
        pytest.param(
            (heard("card", enabled=None), heard()), {"eth0": LEAF}, id="who says it is a switch"
        ),
        pytest.param((SPINE, heard()), {}, id="two switches are not clear"),
        pytest.param((heard(), heard()), {"eth0": LEAF}, id="told twice"),
        pytest.param(
            (heard(), heard(port="swp2")),
            {"eth0": SwitchPort("leaf-7", None)},
            id="two ports of one switch",
        ),
        pytest.param(
            (heard("leaf-7(SERIAL)", "Ethernet1", via="CDPv2"), heard()),
            {"eth0": LEAF},
            id="the same switch by an older protocol",
        ),
    ],
)
def test_of_several_neighbors_the_switch_counts(
    neighbors: tuple[dict[str, Any], ...], ends: dict[str, SwitchPort]
) -> None:
    assert parse_neighbors(listed(*neighbors)) == ends


def test_a_broken_neighbor_costs_no_other_interface() -> None:
    told = {"lldp": {"interface": [{"eth0": None}, 7, {"eth1": {"chassis": 3, "port": []}}]}}
    told["lldp"]["interface"].append({"eth2": heard()})

    assert parse_neighbors(json.dumps(told).encode()) == {"eth2": LEAF}


def test_a_name_that_is_not_utf8_costs_only_its_letters() -> None:
    text = listed(heard("leaf-X")).replace(b"leaf-X", b"leaf-\xe4")

    assert parse_neighbors(text) == {"eth0": SwitchPort("leaf-�", "swp1")}


def test_a_bare_control_character_in_a_text_costs_nothing() -> None:
    text = listed(heard("leaf-X")).replace(b"leaf-X", b"leaf-\t7")

    assert parse_neighbors(text) == {"eth0": SwitchPort("leaf-_7", "swp1")}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(listed(heard())[:-9], id="half written"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"LLDP neighbors:", id="plain text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"lldp": 3}', id="a number"),
    ],
)
def test_what_is_no_answer_is_refused(text: bytes) -> None:
    with pytest.raises(LldpError, match=r"is no JSON|has no neighbors"):
        parse_neighbors(text)


def test_interfaces_agree_on_a_switch_or_on_nothing() -> None:
    assert agreed([]) is None
    assert agreed([LEAF, LEAF]) == LEAF
    assert agreed([LEAF, SwitchPort("leaf-7", "swp2")]) == SwitchPort("leaf-7", None)
    assert agreed([LEAF, SwitchPort("leaf-8", "swp1")]) is None


KEYS = st.sampled_from(
    ["lldp", "interface", "name", "chassis", "port", "id", "value", "type", "capability", "via"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(ANYTHING)
def test_no_shape_is_worse_than_refused(interface: object) -> None:
    for end in parse_neighbors(json.dumps({"lldp": {"interface": interface}}).encode()).values():
        assert end != SwitchPort(None, None)
        assert all(text is None or text.isprintable() for text in (end.switch, end.port))
