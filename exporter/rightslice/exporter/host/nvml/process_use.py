"""How much of a card's time each process had lately, as the driver samples it."""

from collections.abc import Iterable, Sequence
from ctypes import byref, c_uint, c_ulonglong
from typing import TYPE_CHECKING, Any

import pynvml

from rightslice.exporter.host.nvml.calls import SUCCESS, Answer, call
from rightslice.exporter.host.nvml.rows import Rows

if TYPE_CHECKING:
    from rightslice.exporter.host.nvml.card import NvmlCard

# The size that the driver itself names when it is asked for one.
FIRST_BUFFER_LENGTH = 100
# Hundredths of a percent, in which accounting adds up its samples.
ACCOUNTED_PER_BUSY = 10_000
ACCOUNTING = "nvmlDeviceGetAccountingStats_v2"
# After so many readings without a row the newest stamp may lie in the future: a clock set back.
EMPTY_READINGS = 5
NO_SAMPLES = (0, 0)


class ProcessUse:
    """Reads the mean share that each process had of the card since the last reading.

    From accounting where it is on and adds its samples up (driver 610 and later): then nothing is
    lost between two readings. Else from the samples of the last 10 s, each of which the driver
    credits to the one process it finds on the engine. `rejected_count` counts the rows of the last
    reading that were none: of processes that are not there, out of range. `has_strangers` says that
    some were of processes that are not there. `is_baseline` says that the last reading only found
    where to begin, and stands for no time. `is_proven` says that some process was told to be busy
    at some time: without, a share of 0 may mean that this driver tells nothing.
    """

    def __init__(self, card: "NvmlCard") -> None:
        self._card = card
        self._rows = Rows(pynvml.c_nvmlProcessUtilizationSample_t, FIRST_BUFFER_LENGTH)
        self._since_us: int | None = None
        self._empty_count = 0
        # Of each process the samples counted, and their sum, when it was last read.
        self._accounts: dict[int, tuple[int, int]] | None = None
        self._accounts_us: int | None = None
        self.rejected_count = 0
        self.has_strangers = False
        self.is_baseline = True
        self.is_proven = False

    def read(self, process_ids: Iterable[int]) -> dict[int, float] | None:
        """Give the share, 0 to 1, of each of these processes since the last reading.

        None where the driver does not tell it. Raises NvmlError.
        """
        wanted = dict.fromkeys(process_ids, 0.0)
        self.rejected_count, self.has_strangers = 0, False
        accounted = self._read_accounts(wanted) if self._is_accounting() else None
        if accounted is not None:
            self._since_us = None
        else:
            self._accounts = None
            accounted = self._read_samples(wanted)
        self.is_proven = self.is_proven or self.has_strangers or any(wanted.values())
        return accounted

    def start_anew(self) -> None:
        """Forget where the last reading ended: what lies between was not watched."""
        self._since_us = self._accounts = None

    def _is_accounting(self) -> bool:
        if self._card.calls.lacks(ACCOUNTING):
            return False
        mode = c_uint()
        answer = self._card.calls.ask("nvmlDeviceGetAccountingMode", self._card.handle, byref(mode))
        return answer is Answer.VALUE and mode.value == pynvml.NVML_FEATURE_ENABLED

    def _read_accounts(self, wanted: dict[int, float]) -> dict[int, float] | None:
        self.is_baseline = self._accounts is None
        before, self._accounts = self._accounts, {}
        since_us, self._accounts_us = self._accounts_us, self._card.newest_sample_us
        grown: dict[int, tuple[int, int]] = {}
        for process_id in wanted:
            stats = pynvml.c_nvmlAccountingStats_v2_t()
            stats.pid = process_id
            code = call(ACCOUNTING, self._card.handle, byref(stats))
            if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                self._card.calls.mark_absent(ACCOUNTING)
                return None
            if code != SUCCESS:  # it ended just now, or began before accounting was on
                continue
            now = self._accounts[process_id] = (stats.sampleCount, stats.sumGpuUtil)
            if before is not None:
                is_new = since_us is not None and stats.startTime > since_us
                old = NO_SAMPLES if is_new else before.get(process_id, now)
                grown[process_id] = now[0] - old[0], now[1] - old[1]
        # Who came or ended meanwhile was sampled for a part of the time: whoever was sampled most
        # tells how long it was.
        most_count = max((count for count, _ in grown.values()), default=0)
        for process_id, (count, busy) in grown.items():
            if count > 0 and 0 <= busy <= count * ACCOUNTED_PER_BUSY:
                wanted[process_id] = busy / (most_count * ACCOUNTED_PER_BUSY)
        return wanted

    def _read_samples(self, wanted: dict[int, float]) -> dict[int, float] | None:
        since_us = self._since_us
        self.is_baseline = since_us is None
        rows = self._fetch(since_us or 0)
        if rows is None:
            return None
        newest: dict[int, int] = {}
        for row in rows:
            stamp_us, process_id, percent = row.timeStamp, row.pid, row.smUtil
            if since_us is None or stamp_us <= max(since_us, newest.get(process_id, 0)):
                continue  # unused or stale slots of the driver's buffer
            if process_id not in wanted or percent > 100:
                self.rejected_count += 1
                self.has_strangers = self.has_strangers or process_id not in wanted
                continue
            newest[process_id] = stamp_us
            wanted[process_id] = percent / 100
        self._advance(max((row.timeStamp for row in rows), default=0), is_new=bool(newest))
        return wanted

    def _advance(self, newest_row_us: int, *, is_new: bool) -> None:
        """Remember where the next reading begins.

        That is the card's newest sample where it has any: an idle card has no rows, and the time in
        which it was idle must not be averaged into what comes.
        """
        of_card_us = self._card.newest_sample_us
        self._empty_count = 0 if is_new else self._empty_count + 1
        if of_card_us is not None:
            self._since_us = of_card_us
        elif newest_row_us > (self._since_us or 0) or self._empty_count >= EMPTY_READINGS:
            self._since_us, self._empty_count = newest_row_us, 0
        elif self._since_us is None:
            self._since_us = 0

    def _fetch(self, since_us: int) -> Sequence[Any] | None:
        return self._rows.read(
            self._card.calls,
            "nvmlDeviceGetProcessUtilization",
            self._card.handle,
            order=lambda count, rows: (rows, count, c_ulonglong(since_us)),
        )
