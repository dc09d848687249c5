"""The lock file names a holder only while that process lives."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightslice.ledger.lock import Holder, read_lock, remove_lock, write_lock

API_URL = "http://127.0.0.1:19401"
NOBODY = 65534


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "facts.duckdb"


@pytest.fixture
def lock(ledger: Path) -> Path:
    return ledger.with_name("facts.duckdb.lock")


@pytest.fixture
def gone_process_id() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def without_rights(lock: Path) -> Iterator[None]:
    """Take away the right to read the lock file, from root too."""
    lock.chmod(0)
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    yield
    os.seteuid(user)


def test_the_holder_names_itself_and_where_to_ask(ledger: Path) -> None:
    write_lock(ledger, API_URL)

    assert read_lock(ledger) == Holder(os.getpid(), API_URL)


def test_there_is_no_holder_without_a_lock_file(ledger: Path) -> None:
    assert read_lock(ledger) is None


def test_removing_takes_ones_own_name_off(ledger: Path, lock: Path) -> None:
    write_lock(ledger, API_URL)

    remove_lock(ledger)

    assert not lock.exists()


def test_removing_leaves_the_name_of_another(ledger: Path, lock: Path) -> None:
    lock.write_text(json.dumps({"process_id": os.getppid(), "api_url": ""}))

    remove_lock(ledger)

    assert lock.exists()


def test_a_process_that_ended_holds_nothing(ledger: Path, lock: Path, gone_process_id: int) -> None:
    lock.write_text(json.dumps({"process_id": gone_process_id, "api_url": API_URL}))

    assert read_lock(ledger) is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"process_id": 1', id="cut off"),
        pytest.param(b"[1, 2]", id="a list"),
        pytest.param(b'{"api_url": ""}', id="no process"),
        pytest.param(b'{"process_id": null, "api_url": ""}', id="null process"),
        pytest.param(b'{"process_id": "many", "api_url": ""}', id="a word for a process"),
        pytest.param(b'{"process_id": 99999999999999999999, "api_url": ""}', id="too large"),
        pytest.param(b'{"process_id": 0, "api_url": ""}', id="a group of processes"),
        pytest.param(b'{"process_id": -1, "api_url": ""}', id="all processes"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
    ],
)
def test_a_damaged_lock_file_names_nobody(ledger: Path, lock: Path, content: bytes) -> None:
    lock.write_bytes(content)

    assert read_lock(ledger) is None


def test_a_lock_file_that_may_not_be_read_names_nobody(
    ledger: Path, lock: Path, request: pytest.FixtureRequest
) -> None:
    write_lock(ledger, API_URL)
    request.getfixturevalue("without_rights")

    assert read_lock(ledger) is None
