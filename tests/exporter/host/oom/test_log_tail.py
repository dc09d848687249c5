"""Many files at once, restarts with a state, and what is passed without decoding."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import log_counter
from support.log_writer import cri_line, writer

from rightslice.exporter.host.oom import log_tail
from rightslice.exporter.host.oom.log_format import CriOrDocker, LogMessage, Plain
from rightslice.exporter.host.oom.log_tail import LogTail

BEFORE, NOW, AFTER = "2026-01-01T00:00:00Z", 1767323045.0, "2026-01-03T00:00:00Z"


def everything(chunk: bytes) -> bool:
    return True


def oom(chunk: bytes) -> bool:
    return b"ut of memory" in chunk


def texts(found: Iterator[tuple[Path, LogMessage]]) -> list[str]:
    return [message.text for _, message in found]


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def counter(*paths: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, log_counter.__file__, *map(str, paths)]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_lines(counted: Path, count: int, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if counted.exists() and counted.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)


@pytest.mark.parametrize("rotation", ["kubelet", "docker"])
def test_reader_that_is_killed_counts_no_line_twice(tmp_path: Path, rotation: str) -> None:
    log, counted, stop = (tmp_path / name for name in ("0.log", "counted", "stop"))
    paths = (log, tmp_path / "state.json", counted, stop)
    choice, line_count = random.Random(rotation), 300_000
    with writer(log, rotation, line_count, line_count // 8) as process:
        while process.poll() is None:
            with counter(*paths):
                time.sleep(choice.uniform(0.15, 0.4))
    time.sleep(0.3)  # what was renamed last is quiet
    stop.touch()
    with counter(*paths) as reader:
        assert reader.wait(timeout=10) == 0
    numbers = [int(line) for line in counted.read_bytes().split()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == line_count - 1
    assert len(numbers) > line_count / 2


def test_reader_that_stops_cleanly_counts_each_line_once(tmp_path: Path) -> None:
    log, counted, stop = (tmp_path / name for name in ("0.log", "counted", "stop"))
    paths = (log, tmp_path / "state.json", counted, stop)
    line_count = 200_000
    with writer(log, "kubelet", line_count, line_count // 8) as process:
        is_over = False
        while not is_over:
            is_over = process.poll() is not None
            with counter(*paths) as reader:
                time.sleep(0.15)
                stop.touch()
                assert reader.wait(timeout=10) == 0
            stop.unlink()
        time.sleep(0.3)  # what was renamed last is quiet
        with counter(*paths) as reader:
            wait_for_lines(counted, line_count)
    assert [int(line) for line in counted.read_bytes().split()] == list(range(line_count))


def test_only_chunks_that_may_match_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.touch()
    tail = LogTail(NOW)
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(oom)) == []
    append(path, f"{AFTER} stdout F dull\n" * 100)
    assert texts(tail.read(oom)) == []
    append(path, f"{AFTER} stdout F before\n{AFTER} stderr F CUDA out of memory\n")
    assert texts(tail.read(oom)) == ["before", "CUDA out of memory"]
    assert tail.read_bytes == path.stat().st_size
    assert (tail.file_count, tail.skipped_bytes) == (1, 0)


def test_parts_of_a_message_may_be_apart_in_sweeps_and_files(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(f"{AFTER} stdout P CUDA out \n", encoding="utf-8")
    tail = LogTail(NOW)
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(oom)) == []
    path.rename(f"{path}.20260103-000000")
    append(path, f"{AFTER} stdout F of memory\n")
    time.sleep(0.3)
    assert texts(tail.read(oom)) == ["CUDA out of memory"]


def test_last_words_without_an_end_are_given_after_a_while(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    path.write_text(f"{AFTER} stdout P CUDA out of memory\n", encoding="utf-8")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(oom)) == []
    now[0] = log_tail.FLUSH_QUIET_SECONDS
    assert texts(tail.read(oom)) == ["CUDA out of memory"]


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        pytest.param(AFTER, ["first", "next"], id="new"),
        pytest.param(BEFORE, ["next"], id="old"),
        pytest.param("1970-01-01T00:00:00Z", ["next"], id="no time, there at the first sweep"),
    ],
)
def test_first_record_tells_where_a_file_begins(
    tmp_path: Path, stamp: str, expected: list[str]
) -> None:
    path = tmp_path / "0.log"
    append(path, f"{stamp} stdout F first\n")
    tail = LogTail(NOW)
    tail.follow({path: CriOrDocker})
    found = texts(tail.read(everything))
    append(path, f"{BEFORE} stdout F next\n")  # times that go back change nothing
    assert found + texts(tail.read(everything)) == expected


def test_file_without_times_is_new_after_the_first_sweep(tmp_path: Path) -> None:
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    old.write_text("a\n", encoding="utf-8")
    tail = LogTail(NOW)
    tail.follow({old: Plain})
    assert texts(tail.read(everything)) == []
    new.write_text("b\n", encoding="utf-8")
    tail.follow({old: Plain, new: Plain})
    assert texts(tail.read(everything)) == ["b"]


def test_files_of_a_new_container_that_were_rotated_before_it_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    append(tmp_path / "0.log.20260101-000000", f"{BEFORE} stdout F old\n")
    append(tmp_path / "0.log.20260103-000000", f"{AFTER} stdout F rotated\n")
    append(path, f"{AFTER} stdout F current\n")
    time.sleep(0.3)
    tail = LogTail(NOW)
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["rotated", "current"]


def test_file_that_is_no_longer_wanted_is_drained_and_not_read_again(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    append(path, f"{AFTER} stdout F a\n")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["a"]
    tail.follow({})
    append(path, f"{AFTER} stdout F b\n")
    assert texts(tail.read(everything)) == ["b"]
    now[0] += log_tail.DRAIN_SECONDS
    assert texts(tail.read(everything)) == []
    assert tail.file_count == 0
    append(path, f"{AFTER} stdout F c\n")
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["c"]
    assert tail.read_bytes == path.stat().st_size


def test_last_line_of_a_deleted_file_is_given_when_it_ends(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    append(path, "a\nlast words")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    assert texts(tail.read(everything)) == []
    tail.follow({path: Plain})
    assert texts(tail.read(everything)) == ["a"]
    path.unlink()
    tail.follow({})
    now[0] += log_tail.DRAIN_SECONDS
    assert texts(tail.read(everything)) == ["last words"]


def test_positions_of_files_that_are_not_followed_yet_are_kept_for_an_hour(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    append(path, f"{BEFORE} stdout F a\n")
    first = LogTail(NOW)
    first.follow({path: CriOrDocker})
    assert texts(first.read(everything)) == []
    positions = first.positions()
    append(path, f"{BEFORE} stdout F b\n")
    tail = LogTail(NOW, positions, now_seconds=lambda: now[0])
    assert tail.positions() == positions
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["b"]
    other = LogTail(NOW, positions, now_seconds=lambda: now[0])
    now[0] += log_tail.UNCLAIMED_SECONDS
    assert other.positions() == {}


def test_thousands_of_files_that_appear_at_once(tmp_path: Path) -> None:
    count = 3000
    before_count = len(os.listdir("/proc/self/fd"))
    tail = LogTail(NOW, open_files_limit=100)
    assert texts(tail.read(everything)) == []
    paths = [tmp_path / f"{number}" / "0.log" for number in range(count)]
    tail.follow(dict.fromkeys(paths, CriOrDocker))
    for path in paths:
        path.parent.mkdir()
        append(path, f"{AFTER} stdout F {path.parent.name}\n")
    started = time.monotonic()
    found: list[str] = []
    while len(found) < count and time.monotonic() < started + 10:
        found += texts(tail.read(everything))
    assert sorted(found, key=int) == [path.parent.name for path in paths]
    assert len(os.listdir("/proc/self/fd")) - before_count <= 110
    for path in paths[::2]:
        append(path, f"{AFTER} stdout F again\n")
    again: list[str] = []
    while len(again) < count // 2 and time.monotonic() < started + 20:
        again += texts(tail.read(everything))
    assert again == ["again"] * (count // 2)


def test_flood_in_one_file_does_not_starve_the_others(tmp_path: Path) -> None:
    flood, others = tmp_path / "flood.log", [tmp_path / f"{number}.log" for number in range(20)]
    tail = LogTail(NOW, sweep_bytes=4 * 1024 * 1024, sweep_seconds=10.0)
    assert texts(tail.read(oom)) == []
    flood.write_bytes(cri_line(1) * 500_000)
    for path in others:
        append(path, "out of memory\n")
    tail.follow({flood: Plain, **dict.fromkeys(others, Plain)})
    assert texts(tail.read(oom)) == ["out of memory"] * 20
    assert tail.read_bytes < 6 * 1024 * 1024
    while tail.read_bytes < flood.stat().st_size:
        assert texts(tail.read(oom)) == []
    assert tail.skipped_bytes == 0


def test_files_that_cannot_be_read_are_told_with_a_remedy(tmp_path: Path) -> None:
    loop, fifo, missing = (tmp_path / name for name in ("loop", "fifo", "missing"))
    loop.symlink_to(loop)
    os.mkfifo(fifo)
    tail = LogTail(NOW)
    tail.follow({loop: Plain, fifo: Plain, missing: Plain})
    assert texts(tail.read(everything)) == []
    assert tail.failure_count == 2
    assert tail.failed_file_counts == {
        "Too many levels of symbolic links": 1,
        "not a regular file": 1,
    }
    assert tail.unavailable_reason == (
        f"{loop} and such cannot be read (Too many levels of symbolic links): remove the link that "
        f"leads to itself; {fifo} and such cannot be read (not a regular file): see that the path "
        "leads to a regular file on a healthy file system"
    )


def test_permission_denied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *, is_packed: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "0.log"
    path.touch()
    monkeypatch.setattr("rightslice.exporter.host.oom.log_file.open_source", refuse)
    tail = LogTail(NOW)
    tail.follow({path: Plain})
    assert texts(tail.read(everything)) == []
    assert tail.unavailable_reason is not None
    assert tail.unavailable_reason.endswith(log_tail.READ_REMEDY)
    monkeypatch.undo()


def test_parts_of_a_message_may_be_apart_in_chunks(tmp_path: Path) -> None:
    path, count = tmp_path / "0.log", 20_000
    path.touch()
    tail = LogTail(NOW, sweep_seconds=10.0)
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(oom)) == []
    append(path, f"{AFTER} stdout P CUDA out \n{AFTER} stdout F of memory\n" * count)
    assert texts(tail.read(oom)) == ["CUDA out of memory"] * count
