"""The fact files that ship are the ones that people edit."""

import subprocess
import sys
from pathlib import Path

import pytest

from rightslice.facts.data import BYTES_PER_MIB, bytes_from_mib, read_facts

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.integration
def test_the_shipped_json_is_what_its_yaml_says() -> None:
    check = [sys.executable, ".ci/build_facts.py", "--check"]

    result = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", ["gpus", "mig_profiles", "vgpu_profiles"])
def test_each_fact_file_names_its_sources(name: str) -> None:
    assert read_facts(name)["sources"]


def test_a_fact_file_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="prices"):
        read_facts("prices")


@pytest.mark.parametrize(
    ("mebibytes", "expected_bytes"),
    [
        pytest.param(2, 2 * BYTES_PER_MIB, id="whole"),
        pytest.param(0.5, BYTES_PER_MIB // 2, id="half"),
        pytest.param(0, 0, id="zero is a number"),
        pytest.param(None, None, id="unknown stays unknown"),
    ],
)
def test_mebibytes_become_bytes(mebibytes: float | None, expected_bytes: int | None) -> None:
    assert bytes_from_mib(mebibytes) == expected_bytes
