"""Many files at once, restarts with a state, and what is passed without decoding."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import log_counter
from support.log_writer import cri_line, pack, writer

from rightslice.exporter.host.oom import log_file, log_tail
from rightslice.exporter.host.oom.log_format import CriOrDocker, LogMessage, Plain
from rightslice.exporter.host.oom.log_rotation import open_source
from rightslice.exporter.host.oom.log_tail import LogTail

BEFORE, NOW, AFTER = "2026-01-01T00:00:00Z", 1767323045.0, "2026-01-03T00:00:00Z"


def everything(chunk: bytes) -> bool:
    return True


def oom(chunk: bytes) -> bool:
    return b"ut of memory" in chunk


def texts(found: Iterator[tuple[Path, LogMessage]]) -> list[str]:
    return [message.text for _, message in found]


def stamp(wall_seconds: float) -> str:
    return datetime.fromtimestamp(wall_seconds, UTC).isoformat()


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
        f"{loop} cannot be read (Too many levels of symbolic links): remove the link that "
        f"leads to itself; {fifo} cannot be read (not a regular file): see that the path "
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


@pytest.mark.parametrize("is_consumer", [True, False], ids=["consumer", "filter"])
def test_sweep_stops_within_a_file_of_costly_lines_and_loses_nothing(
    tmp_path: Path, is_consumer: bool
) -> None:
    now, path = [0.0], tmp_path / "0.log"
    first, *others = [f"{AFTER} stdout F {number}\n" for number in range(20)]
    append(path, first)
    tail = LogTail(NOW, now_seconds=lambda: now[0], sweep_seconds=0.5)

    def costly(chunk: bytes) -> bool:
        now[0] += 0.0 if is_consumer else 1.0
        return True

    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["0"]
    append(path, "".join(others))
    sweeps: list[list[str]] = []
    counted: list[int] = []
    for _ in others:
        sweeps.append([])
        for _, message in tail.read(costly):
            sweeps[-1].append(message.text)
            counted.append(tail.read_bytes)
            now[0] += 1.0 if is_consumer else 0.0
        position = tail.positions()[path]
        given = sum(map(len, sweeps)) + 1
        assert position.offset_bytes == len("".join([first, *others][:given]))
        source = open_source(path)
        assert position.is_in(source)
        source.close()
    assert sweeps == [[str(number)] for number in range(1, 20)]
    assert counted == sorted(counted)  # what is read again is not counted again
    assert tail.read_bytes == path.stat().st_size


def test_sweep_stops_after_a_chunk_that_took_long(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    path.touch()
    tail = LogTail(NOW, now_seconds=lambda: now[0], sweep_seconds=0.5)
    tail.follow({path: Plain})
    assert texts(tail.read(oom)) == []
    append(path, "dull\n" * 200_000)

    def slow(chunk: bytes) -> bool:
        now[0] += 1.0
        return False

    assert texts(tail.read(slow)) == []
    assert 0 < tail.read_bytes <= log_file.CHUNK_BYTES
    for _ in range(4):
        assert texts(tail.read(slow)) == []
    assert tail.read_bytes == path.stat().st_size


def test_costly_lines_of_one_file_do_not_starve_the_next(tmp_path: Path) -> None:
    now, costly, other = [0.0], tmp_path / "costly.log", tmp_path / "other.log"
    costly.touch()
    other.touch()
    tail = LogTail(NOW, now_seconds=lambda: now[0], sweep_seconds=0.5)
    tail.follow({costly: Plain, other: Plain})
    assert texts(tail.read(everything)) == []
    append(costly, "costly\n" * 10)
    append(other, "other\n")
    found = []
    for _ in range(2):
        for _, message in tail.read(everything):
            found.append(message.text)
            now[0] += 1.0
    assert found == ["costly", "other"]


def test_costly_lines_in_a_compressed_file_are_each_given_once(tmp_path: Path) -> None:
    now, path, count = [0.0], tmp_path / "0.log", 20
    append(path, f"{AFTER} stdout F first\n")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == ["first"]
    append(path, "".join(f"{AFTER} stdout F {number}\n" for number in range(count)))
    tail = LogTail(NOW, tail.positions(), now_seconds=lambda: now[0])
    pack(path.rename(f"{path}.20260103-000000"))
    append(path, f"{AFTER} stdout F {count}\n")
    time.sleep(0.3)
    tail.follow({path: CriOrDocker})
    found = []
    for _ in range(2 * count):
        for _, message in tail.read(everything):
            found.append(message.text)
            now[0] += 1.0
    assert found == [str(number) for number in range(count + 1)]


def test_clock_that_is_set_back_hides_no_new_file(tmp_path: Path) -> None:
    now, wall, path = [0.0], [NOW], tmp_path / "0.log"
    tail = LogTail(NOW, now_seconds=lambda: now[0], wall_now_seconds=lambda: wall[0])
    assert texts(tail.read(everything)) == []
    now[0], wall[0] = 30.0, NOW + 30.0 - 3600.0
    plain, old = tmp_path / "plain.log", tmp_path / "old.log"
    append(path, f"{stamp(wall[0] - 10.0)} stdout F new\n")
    append(old, f"{stamp(wall[0] - 100.0)} stdout F old\n")  # begun before the exporter
    append(plain, "plain\n")
    os.utime(plain, (wall[0], wall[0]))
    tail.follow({path: CriOrDocker, old: CriOrDocker, plain: Plain})
    assert texts(tail.read(everything)) == ["new", "plain"]


def test_active_file_of_before_the_start_is_old_when_it_is_wanted_late(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    append(path, f"{BEFORE} stdout F old\n")
    tail = LogTail(NOW)
    assert texts(tail.read(everything)) == []
    append(path, f"{AFTER} stdout F now\n")
    tail.follow({path: CriOrDocker})
    assert texts(tail.read(everything)) == []


def test_old_files_without_times_that_appear_late_are_old(tmp_path: Path) -> None:
    tail = LogTail(NOW)
    assert texts(tail.read(everything)) == []
    old, new = tmp_path / "slurm-1.out", tmp_path / "slurm-2.out"
    for path, wall_seconds in ((old, 1.5e9), (new, NOW + 5.0)):
        append(path, f"{path.name}\n")
        os.utime(path, (wall_seconds, wall_seconds))
    tail.follow({old: Plain, new: Plain})
    assert texts(tail.read(everything)) == ["slurm-2.out"]
    append(old, "more\n")
    assert texts(tail.read(everything)) == ["more"]


@pytest.mark.parametrize(("has_saved", "expected"), [(True, ["new.log"]), (False, [])])
def test_files_without_times_that_were_made_while_the_exporter_was_down(
    tmp_path: Path, has_saved: bool, expected: list[str]
) -> None:
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    for path, wall_seconds in ((old, NOW - 1000.0), (new, NOW + 5.0)):
        append(path, f"{path.name}\n")
        os.utime(path, (wall_seconds, wall_seconds))
    tail = LogTail(NOW, {}, has_saved=has_saved)
    tail.follow({old: Plain, new: Plain})
    assert texts(tail.read(everything)) == expected


def test_files_are_told_apart_by_whether_they_can_be_read(tmp_path: Path) -> None:
    now = [0.0]
    idle, late, loop, dangling = (tmp_path / name for name in ("idle", "late", "loop", "dangling"))
    append(idle, "a\n")
    loop.symlink_to(loop)
    dangling.symlink_to("docker/x-json.log")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow(dict.fromkeys((idle, late, loop, dangling), Plain))
    assert texts(tail.read(everything)) == []
    assert (tail.readable, tail.missing, tail.file_count) == (frozenset([idle]), frozenset(), 1)

    now[0] = log_tail.CLOSE_IDLE_SECONDS
    assert texts(tail.read(everything)) == []
    assert (tail.readable, tail.missing, tail.file_count) == (
        frozenset([idle]),
        frozenset([late, dangling]),
        1,
    )
    assert (tail.unavailable_reason or "").endswith(
        f"; {dangling} leads to {tmp_path}/docker/x-json.log, which is not there: mount that "
        "folder as well"
    )

    (tmp_path / "docker").mkdir()
    append(tmp_path / "docker" / "x-json.log", "b\n")
    append(late, "c\n")
    assert sorted(texts(tail.read(everything))) == ["b", "c"]
    assert (tail.readable, tail.missing) == (frozenset([idle, late, dangling]), frozenset())
    assert "leads to" not in (tail.unavailable_reason or "").replace("leads to itself", "")

    tail.follow({late: Plain})
    assert (tail.readable, tail.file_count) == (frozenset([late]), 1)


def test_path_without_a_file_is_missing_only_after_a_while(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "0.log"
    append(path, "a\n")
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow({path: Plain})
    for now[0] in (0.0, 100.0):
        assert texts(tail.read(everything)) == []
    path.rename(tmp_path / "0.log.1")  # the next is not made yet
    now[0] += 1.0
    assert texts(tail.read(everything)) == []
    assert (tail.readable, tail.missing) == (frozenset([path]), frozenset())
    now[0] += log_tail.MISSING_SECONDS
    assert texts(tail.read(everything)) == []
    assert (tail.readable, tail.missing) == (frozenset(), frozenset([path]))
    assert tail.unavailable_reason is None


def test_line_that_is_never_ended_is_given_after_a_while_and_its_rest_later(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "train.log"
    path.touch()
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow({path: Plain})
    assert texts(tail.read(everything)) == []
    append(path, "CUDA out of memory")
    assert texts(tail.read(everything)) == []
    now[0] += log_tail.FLUSH_QUIET_SECONDS
    assert texts(tail.read(everything)) == ["CUDA out of memory"]
    now[0] += log_tail.FLUSH_QUIET_SECONDS
    assert texts(tail.read(everything)) == []
    append(path, ", said the card\nnext\n")
    assert texts(tail.read(everything)) == [", said the card", "next"]


def test_of_many_files_those_that_nobody_writes_are_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "FILES_LOOKED_AT_PER_SECOND", 10)
    now, looks = [0.0], [0]
    paths = [tmp_path / f"{number}.log" for number in range(40)]
    for path in paths:
        path.touch()

    def look(path: Path) -> os.stat_result:
        looks[0] += 1
        return os.stat(path)

    monkeypatch.setattr(log_file, "stat", look)
    tail = LogTail(NOW, now_seconds=lambda: now[0])
    tail.follow(dict.fromkeys(paths, Plain))
    assert texts(tail.read(everything)) == []
    counts = []
    for _ in range(100):
        looks[0] = 0
        append(paths[0], "busy\n")
        assert texts(tail.read(everything)) == ["busy"]
        counts.append(looks[0])
        now[0] += 1
    assert counts[0] == 40
    assert sum(counts[-4:]) == 39 + 4  # the busy one every time
    append(paths[1], "awake\n")
    found = []
    for _ in range(4):
        found += texts(tail.read(everything))
        now[0] += 1
    assert found == ["awake"]
