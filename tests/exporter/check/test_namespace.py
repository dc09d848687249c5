"""What a container without the host's network does not see."""

import errno

import pytest
from support.interfaces import Interface, Interfaces
from support.network_namespace import namespace_with_pair
from support.sysfs_tree import SysfsTree, write

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING
from rightslice.exporter.check.kernel import real_kernel
from rightslice.exporter.check.namespace import check

OWN = "eth2"


def test_with_the_hosts_network_all_is_seen(tree: SysfsTree) -> None:
    tree.add_nic(netdev=OWN)

    (finding,) = check(tree.node(Interfaces({OWN: Interface()}).kernel()))

    assert (finding.level, finding.subject) == (OK, "mlx5_0")
    assert finding.text == "seen from here: its counters, its interface eth2"


def test_counters_that_are_not_shown_are_a_warning(tree: SysfsTree) -> None:
    tree.add_nic(hw_counters=False)

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert "its counters (hw_counters) are not shown" in finding.text
    assert "hostNetwork: true" in finding.remedy


def test_counters_may_be_the_devices_own(tree: SysfsTree) -> None:
    write(tree.add_nic(hw_counters=False) / "hw_counters", {"lifespan": "10"})

    assert [finding.level for finding in check(tree.node())] == [OK]


def test_a_driver_without_such_counters_lacks_none(tree: SysfsTree) -> None:
    tree.add_nic("qedr0", driver="qede", netdev=OWN, hw_counters=False)

    (finding,) = check(tree.node(Interfaces({OWN: Interface(driver="qede")}).kernel()))

    assert finding.level == OK


def test_a_port_of_ethernet_without_an_interface_is_a_warning(tree: SysfsTree) -> None:
    device = tree.add_nic()
    write(device / "ports/1", {"link_layer": "Ethernet"})

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert "no interface of its port 1 is shown" in finding.text


def test_an_interface_of_another_namespace_is_a_warning(tree: SysfsTree) -> None:
    tree.add_nic(netdev=OWN)

    (finding,) = check(tree.node(Interfaces({}).kernel()))

    assert finding.level == WARNING
    assert "its interface eth2 is not in this network namespace" in finding.text


def test_a_driver_may_leave_out_its_place(tree: SysfsTree) -> None:
    tree.add_nic(netdev=OWN)

    (finding,) = check(tree.node(Interfaces({OWN: Interface(bus="")}).kernel()))

    assert finding.level == OK


def test_an_interface_that_does_not_answer_is_unknown(tree: SysfsTree) -> None:
    tree.add_nic(netdev=OWN)
    interfaces = Interfaces({OWN: Interface(refusal=errno.EPERM)})

    (finding,) = check(tree.node(interfaces.kernel()))

    assert finding.level == UNKNOWN


def test_one_device_out_of_sight_hides_no_other(tree: SysfsTree) -> None:
    tree.add_nic(hw_counters=False)
    tree.add_nic("mlx5_1", "0000:5e:00.0")

    assert [finding.level for finding in check(tree.node())] == [WARNING, OK]


@pytest.mark.integration
def test_the_kernel_knows_the_interfaces_of_its_namespace_only(tree: SysfsTree) -> None:
    tree.add_nic("mlx5_0", netdev=OWN)
    tree.add_nic("mlx5_1", "0000:5e:00.0", netdev="eth9")

    with (
        namespace_with_pair(OWN, "peer0") as namespace,
        namespace.entered(),
        real_kernel() as kernel,
    ):
        findings = list(check(tree.node(kernel)))

    same_name, absent = findings
    assert "whose own eth2 is another (veth at" in same_name.text
    assert "its interface eth9 is not in this network namespace" in absent.text
    assert [finding.level for finding in findings] == [WARNING, WARNING]
