"""Kubernetes quantities as numbers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.quantity import LARGEST, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("110", 110),
        ("+7", 7),
        ("2Ki", 2048),
        ("1.5Gi", 1610612736),
        (".5Mi", 524288),
        ("5.", 5),
        ("3k", 3000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e-1", 2),
        ("1500m", 2),
        ("-1500m", -2),
        ("1n", 1),
        ("100Ei", LARGEST),
        ("9" * 40, LARGEST),
    ],
)
def test_a_quantity_is_a_number_rounded_away_from_zero(text: str, number: int) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "1 Ki", "1KB", "1ki", "Ki", ".", "1e", "1e999999999", "0x10", "٣", "nan"]
)
def test_what_is_no_quantity_has_no_number(text: str) -> None:
    assert parse_quantity(text) is None


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    parse_quantity(text)


@given(st.integers(0, 10**6))
def test_suffixes_of_two_are_powers_of_1024(count: int) -> None:
    assert parse_quantity(f"{count}Mi") == count * 1024**2


@pytest.mark.shared
def test_captured_memory_of_a_node(shared: Path) -> None:
    file = shared / "cases" / "node-allocatable-gpu-zero-shared-eight.json"
    resources = json.loads(file.read_text(encoding="utf-8"))

    assert parse_quantity(resources["memory"]) == 134951706624
