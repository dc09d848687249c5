"""One RDMA device, read as a whole: the states of its ports and their counters."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.net.counter_files import CounterFiles, DeviceGoneError
from rightslice.exporter.host.net.devices import RdmaDevice, RdmaPort, class_of
from rightslice.exporter.host.net.port_state import PortState, read_port_state
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.reading_error import ReadingError, device_gone
from rightslice.facts.nics import CounterRow, find_nic_driver, standard_nic_driver

NO_PORT = ""
# How often it is looked for files that came or went: a driver may show more of them later.
LOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PortReading:
    """What one port tells now. `number` is empty for what a device of several ports has as one.

    `values` are in the units of their metrics. `port` and `state` are None for the device's own.
    """

    number: str
    port: RdmaPort | None
    state: PortState | None
    values: list[tuple[CounterRow, float]]
    unreadable_count: int | None
    reset_growth: int
    saturated: frozenset[str]


class RdmaReader(NodePart):
    """Reads one device; its files stay open. A lane of its own: a device that hangs hides no other.

    `has_returned` says that another reader read the device before it was gone for a while.
    `device` may be exchanged for a newer description of the same device. For one thread.
    """

    asks_driver = False

    def __init__(
        self, sysfs: Path, device: RdmaDevice, clock: Clock, *, has_returned: bool = False
    ) -> None:
        self.id = device.name
        self.lane = f"rdma {device.name}"
        self.device = device
        self.states: dict[int, PortState] = {}
        self._folder = class_of(sysfs) / device.name
        self._driver = find_nic_driver(device.driver) or standard_nic_driver()
        self._clock = clock
        self._has_returned = has_returned
        self._files: dict[str, CounterFiles] = {}
        self._folder_seen: tuple[int, int] | None = None
        self._numbers_seen: tuple[int, ...] = ()
        self._look_seconds = float("-inf")
        self._read_seconds: float | None = None

    def read(self) -> Iterator[PortReading]:
        """Read all ports, and then what is the device's own.

        Raises ReadingError if it is gone, or if no file can be opened any more.
        """
        now_seconds = self._clock.monotonic_seconds()
        ports = self.device.ports
        self._look(ports, now_seconds)
        elapsed_seconds = 0.0 if self._read_seconds is None else now_seconds - self._read_seconds
        has_returned = self._has_returned
        for port in ports:
            state = self.states[port.number] = read_port_state(self._port_folder(port))
            number = str(port.number)
            yield self._reading(number, port, state, elapsed_seconds, has_returned=has_returned)
        if NO_PORT in self._files and self._files[NO_PORT].file_count:
            yield self._reading(NO_PORT, None, None, elapsed_seconds, has_returned=has_returned)
        # Only now: after a failure, what was not read is as old as it was.
        self._read_seconds, self._has_returned = now_seconds, False

    def _look(self, ports: tuple[RdmaPort, ...], now_seconds: float) -> None:
        """Open the files that are there, at first, from time to time, and of a device made anew."""
        try:
            found = os.stat(self._folder)
        except OSError:
            raise self._gone() from None
        seen = (found.st_ino, found.st_mtime_ns)
        numbers = tuple(port.number for port in ports)
        is_same = seen == self._folder_seen and numbers == self._numbers_seen
        if is_same and now_seconds - self._look_seconds < LOOK_SECONDS:
            return
        if not is_same:
            self.close()
        if numbers != self._numbers_seen:
            self._files = {}
        folders = {str(port.number): self._port_folder(port) for port in ports}
        # One device with one port: what is the device's own is the port's.
        also = self._folder if len(ports) == 1 else None
        if also is None:
            folders[NO_PORT] = self._folder
        for number, folder in folders.items():
            if number in self._files:
                self._files[number].look()
            else:
                self._files[number] = CounterFiles(folder, self._driver, also)
        # Only now: what could not be opened is tried again in the next round.
        self._folder_seen, self._numbers_seen, self._look_seconds = seen, numbers, now_seconds

    def _port_folder(self, port: RdmaPort) -> Path:
        return self._folder / "ports" / str(port.number)

    def _reading(
        self,
        number: str,
        port: RdmaPort | None,
        state: PortState | None,
        elapsed_seconds: float,
        *,
        has_returned: bool,
    ) -> PortReading:
        files = self._files[number]
        try:
            rate = None if state is None else state.rate_bytes_per_second
            values = files.read(elapsed_seconds, rate)
        except DeviceGoneError:
            raise self._gone() from None
        return PortReading(
            number,
            port,
            state,
            list(values.values()),
            files.unreadable_count if files.file_count else None,
            int(files.has_reset or (has_returned and bool(values))),
            files.saturated,
        )

    def _gone(self) -> ReadingError:
        self.close()
        return device_gone(self.id)

    def close(self) -> None:
        """Let go of the files; the next reading opens those that are there then.

        What has fallen by then began anew: a register wraps only while its device is there.
        """
        for files in self._files.values():
            files.close()
        self._folder_seen, self._read_seconds = None, None
