"""Pause of the whole link, which should be off where PFC is on."""

import errno

import pytest
from support.interfaces import Interface, Interfaces
from support.sysfs_tree import SysfsTree

from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING
from rightslice.exporter.check.link_pause import check


@pytest.mark.parametrize(
    ("pause", "pfc", "level", "words"),
    [
        ((False, False), {"3"}, OK, "no pause of the whole link"),
        ((True, True), set(), OK, "and PFC off"),
        ((True, True), {"3"}, WARNING, "on (rx and tx) while PFC is on for priority 3"),
        ((False, True), {"3"}, WARNING, "on (tx) while PFC"),
        ((True, False), None, UNKNOWN, "whether PFC is on beside it is not known"),
        (None, {"3"}, UNKNOWN, "does not tell"),
    ],
)
def test_pause_of_the_link(
    tree: SysfsTree,
    pause: tuple[bool, bool] | None,
    pfc: set[str] | None,
    level: str,
    words: str,
) -> None:
    tree.add_nic(netdev="eth2")
    interfaces = Interfaces({"eth2": Interface(pause=pause)}, {} if pfc is None else {"eth2": pfc})

    (finding,) = check(tree.node(interfaces.kernel()))

    assert (finding.level, finding.subject) == (level, "mlx5_0")
    assert words in finding.text


def test_one_interface_that_fails_hides_no_other(tree: SysfsTree) -> None:
    tree.add_nic(netdev="eth2")
    tree.add_nic("mlx5_1", "0000:5e:00.0", netdev="eth3")
    good = Interface(bus="0000:5e:00.0")
    interfaces = Interfaces({"eth2": Interface(refusal=errno.EIO), "eth3": good})

    findings = list(check(tree.node(interfaces.kernel())))

    assert [finding.level for finding in findings] == [UNKNOWN, OK]
