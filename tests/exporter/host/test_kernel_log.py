"""The kernel log as the device, a file and a FIFO give it: partial, repeated, lost, forbidden."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kernel_log import (
    LINE_LIMIT_BYTES,
    READS_PER_CALL,
    RETRY_SECONDS,
    KernelLog,
    Record,
    parse_record,
)
from rightslice.exporter.host.xid import parse_xid

DEVICE = Path("/dev/kmsg")
NOW_SECONDS = 1_000.0


def line(sequence: int, text: str = "text", priority: int = 6) -> bytes:
    return f"{priority},{sequence},{sequence * 1_000},-;{text}\n".encode()


def sequences(records: list[Record]) -> list[int]:
    return [record.sequence for record in records]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty file in the place of the device."""
    path = tmp_path / "kmsg"
    path.touch()
    return path


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_SECONDS)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


Answer = bytes | int


def device_that_answers(path: Path, *answers: Answer) -> KernelLog:
    """Give a log whose reads give these records and error numbers, and then nothing."""
    left = iter(answers)

    def read(_descriptor: int, _size: int) -> bytes:
        answer = next(left, errno.EAGAIN)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    return KernelLog(path, read=read)


@pytest.mark.parametrize(
    ("text", "record"),
    [
        pytest.param(
            b"6,812,45600789,-;nvidia-peermem: a, b; c:3 done",
            Record(6, 0, 812, 45.600789, "nvidia-peermem: a, b; c:3 done"),
            id="text with the separators in it",
        ),
        pytest.param(
            b"4,812,45600789,c,caller=T77;NVRM: x",
            Record(4, 0, 812, 45.600789, "NVRM: x"),
            id="more fields",
        ),
        pytest.param(b"11,0,0,-;", Record(3, 1, 0, 0.0, ""), id="a program's, empty"),
        pytest.param(b"30,5,9,-;x", Record(6, 3, 5, 0.000009, "x"), id="a daemon's"),
        pytest.param(
            rb"6,5,0,-;two\x0alines \x5cx41 \xc3\xa9 \xff \x4",
            Record(6, 0, 5, 0.0, "two\nlines \\x41 é � \\x4"),
            id="escapes, once and where complete",
        ),
    ],
)
def test_a_record_is_read(text: bytes, record: Record) -> None:
    assert parse_record(text) == record


@pytest.mark.parametrize(
    "text",
    [b"", b" SUBSYSTEM=pci", b" DEVICE=+pci:0000:4f:00.0", b"6,5,-;x", b"6,5,0,-", b"a,5,0,-;x"],
)
def test_other_lines_start_no_record(text: bytes) -> None:
    assert parse_record(text) is None


@given(st.binary() | st.binary().map(lambda text: b"6,5,0,-;" + text))
def test_no_bytes_break_the_parser(text: bytes) -> None:
    parse_record(text)


def test_a_record_of_a_program_is_not_from_the_kernel() -> None:
    assert Record(3, 0, 1, 0.0, "x").is_from_kernel
    assert not Record(3, 1, 1, 0.0, "x").is_from_kernel


def test_a_stamp_since_boot_becomes_wall_time() -> None:
    record = Record(6, 0, 1, 400.0, "x")

    assert record.wall_seconds(wall_now_seconds=90_000.0, monotonic_now_seconds=460.0) == 89_940.0


def test_a_record_is_never_from_the_future() -> None:
    record = Record(6, 0, 1, 460.5, "x")

    assert record.wall_seconds(wall_now_seconds=90_000.0, monotonic_now_seconds=460.0) == 90_000.0


def test_a_call_gives_what_is_new(file: Path) -> None:
    append(file, line(1) + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:4f:00.0\n" + line(2))
    log = KernelLog(file)

    first, second = log.read_new(), log.read_new()
    append(file, line(3))

    assert (sequences(first), second, sequences(log.read_new())) == ([1, 2], [], [3])
    log.close()


def test_a_line_waits_for_its_end(file: Path) -> None:
    log = KernelLog(file)
    append(file, line(1) + b"6,2,2000,-;half")

    assert sequences(log.read_new()) == [1]
    assert log.read_new() == []
    append(file, b" and half\n")
    assert [record.text for record in log.read_new()] == ["half and half"]
    log.close()


def test_a_line_without_an_end_is_not_kept_for_ever(file: Path) -> None:
    log = KernelLog(file)
    append(file, b"6,1,0,-;" + b"x" * 2 * LINE_LIMIT_BYTES)

    assert log.read_new() == []
    append(file, b"\n" + line(2))
    assert sequences(log.read_new()) == [2]
    log.close()


def test_a_sequence_number_counts_once(file: Path) -> None:
    log = KernelLog(file)
    append(file, line(7) + line(9) + line(9) + line(8) + line(10))

    assert sequences(log.read_new()) == [7, 9, 10]
    append(file, line(10) + line(11))
    assert sequences(log.read_new()) == [11]
    log.close()


def test_closing_forgets_no_sequence_number(file: Path) -> None:
    log = KernelLog(file)
    append(file, line(7))
    log.read_new()
    log.close()
    append(file, line(8))

    assert sequences(log.read_new()) == [8]
    log.close()
    log.close()


def test_closing_forgets_half_a_line(file: Path) -> None:
    log = KernelLog(file)
    append(file, b"6,7,7000,-;half")
    log.read_new()
    log.close()
    append(file, b" and half\n")

    assert [record.text for record in log.read_new()] == ["half and half"]
    log.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def writer(fifo: Path) -> Iterator[Callable[[bytes], int]]:
    """Give the writing end of the FIFO. A FIFO can be opened for writing once it is being read."""
    descriptors: list[int] = []

    def write(data: bytes) -> int:
        if not descriptors:
            descriptors.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return os.write(descriptors[0], data)

    yield write
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_fifo_is_never_waited_for(fifo: Path, writer: Callable[[bytes], int]) -> None:
    log = KernelLog(fifo)

    without_writer = log.read_new()
    writer(line(1) + b"6,2,")
    with_writer = log.read_new()
    idle = log.read_new()
    writer(b"2000,-;text\n")

    assert (without_writer, sequences(with_writer), idle) == ([], [1], [])
    assert sequences(log.read_new()) == [2]
    assert log.unavailable_reason is None
    log.close()


def test_records_that_were_overwritten_are_counted(file: Path) -> None:
    log = device_that_answers(file, line(3), errno.EPIPE, line(10), line(11))

    assert sequences(log.read_new()) == [3, 10, 11]
    assert log.lost_count == 6
    log.close()


def test_losing_several_times_adds_up(file: Path) -> None:
    answers = (line(3), errno.EPIPE, errno.EPIPE, line(10), errno.EPIPE, errno.EAGAIN, line(13))
    log = device_that_answers(file, *answers)

    assert (sequences(log.read_new()), sequences(log.read_new())) == ([3, 10], [13])
    assert log.lost_count == 6 + 2
    log.close()


def test_losing_before_the_first_record_loses_at_least_one(file: Path) -> None:
    log = device_that_answers(file, errno.EPIPE, line(900))

    assert sequences(log.read_new()) == [900]
    assert log.lost_count == 1
    log.close()


def test_a_gap_alone_is_no_loss(file: Path) -> None:
    log = device_that_answers(file, line(3), line(10))
    log.read_new()

    assert log.lost_count == 0
    log.close()


def test_a_flood_ends_with_the_call(file: Path) -> None:
    log = KernelLog(file, read=lambda *_: line(next(numbers)))
    numbers = iter(range(10 * READS_PER_CALL))

    assert len(log.read_new()) == READS_PER_CALL
    assert log.read_new()[0].sequence == READS_PER_CALL
    log.close()


def test_an_error_costs_no_record_that_was_read_before_it(file: Path) -> None:
    log = device_that_answers(file, line(1), errno.EIO)

    assert sequences(log.read_new()) == [1]
    assert log.unavailable_reason == (
        f"{file} cannot be read (Input/output error): mount the node's /dev/kmsg into the container"
    )


def test_a_missing_log_says_what_to_mount(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg")

    assert log.unavailable_reason is None
    assert log.read_new() == []
    assert log.unavailable_reason == (
        f"{tmp_path}/kmsg cannot be read (No such file or directory): "
        "mount the node's /dev/kmsg into the container"
    )


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
def test_a_forbidden_log_says_what_to_allow(code: int, file: Path) -> None:
    log = device_that_answers(file, code)

    assert log.read_new() == []
    assert log.unavailable_reason == (
        f"{file} cannot be read ({os.strerror(code)}): give CAP_SYSLOG or set "
        "kernel.dmesg_restrict=0, and in a container allow the device as well"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_forbidden(file: Path) -> None:
    file.chmod(0)
    log = KernelLog(file)

    assert log.read_new() == []
    assert "Permission denied" in (log.unavailable_reason or "")


def test_a_folder_in_its_place_is_unavailable(tmp_path: Path) -> None:
    # Docker makes one when it is told to mount a path that does not exist.
    log = KernelLog(tmp_path)

    assert log.read_new() == []
    assert "Is a directory" in (log.unavailable_reason or "")


def test_another_device_in_its_place_is_unavailable() -> None:
    log = KernelLog(Path("/dev/null"))

    assert log.read_new() == []
    assert log.unavailable_reason == (
        "/dev/null cannot be read (a device that is not the kernel log): "
        "mount the node's /dev/kmsg into the container"
    )


def test_an_unavailable_log_is_tried_once_a_minute(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "kmsg"
    log = KernelLog(path, now_seconds=clock.now_seconds)
    log.read_new()
    append(path, line(1))

    clock.advance(RETRY_SECONDS - 1)
    too_early = (log.read_new(), log.unavailable_reason is None)
    clock.advance(1)
    in_time = (sequences(log.read_new()), log.unavailable_reason)

    assert (too_early, in_time) == (([], False), ([1], None))
    log.close()


@pytest.mark.shared
def test_captured_records_with_one_sequence_number(shared: Path) -> None:
    path = shared / "cases" / "kmsg-raw-records-same-sequence.log"
    all_records = [parse_record(text) for text in path.read_bytes().splitlines()]
    log = KernelLog(path)

    records = log.read_new()

    assert [
        (record.priority, record.facility, record.sequence) for record in all_records if record
    ] == [(6, 0, 3964), (6, 0, 3965), (6, 0, 3973), (6, 0, 3973), (6, 0, 3973)]
    assert records[0] == Record(6, 0, 3964, 206.764307, "nvidia-nvswitch2: open (major=510)")
    assert sequences(records) == [3964, 3965, 3973]
    assert records[2].text == (
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, "
        "skipping further processing"
    )
    assert [parse_xid(record.text) for record in records] == [None] * 3
    assert (log.lost_count, log.unavailable_reason) == (0, None)
    log.close()


def why_the_device_is_out_of_reach() -> str | None:
    """Say why this machine's kernel log cannot be read and written; None where it can."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return f"{DEVICE} cannot be opened for reading and writing here: {error.strerror}"
    policy = Path("/proc/sys/kernel/printk_devkmsg")
    if policy.exists() and policy.read_text().strip() == "off":
        return "kernel.printk_devkmsg=off: the kernel drops what programs write"
    return None


OUT_OF_REACH = why_the_device_is_out_of_reach()


@pytest.fixture
def device() -> Iterator[KernelLog]:
    log = KernelLog(DEVICE)
    while log.read_new():  # all that was written before the test
        pass
    yield log
    log.close()


def write_to_kernel_log(text: str) -> None:
    # The end of the line matters: without it, the record stays open and unread.
    DEVICE.write_text(text + "\n")


@pytest.mark.integration
@pytest.mark.skipif(OUT_OF_REACH is not None, reason=OUT_OF_REACH or "")
def test_a_forged_record_is_read_and_is_not_from_the_kernel(device: KernelLog) -> None:
    # Priority 3 of facility 0, the kernel's own, is what the forger asks for. No machine has a
    # card at this address.
    sentence = f"NVRM: Xid (PCI:fffe:fe:1f): 79, a test of rightslice wrote this, {time.time_ns()}"

    write_to_kernel_log(f"<3>{sentence}")
    (record,) = [record for record in device.read_new() if record.text.startswith(sentence)]

    assert parse_xid(record.text) == ("0000fffe:fe:1f", 79, None)
    assert (record.priority, record.is_from_kernel) == (3, False)


@pytest.mark.integration
@pytest.mark.skipif(OUT_OF_REACH is not None, reason=OUT_OF_REACH or "")
def test_the_stamps_of_the_device_are_of_the_monotonic_clock(device: KernelLog) -> None:
    sentence = f"rightslice test {time.time_ns()}: café \\ \x01, two\nlines"
    uptime_seconds = time.monotonic()

    write_to_kernel_log(sentence)
    (record,) = [record for record in device.read_new() if record.text.startswith(sentence)]

    # NTP disciplines one of the two clocks only, by at most 500 parts in a million.
    drift_seconds = 1.0 + uptime_seconds * 500e-6
    assert record.monotonic_seconds == pytest.approx(uptime_seconds, abs=drift_seconds)


@pytest.mark.integration
@pytest.mark.skipif(OUT_OF_REACH is not None, reason=OUT_OF_REACH or "")
def test_the_device_gives_its_records_once_and_from_the_kernel_too() -> None:
    log, other = KernelLog(DEVICE), KernelLog(DEVICE)
    write_to_kernel_log(f"rightslice test {time.time_ns()}: the last record")

    numbers, others = sequences(log.read_new()), other.read_new()

    assert numbers == sorted(set(numbers))
    assert any(record.is_from_kernel for record in others)
    assert not set(numbers) & set(sequences(log.read_new()))
    log.close()
    other.close()
