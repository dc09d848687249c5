"""The counters of one port: files of sysfs that stay open if they may, and are read each time."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.file_budget import OF_PROCESS, FileBudget
from rightslice.exporter.host.net.register import Register, registers_fell
from rightslice.exporter.host.net.sysfs import names_in, raise_if_none_left
from rightslice.exporter.host.reading_error import ReadingError
from rightslice.facts.nics import HARDWARE_FILE, PORT_FILE, CounterRow, NicDriver

# Where there is no plain file, an old mlx4 has the same counter here, 64 bits wide.
EXTENDED_FOLDER = "counters_ext"
FOLDERS = {PORT_FILE: ("counters", EXTENDED_FOLDER), HARDWARE_FILE: ("hw_counters",)}
# What fills this is no number of 64 bits: they have 20 digits.
READ_BYTES = 64
MOST = 2**64 - 1
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
# What tells that the device itself is gone, not one of its counters.
GONE = (errno.ENODEV, errno.ENXIO)
KEPT_CLOSED = -1

Key = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class _File:
    """`descriptor` is KEPT_CLOSED for one that is opened for each reading."""

    path: Path
    row: CounterRow
    register: Register
    descriptor: int

    def read(self) -> bytes:
        if self.descriptor != KEPT_CLOSED:
            return os.pread(self.descriptor, READ_BYTES, 0)
        descriptor = os.open(self.path, FLAGS)
        try:
            return os.pread(descriptor, READ_BYTES, 0)
        finally:
            os.close(descriptor)


class DeviceGoneError(Exception):
    """The device was removed while its files were open."""


class CounterFiles:
    """Reads the counters that a driver's rows know, of one port or of a device as a whole.

    `also` is a folder more, whose counters count as well where `folder` has not the same. A file
    that cannot be opened or read costs nothing but itself, unless no file can be opened any more.
    `budget` says how many may stay open, of all together. For one thread.

    Of the last reading tell `unreadable_count`, how many files are there and tell no number;
    `saturated`, the metrics of registers that stand at their ends; and `has_reset`.
    """

    def __init__(
        self,
        folder: Path,
        driver: NicDriver,
        also: Path | None = None,
        budget: FileBudget = OF_PROCESS,
    ) -> None:
        self.unreadable_count = 0
        self.saturated: frozenset[str] = frozenset()
        self.has_reset = False
        self._folders = (folder,) if also is None else (folder, also)
        self._driver = driver
        self._budget = budget
        self._refused_count = 0
        self._files: list[_File] = []
        self._paths: list[tuple[Path, CounterRow]] = []
        self._registers: dict[CounterRow, Register] = {}
        self.look()

    def look(self) -> None:
        """Open what is there by now, if that is not what is open. Registers go on.

        Raises ReadingError where no file can be opened any more; the next look tries again.
        """
        paths = list(_chosen(self._folders, self._driver))
        if paths == self._paths and not self._refused_count:
            return
        self.close()
        try:
            for path, row in paths:
                self._open(path, row)
        except ReadingError:
            self.close()
            raise
        self._paths = paths

    def _open(self, path: Path, row: CounterRow) -> None:
        try:
            descriptor = os.open(path, FLAGS)
        except OSError as error:
            raise_if_none_left(error)
            self._refused_count += 1
            return
        if not self._budget.take():
            os.close(descriptor)
            descriptor = KEPT_CLOSED
        register = self._registers.setdefault(row, Register(row))
        self._files.append(_File(path, row, register, descriptor))

    def read(
        self, elapsed_seconds: float, bytes_per_second: float | None
    ) -> dict[Key, tuple[CounterRow, float]]:
        """Give the value of each series, in the unit of its metric.

        Raises DeviceGoneError where no file can be read any more because the device is gone, and
        ReadingError where none can be opened, before any counter is taken.
        """
        readings, unread, is_gone = self._read_all()
        if is_gone and not readings:
            raise DeviceGoneError
        began_anew = registers_fell((file.register, raw) for file, raw in readings)
        values: dict[Key, tuple[CounterRow, float]] = {}
        saturated = []
        resets_before = sum(file.register.reset_count for file in self._files)
        for file, raw in readings:
            row, register = file.row, file.register
            value = row.scaled(
                register.take(raw, elapsed_seconds, bytes_per_second, began_anew=began_anew)
            )
            if row.is_summed and row.key in values:
                value += values[row.key][1]
            values[row.key] = (row, value)
            if register.is_saturated:
                saturated.append(row.metric)
        for row in unread:  # a sum without one of its parts is another number
            values.pop(row.key, None)
        self.unreadable_count = self._refused_count + len(unread)
        self.saturated = frozenset(saturated)
        self.has_reset = sum(file.register.reset_count for file in self._files) > resets_before
        return values

    def _read_all(self) -> tuple[list[tuple[_File, int]], list[CounterRow], bool]:
        """Give the numbers, the rows that have none, and whether the device is gone."""
        readings: list[tuple[_File, int]] = []
        unread: list[CounterRow] = []
        is_gone = False
        for file in self._files:
            try:
                data = file.read()
            except OSError as error:
                raise_if_none_left(error)
                unread.append(file.row)
                # A path leads nowhere once the device is gone.
                is_gone = is_gone or error.errno in (*GONE, errno.ENOENT)
                continue
            text = data.strip()
            if not text.isdigit() or len(data) == READ_BYTES or (raw := int(text)) > MOST:
                unread.append(file.row)
            else:
                readings.append((file, raw))
        return readings, unread, is_gone

    @property
    def file_count(self) -> int:
        """Tell how many files of counters that are known there are."""
        return len(self._paths)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files. `look` opens them again."""
        kept = [file for file in self._files if file.descriptor != KEPT_CLOSED]
        for file in kept:
            os.close(file.descriptor)
        self._budget.give_back(len(kept))
        self._files, self._paths, self._refused_count = [], [], 0


def _chosen(folders: tuple[Path, ...], driver: NicDriver) -> Iterator[tuple[Path, CounterRow]]:
    """Give the files that have a row, each series by the row that is preferred."""
    chosen: dict[object, tuple[Path, CounterRow]] = {}
    for path, row in _known(folders, driver):
        # Rows that are added each have a series of their own until then.
        key = (*row.key, row.name) if row.is_summed else row.key
        before = chosen.get(key)
        if before is None or row.preference < before[1].preference:
            chosen[key] = (path, row)
    return iter(chosen.values())


def _known(folders: tuple[Path, ...], driver: NicDriver) -> Iterator[tuple[Path, CounterRow]]:
    """Give all files that have a row, in the order in which they are asked."""
    for folder in folders:
        for source, places in FOLDERS.items():
            rows = driver.rows[source]
            for place in places if rows else ():
                for name in names_in(folder / place):
                    if name in rows:
                        yield folder / place / name, rows[name]
