"""PCIe links below their maximum: of network cards, of cards, and of switches above them."""

import pytest
from support.sysfs_tree import CARD, DOWN, HOST_BRIDGE, NIC, ROOT_PORT, SysfsTree, pcie, write

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING
from rightslice.exporter.check.link import check

FULL = pcie("16.0 x16", "16.0 x16")
SWITCHED = (HOST_BRIDGE, ROOT_PORT, "0000:3b:00.0", "0000:3c:01.0")


def test_a_link_at_its_maximum_is_ok(tree: SysfsTree) -> None:
    tree.add_nic(files=FULL)

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (OK, "mlx5_0")
    assert finding.text == f"PCIe at {NIC} runs at 16 GT/s x16, its maximum"


@pytest.mark.parametrize("current", ["8.0 x16", "16.0 x8", "2.5 x1"])
def test_a_network_card_below_its_maximum_is_a_warning(tree: SysfsTree, current: str) -> None:
    tree.add_nic(files=pcie(current, "16.0 x16"))

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert f"{float(current.split()[0]):g} GT/s" in finding.text
    assert "maximum of 16 GT/s x16" in finding.text
    assert "reseat" in finding.remedy


def test_a_slot_that_offers_no_more_is_named(tree: SysfsTree) -> None:
    function = tree.add_nic(files=pcie("8.0 x8", "16.0 x16")).parent.parent
    write(function.parent, pcie("8.0 x8", "8.0 x8"))

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert f"the slot above ({ROOT_PORT}) offers no more than 8 GT/s x8" in finding.text
    assert "better slot" in finding.remedy


def test_a_slot_that_offers_more_speed_is_not_to_blame(tree: SysfsTree) -> None:
    function = tree.add_nic(files=pcie("8.0 x8", "16.0 x16")).parent.parent
    write(function.parent, pcie("8.0 x8", "16.0 x8"))

    (finding,) = check(tree.node())

    assert "slot above" not in finding.text


def test_an_older_slot_is_ok_where_it_carries_what_the_ports_can(tree: SysfsTree) -> None:
    function = tree.add_nic(files=pcie("16.0 x16", "32.0 x16")).parent.parent
    write(function.parent, pcie("16.0 x16", "16.0 x16"))

    (finding,) = check(tree.node())

    assert finding.level == OK
    assert "enough for 200 Gbit/s" in finding.text


def test_an_older_slot_is_a_warning_where_no_rate_is_known(tree: SysfsTree) -> None:
    files = pcie("16.0 x16", "32.0 x16")
    function = tree.add_nic(files=files, state=DOWN).parent.parent
    write(function.parent, pcie("16.0 x16", "16.0 x16"))

    assert [finding.level for finding in check(tree.node())] == [WARNING]


def test_an_older_slot_is_a_warning_for_two_ports_that_need_more(tree: SysfsTree) -> None:
    for function_number in range(2):
        name, bus_id = f"mlx5_{function_number}", f"0000:3b:00.{function_number}"
        function = tree.add_nic(name, bus_id, pcie("16.0 x16", "32.0 x16")).parent.parent
    write(function.parent, pcie("16.0 x16", "16.0 x16"))

    assert [finding.level for finding in check(tree.node())] == [WARNING, WARNING]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="no files"),
        pytest.param(pcie("Unknown x0", "16.0 x16"), id="link down"),
        pytest.param(pcie("16.0 x255", "16.0 x255"), id="device gone"),
        pytest.param(pcie(" x", " x"), id="empty"),
    ],
)
def test_what_is_not_told_is_unknown(tree: SysfsTree, files: dict[str, str]) -> None:
    tree.add_nic(files=files)
    tree.add_card(files=files)

    assert [finding.level for finding in check(tree.node())] == [UNKNOWN, UNKNOWN]


def test_a_card_may_be_slow_but_not_narrow(tree: SysfsTree) -> None:
    tree.add_card("0000:3c:00.0", pcie("2.5 x16", "32.0 x16"))
    tree.add_card("0000:3d:00.0", pcie("2.5 x8", "32.0 x16"))

    slow, narrow = check(tree.node())

    assert (slow.level, slow.subject) == (OK, CARD)
    assert (narrow.level, narrow.subject) == (WARNING, "0000:3d:00.0")


def test_a_narrow_slot_is_named_for_a_card_that_idles(tree: SysfsTree) -> None:
    function = tree.add_card(files=pcie("2.5 x8", "32.0 x16"))
    write(function.parent, pcie("2.5 x8", "32.0 x8"))

    (finding,) = check(tree.node())

    assert "offers no more than 32 GT/s x8" in finding.text


def test_a_slow_switch_is_told_once_for_all_below_it(tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", "0000:3d:00.0", FULL, way=SWITCHED)
    card = tree.add_card("0000:3e:00.0", FULL, way=(*SWITCHED[:3], "0000:3c:02.0"))
    write(card.parent.parent, pcie("8.0 x16", "16.0 x16"))

    nic, of_card, switch = check(tree.node())

    assert (nic.level, of_card.level) == (OK, OK)
    assert (switch.level, switch.subject) == (WARNING, "0000:3b:00.0")
    assert "of the switch above mlx5_0, 0000:3e:00.0 runs at 8 GT/s x16" in switch.text


def test_a_switch_in_an_older_slot_is_as_it_was_built(tree: SysfsTree) -> None:
    nic = tree.add_nic("mlx5_0", "0000:3d:00.0", FULL, way=SWITCHED).parent.parent
    write(nic.parent.parent, pcie("16.0 x16", "32.0 x16"))
    write(nic.parent.parent.parent, pcie("16.0 x16", "16.0 x16"))

    assert [finding.level for finding in check(tree.node())] == [OK]


def test_a_port_of_a_switch_may_offer_more_than_its_card_takes(tree: SysfsTree) -> None:
    nic = tree.add_nic("mlx5_0", "0000:3d:00.0", FULL, way=SWITCHED).parent.parent
    write(nic.parent, pcie("16.0 x16", "32.0 x16"))

    assert [finding.level for finding in check(tree.node())] == [OK]
