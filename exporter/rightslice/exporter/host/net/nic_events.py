"""Events of network cards in the kernel log, as they are written."""

from collections import Counter
from collections.abc import Callable, Iterable

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.live_kernel_log import LiveKernelLog
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
        self._log = LiveKernelLog(log, clock)
        self._readers = readers

    @property
    def is_readable(self) -> bool:
        return self._log.is_readable

    def take_new(self) -> Counter[tuple[str, str]]:
        """Count the events since the last call by place and kind, 0 of what nothing was told of."""
        places = {
            reader.device.pci_bus_id
            for reader in self._readers()
            if reader.device.driver in DRIVERS and reader.device.pci_bus_id
        }
        counts = Counter({(place, event): 0 for place in places for event in EVENTS})
        for record in self._log.read_new():
            found = parse_nic_event(record.text)
            if found is not None:
                counts[found] += 1
        return counts
