"""A real ledger file among real processes, crashes and full disks."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import ledger_process
from support.small_disk import run_on_small_disk

from rightslice.ledger.ledger import Ledger, LedgerHeldError
from rightslice.ledger.lock import Holder, read_lock

pytestmark = pytest.mark.integration

API_URL = "http://127.0.0.1:19401"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "facts.duckdb"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes around a ledger; ends them after the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(action: str, file: Path, *more: str) -> subprocess.Popen[str]:
        started.append(ledger_process.start(action, file, *more))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def first_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_a_file_held_by_an_announced_process_names_it_and_where_to_ask(
    file: Path, start: Start
) -> None:
    process = start("hold", file, API_URL)
    assert first_lines(process, 1) == ["open"]

    with pytest.raises(LedgerHeldError) as refusal:
        Ledger.open(file)

    assert refusal.value.holder == Holder(process.pid, API_URL)
    assert str(refusal.value) == (
        f"ledger {file} is held by process {process.pid}; ask it through --api {API_URL}"
    )


def test_a_file_held_by_a_silent_process_is_to_be_waited_for(file: Path, start: Start) -> None:
    process = start("hold", file)
    assert first_lines(process, 1) == ["open"]

    with pytest.raises(LedgerHeldError) as refusal:
        Ledger.open(file)

    assert refusal.value.holder is None
    assert str(refusal.value) == (
        f"ledger {file} is held by another process; wait for it to end, or name another --ledger"
    )


def test_a_file_is_free_again_when_its_holder_ends(file: Path, start: Start) -> None:
    process = start("hold", file, API_URL)
    assert first_lines(process, 1) == ["open"]

    process.communicate()

    Ledger.open(file).close()
    assert read_lock(file) is None


def test_the_name_of_a_killed_holder_stops_nobody(file: Path, start: Start) -> None:
    process = start("hold", file, API_URL)
    assert first_lines(process, 1) == ["open"]
    process.kill()
    process.wait()

    ledger = Ledger.open(file)
    ledger.announce(API_URL)

    assert read_lock(file) == Holder(os.getpid(), API_URL)
    ledger.close()


def test_a_process_killed_while_it_writes_leaves_whole_hours(file: Path, start: Start) -> None:
    process = start("write", file)
    told = len(first_lines(process, 25))

    process.send_signal(signal.SIGKILL)
    process.wait()

    ledger = Ledger.open(file)
    hours = ledger_process.hours_of_feeder(ledger)
    assert hours >= told
    assert ledger_process.hours_of_cards(ledger) == [hours] * len(ledger_process.CARDS)
    ledger_process.put_hour(ledger, hours)
    assert ledger_process.hours_of_feeder(ledger) == hours + 1
    ledger.close()


def test_a_full_disk_is_told_and_loses_nothing_that_was_written(tmp_path: Path) -> None:
    file = tmp_path / "facts.duckdb"

    ended = run_on_small_disk(
        tmp_path, "2m", ledger_process.command("fill", file), ledger_process.TESTS
    )

    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["refusal"].startswith(f"ledger {file}: cannot write hours: ")
    assert "No space left on device" in report["refusal"]
    assert report["refusal"].endswith("Check the disk's free space and the file's rights")
    assert report["written"] > 0
    assert report["hours_of_feeder"] == report["written"]
    assert report["hours_of_cards"] == [report["written"]] * len(ledger_process.CARDS)
