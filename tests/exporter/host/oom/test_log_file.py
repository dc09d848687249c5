"""One log file under a real writer, and through all that can happen to a path."""

import gzip
import os
import random
import shutil
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.log_writer import cri_line, pack, writer

from rightslice.exporter.host.oom import log_chain, log_file
from rightslice.exporter.host.oom.log_file import LogFile, from_end
from rightslice.exporter.host.oom.log_rotation import Rotated, log_name, rotated_files

LINE_COUNT = 60_000


def settled() -> float:
    """Give a time at which nothing was written just now."""
    return time.time() + 10


def follow(path: Path, **options: object) -> LogFile:
    return LogFile(path, wall_now_seconds=settled, **options)  # type: ignore[arg-type]


def everything(head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool:
    return True


def lines(file: LogFile) -> list[bytes]:
    return [line for chunk in file.read() for line in chunk.data.splitlines()]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def numbers(found: list[bytes]) -> list[int]:
    return [int(line.rpartition(b" ")[2]) for line in found]


@pytest.mark.parametrize(
    ("rotation", "look_seconds", "file_count"),
    [
        ("kubelet", 0.0, 20),
        ("kubelet", 0.04, 20),  # several rotations between two looks
        ("docker", 0.0, 20),
        ("docker", 0.04, 20),
        ("copytruncate", 0.0, 20),
        ("copytruncate", 0.04, 20),
        ("delete", 0.0, 5),
        ("delete", 0.04, 5),
    ],
)
def test_real_writer_that_rotates_loses_nothing_and_doubles_nothing(
    tmp_path: Path, rotation: str, look_seconds: float, file_count: int
) -> None:
    path, found = tmp_path / "0.log", list[bytes]()
    file = LogFile(path, everything)
    deadline = time.monotonic() + 20
    with writer(path, rotation, LINE_COUNT, LINE_COUNT // file_count):
        while len(found) < LINE_COUNT and time.monotonic() < deadline:
            found += lines(file)
            time.sleep(look_seconds)
    found += lines(file)
    assert numbers(found) == list(range(LINE_COUNT))
    assert file.skipped_bytes == 0


@pytest.mark.parametrize("rotation", ["kubelet", "docker", "copytruncate"])
def test_reader_that_restarts_all_the_time_goes_on_where_it_was(
    tmp_path: Path, rotation: str
) -> None:
    path, found = tmp_path / "0.log", list[bytes]()
    file = LogFile(path, everything)
    deadline = time.monotonic() + 20
    with writer(path, rotation, LINE_COUNT, LINE_COUNT // 10):
        while len(found) < LINE_COUNT and time.monotonic() < deadline:
            found += lines(file)
            file.close()
            if file.position is not None:
                file = LogFile(path, file.position)
            time.sleep(0.01)
    assert numbers(found) == list(range(LINE_COUNT))


def test_several_rotations_between_two_looks_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    append(path, b"b\n")
    for day, text in enumerate((b"c\n", b"d\n", b"e\n")):
        rotated = path.rename(f"{path}.2026010{day + 1}-000000")
        path.write_bytes(text)
        if day < 2:
            pack(rotated)
    assert lines(file) == [b"b", b"c", b"d", b"e"]


def test_rest_is_found_in_a_compressed_file_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(map(cri_line, range(100))))
    file = follow(path)
    assert len(lines(file)) == 100
    position = file.position
    assert position is not None
    file.close()
    append(path, cri_line(100))
    pack(path.rename(f"{path}.20260101-000000"))
    path.write_bytes(cri_line(101))
    assert numbers(lines(LogFile(path, position, wall_now_seconds=settled))) == [100, 101]


def test_compressed_file_that_is_not_finished_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x-json.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    append(path, b"b\n")
    path.rename(f"{path}.1")
    path.with_name(f"{path.name}.1.gz").write_bytes(gzip.compress(b"a\nb\n")[:15])
    path.write_bytes(b"c\n")
    assert lines(file) == [b"b", b"c"]


def test_rotated_files_of_before_are_read_if_they_are_new(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for day, text in enumerate((b"old\n", b"new 1\n", b"new 2\n")):
        path.write_bytes(text)
        path.rename(f"{path}.2026010{day + 1}-000000")
    path.write_bytes(b"new 3\n")

    def is_new(head: bytes, *, is_rotated: bool, modified_wall_seconds: float) -> bool:
        return head.startswith(b"new")

    assert lines(LogFile(path, is_new, wall_now_seconds=settled)) == [b"new 1", b"new 2", b"new 3"]


def test_writer_stays_with_the_old_file_until_it_opens_the_new(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    old = path.rename(f"{path}.1")
    assert lines(file) == []  # no path at all for a moment
    append(old, b"b\n")
    path.touch()
    assert lines(file) == [b"b"]
    append(old, b"c\n")
    assert lines(file) == [b"c"]
    append(path, b"d\n")
    assert lines(file) == [b"d"]


def test_old_file_must_be_quiet_before_the_new_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = LogFile(path, wall_now_seconds=time.time)
    assert lines(file) == [b"a"]
    old = path.rename(f"{path}.1")
    path.write_bytes(b"c\n")
    assert lines(file) == []
    append(old, b"b\n")
    assert lines(file) == [b"b"]
    time.sleep(log_file.SETTLE_SECONDS)
    assert lines(file) == [b"c"]


def test_clock_that_was_put_back_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = LogFile(path, wall_now_seconds=lambda: 0.0)
    assert lines(file) == [b"a"]
    path.rename(f"{path}.1")
    path.write_bytes(b"b\n")
    assert lines(file) == [b"b"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"first\nsecond\n", b"new\n", id="shorter"),
        pytest.param(b"first\n", b"other first\nmore\n", id="grown past the place again"),
        pytest.param(b"banner\n" * 20 + b"a\n", b"banner\n" * 20 + b"b\nc\n", id="same start"),
    ],
)
def test_truncated_file_is_read_from_its_start(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(before)
    file = follow(path)
    assert lines(file) == before.splitlines()
    path.write_bytes(after)  # the same inode
    (chunk,) = file.read()
    assert (chunk.data, chunk.is_after_gap) == (after, True)


def test_what_was_not_read_before_a_truncation_is_read_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    append(path, b"b\n")
    shutil.copyfile(path, f"{path}.1")
    path.write_bytes(b"c\nd\n")
    assert lines(file) == [b"b", b"c", b"d"]


def test_deleted_file_is_drained_then_gone(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    append(path, b"b\nhalf")
    path.unlink()
    assert lines(file) == [b"b"]
    assert file.is_gone
    assert [chunk.data for chunk in file.finish()] == [b"half"]
    assert not file.is_open


def test_same_inode_with_other_content_is_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\nb\n")
    file = follow(path)
    assert lines(file) == [b"a", b"b"]
    file.close()
    inode = path.stat().st_ino
    path.write_bytes(b"x\ny\nz\n")
    assert path.stat().st_ino == inode
    assert lines(file) == [b"x", b"y", b"z"]


def test_device_may_have_another_number_after_a_reboot(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    assert file.position is not None
    append(path, b"b\n")
    other = replace(file.position, device=file.position.device + 1)
    assert lines(follow(path, start=other)) == [b"b"]


def test_line_without_its_end_is_kept_until_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\nhal")
    file = follow(path)
    assert lines(file) == [b"a"]
    assert lines(file) == []
    append(path, b"f\n")
    assert lines(file) == [b"half"]


def test_last_line_of_a_rotated_file_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\nlast")
    file = follow(path)
    assert lines(file) == [b"a"]
    path.rename(f"{path}.1")
    path.write_bytes(b"b\n")
    assert lines(file) == [b"last", b"b"]


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 250_000])
def test_long_lines_are_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * size + b"\nnext\n")
    assert lines(follow(path)) == [b"x" * size, b"next"]


def test_line_without_end_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    with path.open("wb") as target:
        for _ in range(32):
            target.write(b"x" * 1024 * 1024)
    file, kept_bytes = follow(path), 0
    tracemalloc.start()
    for _ in range(40):
        kept_bytes += sum(len(chunk.data) for chunk in file.read())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept_bytes == 64 * 1024
    assert file.skipped_bytes == 32 * 1024 * 1024 - kept_bytes
    assert peak_bytes < 2 * 1024 * 1024
    append(path, b"x\nnext\n")
    assert lines(file) == [b"next"]


def test_compressed_bomb_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    file.close()
    with gzip.open(f"{path}.1.gz", "wb") as target:
        target.write(b"a\n")
        for _ in range(32):
            target.write(b"\0" * 1024 * 1024)
    path.unlink()
    path.write_bytes(b"b\n")
    found = []
    tracemalloc.start()
    for _ in range(40):
        found += [line[:10] for line in lines(file)]
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [b"\0" * 10, b"b"]
    assert peak_bytes < 4 * 1024 * 1024


def test_flood_is_left_behind_beyond_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "BEHIND_LIMIT_BYTES", 1000)
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(b"%09d\n" % number for number in range(1000)))
    file = follow(path)
    found = lines(file)
    assert found[-1] == b"000000999"
    assert len(found) in (99, 100)
    assert file.skipped_bytes + len(found) * 10 in (10_000, 9_999)


def test_budget_ends_a_read_and_the_next_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    count = 100_000
    path.write_bytes(b"".join(map(cri_line, range(count))))
    file = follow(path)
    first = [line for chunk in file.read(300_000) for line in chunk.data.splitlines()]
    assert file.has_more
    assert 0 < len(first) < count
    found = first
    while file.has_more:
        found += lines(file)
    assert numbers(found) == list(range(count))


def test_old_file_is_begun_at_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"old\nhal")
    file = follow(path, start=from_end)
    assert lines(file) == []
    append(path, b"f\nnew\n")
    assert lines(file) == [b"half", b"new"]


def test_link_is_followed_to_where_files_are_rotated(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    target, path = tmp_path / "docker" / "x-json.log", tmp_path / "0.log"
    target.write_bytes(b"a\n")
    path.symlink_to(target)
    file = follow(path)
    assert lines(file) == [b"a"]
    file.close()
    append(target, b"b\n")
    target.rename(f"{target}.1")
    target.write_bytes(b"c\n")
    assert lines(file) == [b"b", b"c"]


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_fifo, make_loop, Path.mkdir])
def test_path_that_is_no_file_fails_and_is_tried_again(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    now = [0.0]
    path = tmp_path / "0.log"
    path.write_bytes(b"a\n")
    file = LogFile(path, now_seconds=lambda: now[0], wall_now_seconds=settled)
    assert lines(file) == [b"a"]
    append(path, b"b\n")
    old = path.rename(f"{path}.1")
    make(path)
    assert lines(file) == [b"b"]  # what is open is read all the same
    assert file.failure is not None
    assert not file.is_gone
    path.rmdir() if path.is_dir() else path.unlink()
    append(old, b"c\n")
    path.write_bytes(b"d\n")
    assert lines(file) == []  # too early
    now[0] += log_file.RETRY_SECONDS
    assert lines(file) == [b"c", b"d"]
    assert file.failure is None


def test_rest_of_a_large_compressed_file_is_read(tmp_path: Path) -> None:
    path, count = tmp_path / "0.log", 60_000
    path.write_bytes(b"".join(map(cri_line, range(count))))
    file = follow(path)
    found = [line for chunk in file.read(600_000) for line in chunk.data.splitlines()]
    position = file.position
    file.close()
    pack(path.rename(f"{path}.20260101-000000"))
    path.write_bytes(cri_line(count))
    assert position is not None
    file = follow(path, start=position)
    while file.has_more or len(found) < count:
        before = len(found)
        found += lines(file)
        assert len(found) > before
    assert numbers(found) == list(range(count + 1))


class Node:
    """A log and what a runtime, a kubelet and a reader may do to it, in any order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = self.rotation = 0
        self.packable: list[Path] = []
        self.found: list[bytes] = []
        self.file = follow(path, start=everything)

    def append(self) -> None:
        for _ in range(self.written % 7 + 1):
            append(self.path, cri_line(self.written))
            self.written += 1

    def rotate(self) -> None:
        if not self.path.exists():
            return
        self.packable.append(self.path.rename(f"{self.path}.{20260101 + self.rotation}-000000"))
        self.rotation += 1

    def pack(self) -> None:
        if self.packable:
            pack(self.packable.pop(0))

    def look(self) -> None:
        self.found += lines(self.file)

    def close(self) -> None:
        self.file.close()

    def restart(self) -> None:
        if self.file.position is not None:
            self.close()
            self.file = follow(self.path, start=self.file.position)


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_events_gives_each_line_once(tmp_path: Path, seed: int) -> None:
    node, choice = Node(tmp_path / "0.log"), random.Random(seed)
    events = [node.append, node.append, node.rotate, node.pack, node.look, node.close, node.restart]
    for _ in range(60):
        choice.choice(events)()
    node.append()
    node.look()
    node.file.close()
    assert numbers(node.found) == list(range(node.written))


def test_rotated_files_may_be_numbered_upwards(tmp_path: Path) -> None:
    """Some loggers give the newest file the highest number: none of the old is read again."""
    path = tmp_path / "train.log"
    for number in range(1, 4):
        written = tmp_path / f"train.log.{number}"
        written.write_bytes(b"old %d\n" % number)
        os.utime(written, (1_000_000 + number, 1_000_000 + number))
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    file.close()
    append(path, b"b\n")
    path.rename(f"{path}.4")
    (tmp_path / "train.log.5").write_bytes(b"c\n")
    path.write_bytes(b"d\n")
    assert [rotated.path[-1] for rotated in rotated_files(path)] == ["1", "2", "3", "4", "5"]
    assert lines(file) == [b"b", b"c", b"d"]


def test_numbers_count_down_where_a_clock_was_set_between_two_files(tmp_path: Path) -> None:
    for number, seconds in ((1, 1_000_000), (2, 2_000_000)):
        (tmp_path / f"x.{number}").touch()
        os.utime(tmp_path / f"x.{number}", (seconds, seconds))
    assert [rotated.path[-1] for rotated in rotated_files(tmp_path / "x")] == ["2", "1"]


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("a.log.1", "a.log"),
        ("a.log.12.gz", "a.log"),
        ("0.log.20260102-030405", "0.log"),
        ("a.log-20260102.gz", "a.log"),
        ("a.log", None),
        ("slurm-4711.out", None),
        (".1", None),
    ],
)
def test_name_of_a_rotated_file_tells_its_log(name: str, log: str | None) -> None:
    assert log_name(name) == log


def test_place_is_found_though_rotated_files_are_renamed_during_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x-json.log"
    path.write_bytes(b"a\n")
    file = follow(path)
    assert lines(file) == [b"a"]
    file.close()
    append(path, b"b\n")
    path.rename(f"{path}.1")
    path.write_bytes(b"c\n")
    real = rotated_files

    def renamed_after_the_first_look(log: Path) -> list[Rotated]:
        found = real(log)
        if Path(f"{path}.1").exists():
            Path(f"{path}.1").rename(f"{path}.2")
        return found

    monkeypatch.setattr(log_chain, "rotated_files", renamed_after_the_first_look)
    assert lines(file) == [b"b", b"c"]
