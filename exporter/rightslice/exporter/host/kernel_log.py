"""The kernel log, from /dev/kmsg: records as they are written, without ever waiting for one."""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# "6,3964,206764307,-;text": facility and level in one number, sequence number, microseconds since
# boot, flags, and with some kernels more fields. The text may hold commas, colons and semicolons.
RECORD = re.compile(
    rb"(?P<priority>\d{1,9}),(?P<sequence>\d{1,20}),(?P<stamp_us>\d{1,20}),[^;]*;(?P<text>.*)"
)
# The kernel escapes control characters, the backslash and all that is not ASCII; it has no other
# escape than this one (Documentation/ABI/testing/dev-kmsg).
ESCAPED_BYTE = re.compile(rb"\\x([0-9a-fA-F]{2})")
LEVEL_BITS = 3
KERNEL_FACILITY = 0
MICROSECONDS_PER_SECOND = 1_000_000

KERNEL_LOG_DEVICE = (1, 11)  # major and minor number, fixed for all of Linux
# No record is larger, and the device refuses a buffer that is smaller than its record.
READ_BYTES = 8192
# What a flood leaves unread comes with the next call.
READS_PER_CALL = 16_384
LINE_LIMIT_BYTES = 64 * 1024
RETRY_SECONDS = 60.0

MOUNT_REMEDY = "mount the node's /dev/kmsg into the container"
PERMISSION_REMEDY = (
    "give CAP_SYSLOG or set kernel.dmesg_restrict=0, and in a container allow the device as well"
)
REMEDIES = {errno.EACCES: PERMISSION_REMEDY, errno.EPERM: PERMISSION_REMEDY}


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `priority` is its level, 0 (emergency) to 7 (debug)."""

    priority: int
    facility: int
    sequence: int
    monotonic_seconds: float
    text: str

    @property
    def is_from_kernel(self) -> bool:
        """Tell whether the kernel wrote it: on what programs write, it forces another facility."""
        return self.facility == KERNEL_FACILITY

    def wall_seconds(self, *, wall_now_seconds: float, monotonic_now_seconds: float) -> float:
        """Give the record's time since the Unix epoch; never later than now.

        The stamp is the kernel's local clock, which starts with time.monotonic() but is not
        disciplined by NTP: after weeks of uptime the two are seconds to minutes apart.
        """
        age_seconds = monotonic_now_seconds - self.monotonic_seconds
        return wall_now_seconds - max(age_seconds, 0.0)


def parse_record(line: bytes) -> Record | None:
    """Read one line; None for one that starts no record, such as a record's " KEY=value"."""
    match = RECORD.fullmatch(line)
    if match is None:
        return None
    facility, priority = divmod(int(match["priority"]), 1 << LEVEL_BITS)
    return Record(
        priority=priority,
        facility=facility,
        sequence=int(match["sequence"]),
        monotonic_seconds=int(match["stamp_us"]) / MICROSECONDS_PER_SECOND,
        text=_unescaped(match["text"]).decode("utf-8", "replace"),
    )


def _unescaped(text: bytes) -> bytes:
    return ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode("ascii")), text)


class KernelLog:
    """The records of /dev/kmsg, or of a file or FIFO that holds such lines.

    The first call gives all that the kernel still remembers, which may be days old. `lost_count`
    counts records that were overwritten before they were read, at least one for each time that
    happened. `unavailable_reason` says in a sentence why nothing can be read, and what to do; None
    while the log can be read, and before the first call. Not thread-safe.
    """

    def __init__(
        self,
        path: Path,
        now_seconds: Callable[[], float] = time.monotonic,
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self.unavailable_reason: str | None = None
        self.lost_count = 0
        self._path = path
        self._now_seconds = now_seconds
        self._read = read
        self._descriptor: int | None = None
        self._retry_at_seconds = float("-inf")
        self._partial_line = b""
        self._last_sequence: int | None = None
        self._was_overwritten = False

    def read_new(self) -> list[Record]:
        """Read what was written since the last call; empty also when the log is unavailable."""
        records: list[Record] = []
        try:
            descriptor = self._open()
            for record in self._records(descriptor) if descriptor is not None else ():
                records.append(record)  # one by one: an error must not cost those before it
        except OSError as error:
            remedy = REMEDIES.get(error.errno or 0, MOUNT_REMEDY)
            self.unavailable_reason = f"{self._path} cannot be read ({error.strerror}): {remedy}"
            self._retry_at_seconds = self._now_seconds() + RETRY_SECONDS
            self.close()
        return records

    def close(self) -> None:
        """Let go of the file; the next call opens it again and gives nothing twice."""
        self._partial_line = b""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int | None:
        """Open the file if it is not; None while it is too early to try again."""
        if self._descriptor is not None:
            return self._descriptor
        if self._now_seconds() < self._retry_at_seconds:
            return None
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        status = os.fstat(self._descriptor)
        device = (os.major(status.st_rdev), os.minor(status.st_rdev))
        # Some containers have the null device or a console there. A console must not be read: its
        # input belongs to somebody else.
        if stat.S_ISCHR(status.st_mode) and device != KERNEL_LOG_DEVICE:
            raise OSError(errno.ENODEV, "a device that is not the kernel log")
        self.unavailable_reason = None
        return self._descriptor

    def _records(self, descriptor: int) -> Iterator[Record]:
        for _ in range(READS_PER_CALL):
            try:
                data = self._read(descriptor, READ_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the next read gives the oldest record that is left
                self._was_overwritten = True
                continue
            if not data:  # the end of a file, or a FIFO without a writer
                return
            for line in self._complete_lines(data):
                record = parse_record(line)
                if record is not None and self._is_new(record):
                    yield record

    def _complete_lines(self, data: bytes) -> list[bytes]:
        """Split into lines, and keep the last one until its end is read."""
        *lines, partial_line = (self._partial_line + data).split(b"\n")
        self._partial_line = partial_line if len(partial_line) <= LINE_LIMIT_BYTES else b""
        return lines

    def _is_new(self, record: Record) -> bool:
        last = self._last_sequence
        if last is not None and record.sequence <= last:
            return False
        if self._was_overwritten:
            # Gaps alone are no loss: a file may hold a selection.
            self.lost_count += 1 if last is None else max(record.sequence - last - 1, 1)
            self._was_overwritten = False
        self._last_sequence = record.sequence
        return True
