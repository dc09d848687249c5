"""The watchdog against a pause that does not end."""

import errno

import pytest
from support.interfaces import Interface, Interfaces
from support.sysfs_tree import SysfsTree

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.pfc_watchdog import check


@pytest.fixture
def roce(tree: SysfsTree) -> SysfsTree:
    """A node with a port of Ethernet."""
    tree.add_nic(netdev="eth2")
    return tree


def found(tree: SysfsTree, interface: Interface, pfc: set[str] | None = None) -> list[Finding]:
    known = {} if pfc is None else {"eth2": pfc}
    return list(check(tree.node(Interfaces({"eth2": interface}, known).kernel())))


@pytest.mark.parametrize(
    ("milliseconds", "words"), [(100, "after 100 ms"), (0xFFFF, "the driver chooses")]
)
def test_one_that_is_on_is_ok(roce: SysfsTree, milliseconds: int, words: str) -> None:
    (finding,) = found(roce, Interface(watchdog_milliseconds=milliseconds), {"3"})

    assert (finding.level, finding.subject) == (OK, "mlx5_0")
    assert words in finding.text


@pytest.mark.parametrize(
    ("pfc", "words"), [({"3"}, "PFC is on for priority 3"), (None, "is off (0 ms): if")]
)
def test_one_that_is_off_is_a_warning_unless_pfc_is(
    roce: SysfsTree, pfc: set[str] | None, words: str
) -> None:
    (finding,) = found(roce, Interface(watchdog_milliseconds=0), pfc)

    assert finding.level == WARNING
    assert words in finding.text
    assert "--set-tunable eth2 pfc-prevention-tout" in finding.remedy


def test_without_pfc_none_is_needed(roce: SysfsTree) -> None:
    (finding,) = found(roce, Interface(watchdog_milliseconds=0), set())

    assert finding.level == OK


def test_mlx5_tells_by_its_names_for_which_priorities_pfc_is_on(roce: SysfsTree) -> None:
    names = ("rx_prio0_bytes", "rx_prio3_pause", "tx_prio3_pause", "rx_prio5_pause")

    (finding,) = found(roce, Interface(watchdog_milliseconds=0, names=names))

    assert "PFC is on for priority 3, 5" in finding.text


@pytest.mark.parametrize(
    "interface",
    [
        pytest.param(Interface(watchdog_milliseconds=None), id="driver has none"),
        pytest.param(Interface(refusal=errno.EPERM), id="forbidden"),
    ],
)
def test_one_that_is_not_told_is_unknown(roce: SysfsTree, interface: Interface) -> None:
    assert [finding.level for finding in found(roce, interface, {"3"})] == [UNKNOWN]


def test_interfaces_out_of_sight_are_left_to_the_check_of_the_namespace(roce: SysfsTree) -> None:
    node = roce.node(Interfaces({}).kernel())

    assert list(check(node)) == []


def test_infiniband_has_none(tree: SysfsTree) -> None:
    tree.add_nic()

    assert list(check(tree.node(Interfaces({}).kernel()))) == []
