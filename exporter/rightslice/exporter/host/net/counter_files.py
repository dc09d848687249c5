"""The counters of one port: files of sysfs that are kept open and read anew each time."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.net.register import Register
from rightslice.exporter.host.net.sysfs import names_in
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

Key = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class _File:
    row: CounterRow
    register: Register
    descriptor: int


class DeviceGoneError(Exception):
    """The device was removed while its files were open."""


class CounterFiles:
    """Reads the counters that a driver's rows know, of one port or of a device as a whole.

    `also` is a folder more, whose counters count as well where `folder` has not the same. A file
    that cannot be opened or read costs nothing but itself. For one thread.

    Of the last reading tell `unreadable_count`, how many files are there and tell no number;
    `saturated`, the metrics of registers that stand at their ends; and `has_reset`.
    """

    def __init__(self, folder: Path, driver: NicDriver, also: Path | None = None) -> None:
        self.unreadable_count = 0
        self.saturated: frozenset[str] = frozenset()
        self.has_reset = False
        self._folders = (folder,) if also is None else (folder, also)
        self._driver = driver
        self._refused_count = 0
        self._files: list[_File] = []
        self._paths: list[tuple[Path, CounterRow]] = []
        self._registers: dict[CounterRow, Register] = {}
        self.look()

    def look(self) -> None:
        """Open what is there by now, if that is not what is open. Registers go on."""
        paths = list(_chosen(self._folders, self._driver))
        if paths == self._paths and not self._refused_count:
            return
        self.close()
        self._paths = paths
        for path, row in paths:
            try:
                descriptor = os.open(path, FLAGS)
            except OSError:
                self._refused_count += 1
                continue
            register = self._registers.setdefault(row, Register(row))
            self._files.append(_File(row, register, descriptor))

    def read(
        self, elapsed_seconds: float, bytes_per_second: float | None
    ) -> dict[Key, tuple[CounterRow, float]]:
        """Give the value of each series, in the unit of its metric.

        Raises DeviceGoneError where no file can be read any more because the device is gone.
        """
        values: dict[Key, tuple[CounterRow, float]] = {}
        unread: list[CounterRow] = []
        gone_count, saturated = 0, []
        resets_before = sum(file.register.reset_count for file in self._files)
        for file in self._files:
            row, register = file.row, file.register
            try:
                data = os.pread(file.descriptor, READ_BYTES, 0)
            except OSError as error:
                unread.append(row)
                gone_count += error.errno in GONE
                continue
            text = data.strip()
            if not text.isdigit() or len(data) == READ_BYTES or (raw := int(text)) > MOST:
                unread.append(row)
                continue
            value = row.scaled(register.take(raw, elapsed_seconds, bytes_per_second))
            if row.is_summed and row.key in values:
                value += values[row.key][1]
            values[row.key] = (row, value)
            if register.is_saturated:
                saturated.append(row.metric)
        if gone_count and not values:
            raise DeviceGoneError
        for row in unread:  # a sum without one of its parts is another number
            values.pop(row.key, None)
        self.unreadable_count = self._refused_count + len(unread)
        self.saturated = frozenset(saturated)
        self.has_reset = sum(file.register.reset_count for file in self._files) > resets_before
        return values

    @property
    def file_count(self) -> int:
        """Tell how many files of counters that are known there are."""
        return len(self._paths)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files. `look` opens them again."""
        for file in self._files:
            os.close(file.descriptor)
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
