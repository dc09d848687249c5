"""Variables of processes, and the promises of card memory in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.environment import (
    ENVIRON_BYTES,
    HAMI_LIMIT,
    MPS_LIMIT,
    hami_limits,
    mps_limits,
    promises,
    read_variables,
    size_bytes,
)
from rightslice.exporter.simulate.proc_tree import ProcTree

MIB, GIB = 1024**2, 1024**3
UUID = "GPU-5e7c1b0d-2a94-4f36-8d1e-b7a05c93f248"


def test_only_the_variables_asked_for_are_read(tree: ProcTree) -> None:
    tree.start(7, environment={"A": "1=2", "SECRET": "x", "B": "", "AB": "3"})

    assert read_variables(tree.procfs, 7, ("A", "B", "C")) == {"A": "1=2", "B": ""}


def test_no_variable_is_another_thing_than_a_hidden_environment(tree: ProcTree) -> None:
    tree.start(7, environment={})
    tree.start(8)

    assert read_variables(tree.procfs, 7, ("A",)) == {}
    assert read_variables(tree.procfs, 8, ("A",)) is None


def test_strange_bytes_and_a_second_value_do_no_harm(tree: ProcTree) -> None:
    (tree.start(7) / "environ").write_bytes(b"\xff\0noequals\0A=\xff1\0A=2\0=\0")

    assert read_variables(tree.procfs, 7, ("A",)) == {"A": "\ufffd1"}


def test_a_variable_that_is_cut_by_the_bound_is_left_out(tree: ProcTree) -> None:
    tree.start(7, environment={"A": "1", "B": "x" * ENVIRON_BYTES})

    assert read_variables(tree.procfs, 7, ("A", "B")) == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3000m", 3000 * MIB),
        ("2g", 2 * GIB),
        ("2048M", 2 * GIB),
        ("2GB", 2 * GIB),
        ("512k", 512 * 1024),
        ("1073741824", GIB),
        (" 1G ", GIB),
        ("0", None),
        ("0m", None),
        ("", None),
        ("-1G", None),
        ("1.5G", None),
        ("much", None),
        ("99999999999999", None),
        ("\u0661G", None),
    ],
)
def test_a_size_is_read(text: str, size: int | None) -> None:
    assert size_bytes(text) == size


def test_hami_has_a_limit_for_all_cards_and_for_each() -> None:
    variables = {HAMI_LIMIT: "3000m", f"{HAMI_LIMIT}_1": "2g", f"{HAMI_LIMIT}_2": "broken"}

    assert hami_limits(variables) == {"": 3000 * MIB, "1": 2 * GIB}


def test_mps_has_limits_by_number_and_uuid() -> None:
    text = f"0=2G, 1=2048M,{UUID}=512M,3,=1G,4=x"

    assert mps_limits(text) == {"0": 2 * GIB, "1": 2 * GIB, UUID: 512 * MIB}


def test_the_largest_promise_of_each_source_counts() -> None:
    variables = {f"{HAMI_LIMIT}_0": "1g", f"{HAMI_LIMIT}_1": "3g", MPS_LIMIT: "0=2G"}

    assert promises(variables) == {"hami": 3 * GIB, "mps": 2 * GIB}
    assert promises({}) == {}


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    promises({HAMI_LIMIT: text, MPS_LIMIT: text})
