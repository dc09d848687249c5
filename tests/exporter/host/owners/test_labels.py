"""What labels say of a workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.labels import details_of_labels, joined, quantity_bytes
from rightslice.exporter.host.owners.workload import NOTHING_KNOWN, Details

GIB = 1024**3


def test_our_labels_are_read() -> None:
    labels = {
        "rightslice.io/class": "notebook",
        "rightslice.io/owner": "ml\nplatform",
        "rightslice.io/team": "vision",
        "rightslice.io/protected": "true",
        "rightslice.io/memory-limit": "8Gi",
        "app.kubernetes.io/name": "jupyter",
    }

    assert details_of_labels(labels) == Details(
        "notebook", "label", "ml_platform", "vision", True, {"label": 8 * GIB}
    )


def test_without_labels_nothing_is_known() -> None:
    assert details_of_labels({}) == NOTHING_KNOWN


@pytest.mark.parametrize(
    ("text", "is_protected"),
    [("true", True), ("True", True), ("false", False), ("yes", None), ("", None)],
)
def test_protection_is_said_in_one_of_two_words(text: str, is_protected: bool | None) -> None:
    assert details_of_labels({"rightslice.io/protected": text}).is_protected is is_protected


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [("off", False), ("Off", False), ("on", True), ("false", None), ("", None)],
)
def test_whether_rdma_is_meant_is_said_in_one_of_two_words(
    text: str, is_meant: bool | None
) -> None:
    assert details_of_labels({"rightslice.io/rdma": text}).is_rdma_meant is is_meant


def test_of_two_sources_the_first_that_tells_of_rdma_counts() -> None:
    silent, off, on = Details(), Details(is_rdma_meant=False), Details(is_rdma_meant=True)

    assert joined(silent, off, on).is_rdma_meant is False


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8Gi", 8 * GIB),
        ("8G", 8 * 10**9),
        ("1.5Gi", 3 * GIB // 2),
        ("500M", 500 * 10**6),
        ("500Mi", 500 * 1024**2),
        ("64Ki", 64 * 1024),
        ("64k", 64_000),
        ("8589934592", 8 * GIB),
        ("0", None),
        ("", None),
        ("8gi", None),
        ("-8Gi", None),
        ("8 Gi", None),
        ("all", None),
    ],
)
def test_a_quantity_is_read(text: str, size: int | None) -> None:
    assert quantity_bytes(text) == size


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    keys = ("class", "owner", "team", "protected", "memory-limit")

    details_of_labels({f"rightslice.io/{key}": text for key in keys})


def test_the_first_source_that_answers_counts() -> None:
    label = Details(team="vision", memory_limits={"label": 1})
    slurm = Details(owner_kind="slurm_account", owner="acc", team="acc", memory_limits={"label": 2})
    promises = Details(is_protected=False, memory_limits={"mps": 3})

    assert joined(label, slurm, promises) == Details(
        "", "slurm_account", "acc", "vision", False, {"label": 1, "mps": 3}
    )
    assert joined() == NOTHING_KNOWN
