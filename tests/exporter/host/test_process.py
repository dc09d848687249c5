"""What this process costs, as the kernel tells it."""

import os
import time
from pathlib import Path

import pytest

from rightslice.exporter.host.process import OwnProcess

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    """A tree of a process with 250 resident pages and three open files."""
    folder = tmp_path / "self/fd"
    folder.mkdir(parents=True)
    (tmp_path / "self/statm").write_text("1000 250 80 3 0 400 0\n")
    for number in range(3 + 1):  # the listing itself has one open
        (folder / str(number)).touch()
    return tmp_path


def test_resident_memory_is_told_in_bytes(procfs: Path) -> None:
    assert OwnProcess(procfs).resident_bytes() == 250 * PAGE_BYTES


def test_open_files_are_counted_without_the_listing_s_own(procfs: Path) -> None:
    assert OwnProcess(procfs).open_file_count() == 3


@pytest.mark.parametrize(
    "text",
    [pytest.param("", id="empty"), pytest.param("1000", id="cut off")],
)
def test_memory_that_is_half_told_is_unknown(text: str, procfs: Path) -> None:
    (procfs / "self/statm").write_text(text)

    assert OwnProcess(procfs).resident_bytes() is None


def test_without_procfs_memory_and_files_are_unknown(tmp_path: Path) -> None:
    process = OwnProcess(tmp_path / "missing")

    assert process.resident_bytes() is None
    assert process.open_file_count() is None


def work() -> None:
    until_seconds = time.process_time() + 0.05
    while time.process_time() < until_seconds:
        pass


def test_the_first_processor_time_is_that_since_the_process_began() -> None:
    work()
    times = os.times()

    seconds = OwnProcess().new_cpu_seconds()

    assert seconds >= times.user + times.system > 0


def test_processor_time_is_told_once() -> None:
    process = OwnProcess()
    first_seconds = process.new_cpu_seconds()
    work()
    second_seconds = process.new_cpu_seconds()

    times = os.times()

    assert second_seconds > 0
    assert first_seconds + second_seconds == pytest.approx(times.user + times.system, abs=0.05)


def test_the_real_process_has_memory_and_files(tmp_path: Path) -> None:
    process = OwnProcess()
    before = process.open_file_count()

    with (tmp_path / "file").open("w"):
        during = process.open_file_count()

    assert before is not None
    assert during == before + 1
    assert (process.resident_bytes() or 0) > PAGE_BYTES


def test_this_process_is_always_up() -> None:
    process = OwnProcess()

    process.begin_round()

    assert (process.id, process.lane, process.is_up) == ("self", "node", True)
