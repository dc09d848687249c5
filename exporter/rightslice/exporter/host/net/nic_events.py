"""Events of network cards in the kernel log, as they are written."""

from collections import Counter
from collections.abc import Callable, Iterable

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import READS_PER_CALL, KernelLog
from rightslice.exporter.host.net.nic_log import DRIVERS, EVENTS, parse_nic_event
from rightslice.exporter.host.net.rdma_reader import RdmaReader
from rightslice.exporter.host.part import NodePart


class NicEvents(NodePart):
    """Reads the log from its own place in it. What was written before the start is old."""

    id = "nic_events"
    lane = "network"
    asks_driver = False

    def __init__(
        self, log: KernelLog, readers: Callable[[], Iterable[RdmaReader]], clock: Clock
    ) -> None:
        self._log = log
        self._readers = readers
        self._start_seconds = clock.monotonic_seconds()
        self._is_live = False

    @property
    def is_readable(self) -> bool:
        return self._log.unavailable_reason is None

    def take_new(self) -> Counter[tuple[str, str]]:
        """Count the events since the last call by place and kind, 0 of what nothing was told of."""
        places = {
            reader.device.pci_bus_id
            for reader in self._readers()
            if reader.device.driver in DRIVERS and reader.device.pci_bus_id
        }
        counts = Counter({(place, event): 0 for place in places for event in EVENTS})
        records = self._log.read_new()
        for record in records:
            is_old = not self._is_live and record.monotonic_seconds < self._start_seconds
            found = parse_nic_event(record.text) if record.is_from_kernel and not is_old else None
            if found is not None:
                counts[found] += 1
        is_at_end = len(records) < READS_PER_CALL
        self._is_live = self._is_live or (self.is_readable and is_at_end)
        return counts
