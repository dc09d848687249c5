"""The state of SR-IOV."""

import pytest
from support.sysfs_tree import NIC, SysfsTree, link

from rightslice.exporter.check.finding import OK, UNKNOWN
from rightslice.exporter.check.sriov import check


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no SR-IOV"),
        ({"sriov_totalvfs": "8", "sriov_numvfs": "0"}, "0 of 8 virtual functions are made"),
        (
            {"sriov_totalvfs": "8", "sriov_numvfs": "4"},
            "pause frames are counted here for all of them",
        ),
    ],
)
def test_the_state_is_told(tree: SysfsTree, files: dict[str, str], words: str) -> None:
    tree.add_nic(files=files)

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (OK, "mlx5_0")
    assert words in finding.text


@pytest.mark.parametrize(("total", "made"), [("8", ""), ("", "2"), ("8", "N/A"), ("8", "9")])
def test_odd_counts_are_unknown(tree: SysfsTree, total: str, made: str) -> None:
    tree.add_nic(files={"sriov_totalvfs": total, "sriov_numvfs": made})

    assert [finding.level for finding in check(tree.node())] == [UNKNOWN]


def test_a_virtual_function_says_what_it_hides(tree: SysfsTree) -> None:
    function = tree.add_nic().parent.parent
    link(function / "physfn", function)

    (finding,) = check(tree.node())

    assert finding.level == UNKNOWN
    assert f"a virtual function ({NIC})" in finding.text
