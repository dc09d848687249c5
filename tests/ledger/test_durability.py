"""A ledger among kills, full and read-only disks, broken files and clocks that step."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import ledger_process
from support.cli import rightslice
from support.small_disk import run_on_read_only_disk, run_on_small_disk
from support.usage import START, UUID, at_hour, card_hour, workload_hour

from rightslice.ledger.audit import Finding, audit
from rightslice.ledger.batch import Batch, FeederState
from rightslice.ledger.connection import log_of
from rightslice.ledger.ledger import Ledger, LedgerError
from rightslice.ledger.retention import drop_hours

pytestmark = pytest.mark.integration

FULL = bool(os.environ.get("RIGHTSLICE_TEST_FULL"))
KILLS = 200 if FULL else 8
LATER = at_hour(24 * 3650)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "facts.duckdb"


def findings_of(file: Path) -> list[Finding]:
    ledger = Ledger.open_to_read(file)
    try:
        return audit(ledger, LATER).findings
    finally:
        ledger.close()


def killed_after(seconds: float, file: Path, folder: Path) -> int | None:
    """Let a writer work and kill it; gives the last hour that it said was written, or None."""
    process = ledger_process.start("churn", file, str(folder))
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    # The last line may be cut off by the kill, and then was not told.
    told = [int(line) for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
    return told[-1] if told else None


def test_whenever_it_is_killed_nothing_told_is_lost_and_nothing_is_there_twice(
    file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    chance = random.Random(7)

    for _ in range(KILLS):
        told = killed_after(chance.uniform(0.0, 1.2), file, folder)

        ledger = Ledger.open(file)
        hours = max(ledger_process.hours_of_cards(ledger), default=0)
        assert told is None or hours >= told + 1
        assert ledger_process.hours_of_cards(ledger) == [hours] * len(ledger_process.CARDS)
        # It may have been killed between telling two hours again.
        assert hours - 1 <= ledger_process.hours_of_feeder(ledger) <= hours
        ledger.close()
        assert findings_of(file) == []

    copy = folder / "copy.duckdb"
    assert findings_of(copy) == []
    copied = Ledger.open_to_read(copy)
    assert 0 < ledger_process.hours_of_feeder(copied) <= hours
    copied.close()
    assert [path.name for path in folder.iterdir() if path.name.startswith("facts")] == []


@pytest.mark.parametrize("work", ["roll_up", "drop", "backup", "compact", "export"])
def test_on_a_full_disk_work_is_refused_and_done_when_there_is_room(
    tmp_path: Path, work: str
) -> None:
    file = tmp_path / "facts.duckdb"

    ended = run_on_small_disk(
        tmp_path, "6m", ledger_process.command("full", file, work), ledger_process.TESTS
    )

    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert "No space left on device" in report["refusal"]
    assert report["left"] == [file.name, log_of(file).name]
    assert report["hours_of_cards"] == [31] * len(ledger_process.CARDS)


def filled(file: Path, hours: int = 30) -> Path:
    ledger = Ledger.open(file)
    for index in range(hours):
        ledger_process.put_hour(ledger, index)
    ledger.roll_up(at_hour(hours))
    ledger.close()
    return file


def with_log(file: Path) -> Path:
    """Leave a ledger behind as a kill does: with a log that is not merged."""
    process = ledger_process.start("write", file)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.kill()
    process.communicate()
    assert log_of(file).stat().st_size > 0
    return file


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rightslice.api", *arguments]


def test_on_a_read_only_disk_it_is_read_checked_and_exported_but_not_filled(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    file = with_log(disk / "facts.duckdb")

    def done(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_on_read_only_disk(disk, command(*arguments), tmp_path)

    checked = done("check", "--ledger", str(file))
    exported = done("export", "ledger", "--ledger", str(file), "--to", str(tmp_path / "out"))
    backup = done("backup", "--ledger", str(file), "--to", str(disk / "copy.duckdb"))
    served = done("serve", "--ledger", str(file), "--listen", "127.0.0.1:0")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert exported.returncode == 0, exported.stderr
    assert backup.returncode == served.returncode == 4
    assert "Read-only file system" in backup.stderr
    assert "Read-only file system" in served.stderr


def test_a_second_process_is_told_who_holds_the_file(file: Path) -> None:
    process = ledger_process.start("hold", filled(file), "http://127.0.0.1:1")
    assert process.stdout is not None
    process.stdout.readline()
    try:
        done = rightslice("check", "--ledger", str(file))
    finally:
        process.communicate()

    assert done.returncode == 3
    assert "no rightslice API answers at http://127.0.0.1:1" in done.stderr


def test_hours_told_again_by_a_clock_that_stepped_back_are_there_once() -> None:
    ledger = Ledger.open()
    for index in (0, 1, 2, 3, 1, 2):
        ledger_process.put_hour(ledger, index)

    assert ledger_process.hours_of_cards(ledger) == [4] * len(ledger_process.CARDS)
    assert ledger_process.hours_of_feeder(ledger) == 3
    assert audit(ledger, LATER).findings == []
    ledger.close()


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]
)
def test_a_day_has_24_hours_in_whatever_zone_it_is_written(tmp_path: Path, zone: str) -> None:
    done = subprocess.run(
        ledger_process.command("told", tmp_path / "facts.duckdb", "2026-03-28"),
        cwd=ledger_process.TESTS,
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )

    report = json.loads(done.stdout)
    assert report["zone"] == zone
    assert report["days"] == [[f"2026-03-{day} 00:00:00", 24] for day in (28, 29, 30)]
    assert report["months"] == ["month=2026-03"]


@pytest.mark.parametrize(
    ("first_day", "days", "months"),
    [
        pytest.param(
            "2028-02-28",
            ["2028-02-28", "2028-02-29", "2028-03-01"],
            ["month=2028-02", "month=2028-03"],
            id="leap day",
        ),
        pytest.param(
            "2027-12-31",
            ["2027-12-31", "2028-01-01", "2028-01-02"],
            ["month=2027-12", "month=2028-01"],
            id="end of a year",
        ),
    ],
)
def test_months_and_days_are_those_of_the_calendar(
    tmp_path: Path, first_day: str, days: list[str], months: list[str]
) -> None:
    done = subprocess.run(
        ledger_process.command("told", tmp_path / "facts.duckdb", first_day),
        cwd=ledger_process.TESTS,
        capture_output=True,
        text=True,
        check=True,
    )

    report = json.loads(done.stdout)
    assert report["days"] == [[f"{day} 00:00:00", 24] for day in days]
    assert report["months"] == months


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def flip(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 0xFF
    path.write_bytes(content)


def refusal_of(file: Path) -> str:
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(file)
    return str(refusal.value)


@pytest.mark.parametrize("share", [0.0005, 0.001, 0.004])
def test_a_file_without_its_index_is_refused_and_left_as_it_is(file: Path, share: float) -> None:
    cut(filled(file), share)
    content = file.read_bytes()

    assert refusal_of(file).startswith(f"ledger {file} cannot be opened: ")
    assert file.read_bytes() == content


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_file_without_its_last_blocks_is_found_by_check_and_says_so_when_read(
    file: Path, share: float
) -> None:
    cut(filled(file), share)

    checked = rightslice("check", "--ledger", str(file))
    read = rightslice("recommend", "--ledger", str(file))

    assert checked.returncode == 1
    assert (
        "wrong: a part of the table cannot be read (unreadable in workload_hour" in checked.stdout
    )
    assert "remedy: look after the disk, and restore a backup" in checked.stdout
    assert read.returncode == 4
    assert "Could not read enough bytes from file" in read.stderr


def test_every_flipped_byte_is_refused_or_found_by_check(file: Path) -> None:
    whole = filled(file).read_bytes()
    used = Ledger.open(file)
    expected = ledger_process.hours_of_cards(used)
    used.close()

    refused = found = 0
    for place in range(40):
        file.write_bytes(whole)
        flip(file, place / 40)

        try:
            ledger = Ledger.open_to_read(file)
        except LedgerError:
            refused += 1
            continue
        done = audit(ledger, LATER)
        if done.is_sound:  # the byte is in no block that is in use
            assert ledger_process.hours_of_cards(ledger) == expected
        else:
            assert {finding.code for finding in done.findings} == {"unreadable"}
            found += 1
        ledger.close()

    assert refused > 0
    assert found > 0


def test_a_log_that_was_cut_off_loses_what_came_last_and_nothing_before(file: Path) -> None:
    cut(log_of(with_log(file)), 0.6)

    ledger = Ledger.open(file)
    hours = ledger_process.hours_of_feeder(ledger)
    assert hours > 0
    assert ledger_process.hours_of_cards(ledger) == [hours] * len(ledger_process.CARDS)
    ledger.close()
    assert findings_of(file) == []


def test_a_flipped_byte_in_the_log_is_told_and_changes_nothing(file: Path) -> None:
    flip(log_of(with_log(file)), 0.5)
    contents = file.read_bytes(), log_of(file).read_bytes()

    assert "Corrupt WAL file" in refusal_of(file)
    assert (file.read_bytes(), log_of(file).read_bytes()) == contents


@pytest.mark.parametrize("loss", ["missing", "empty"])
def test_a_log_without_its_file_is_no_new_ledger(file: Path, loss: str) -> None:
    log = log_of(with_log(file))
    content = log.read_bytes()
    if loss == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()

    assert refusal_of(file) == (
        f"ledger {file} is missing or empty, but its log {log.name} is there: the file was lost. "
        "Restore a backup, and move the log away"
    )
    assert log.read_bytes() == content


def test_the_log_of_another_ledger_is_refused(file: Path, tmp_path: Path) -> None:
    filled(file)
    log_of(file).write_bytes(log_of(with_log(tmp_path / "other.duckdb")).read_bytes())

    assert "WAL does not match database file" in refusal_of(file)


def test_hours_whose_day_was_dropped_do_not_take_the_place_of_its_sums() -> None:
    ledger = Ledger.open()
    for index in range(48):
        ledger_process.put_hour(ledger, index)
    ledger.roll_up(at_hour(48))
    list(drop_hours(ledger, at_hour(24)))

    late = replace(card_hour(3), busy_seconds=1.0)
    ledger.replace_hours(Batch([late, card_hour(50)], [workload_hour(index=3)]))

    assert ledger.read("read", "SELECT count(*) FROM card_hour WHERE hour < ?", [_naive(24)]) == [
        (0,)
    ]
    hours = ledger_process.hours_of_cards(ledger)
    assert sorted(hours) == [1, *([48] * len(ledger_process.CARDS))]
    assert audit(ledger, LATER).findings == []
    ledger.close()


def _naive(index: int) -> datetime:
    return at_hour(index).replace(tzinfo=None)


def test_a_feeders_state_goes_with_its_hours_or_not_at_all() -> None:
    ledger = Ledger.open()
    ledger_process.put_hour(ledger, 0)

    broken = replace(card_hour(1), busy_bins=(1.0,))
    with pytest.raises(ValueError, match="a histogram has"):
        ledger.replace_hours(
            Batch([broken]), ledger_process.FEEDER, FeederState(at_hour(2), {"hours": 2})
        )

    assert ledger_process.hours_of_feeder(ledger) == 1
    assert ledger.progress() == {ledger_process.FEEDER: START + timedelta(hours=1)}
    assert UUID not in {usage.uuid for usage in ledger.card_usage(START, LATER)}
    ledger.close()
