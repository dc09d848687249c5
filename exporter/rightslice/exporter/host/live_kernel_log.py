"""The kernel log from the start of this process on."""

from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.kernel_log import READS_PER_CALL, KernelLog, Record


class LiveKernelLog:
    """Gives what the kernel itself writes from now on. For one thread.

    `log` must be read by nobody else: it remembers its place.
    """

    def __init__(self, log: KernelLog, clock: Clock) -> None:
        self._log = log
        self._start_seconds = clock.monotonic_seconds()
        self._is_live = self._has_tried = False

    @property
    def is_readable(self) -> bool:
        """Tell whether it could be read when it was last tried; False before that."""
        return self._has_tried and self._log.unavailable_reason is None

    @property
    def lost_count(self) -> int:
        return self._log.lost_count

    def read_new(self) -> list[Record]:
        """Read what is new. Until the log was read to its end once, it holds what is old."""
        records = self._log.read_new()
        self._has_tried = True
        is_live = self._is_live
        self._is_live |= self.is_readable and len(records) < READS_PER_CALL
        return [
            record
            for record in records
            if record.is_from_kernel
            and (is_live or record.monotonic_seconds >= self._start_seconds)
        ]

    def close(self) -> None:
        """Let go of the log."""
        self._log.close()
