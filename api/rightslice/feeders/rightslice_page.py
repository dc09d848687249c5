"""From our exporter's series to hours: its counters are differenced, its histograms too."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rightslice.contract import metrics
from rightslice.contract.histogram import BIN_COUNT, RATIO_EDGES
from rightslice.contract.sampling import MEAN_SECONDS
from rightslice.feeders.builder import DEPARTED_SECONDS, HourTable
from rightslice.feeders.counters import Growth, Scrape, Target, open_scrape
from rightslice.feeders.hours import hour_of, spread
from rightslice.feeders.readings import Reading, is_blank
from rightslice.ledger.rows import SOURCE_RIGHTSLICE
from rightslice.profile.flags import FLAG_MIG

# One card told by two targets is one card. The first keeps it until it falls silent, or until a
# newer process tells of it: an exporter that was restarted at another address.
TARGET_SILENT_SECONDS = 600.0
NEWER_SECONDS = 1.0
BUSY_SIGNAL = "busy"

_OBSERVED = {
    metrics.SIGNAL_MEMORY: "observed_seconds",
    metrics.SIGNAL_BUSY: "busy_observed_seconds",
    metrics.SIGNAL_ALLOCATION: "allocation_observed_seconds",
}
_SECONDS = {
    metrics.GPU_ALLOCATED_SECONDS_TOTAL.name: "allocated_seconds",
    metrics.GPU_BUSY_SECONDS_TOTAL.name: "busy_seconds",
    metrics.GPU_UNREQUESTED_BUSY_SECONDS_TOTAL.name: "unrequested_busy_seconds",
}
_HISTOGRAMS = {
    f"{metrics.GPU_MEMORY_USED_RATIO.name}_bucket": "memory",
    f"{metrics.GPU_BUSY_RATIO.name}_bucket": "busy",
    f"{metrics.GPU_SM_ACTIVE_RATIO.name}_bucket": "sm_active",
}
# As our exporter writes them, and as OpenMetrics spells whole numbers.
_BIN_OF_EDGE = {repr(edge): index for index, edge in enumerate(RATIO_EDGES)}
_BIN_OF_EDGE |= {"1": _BIN_OF_EDGE["1.0"], "+Inf": BIN_COUNT - 1}
# Bytes of the largest memory, and seconds of a century: what is above is no reading.
LARGEST_VALUE = float(1 << 50)
# What a feeder has to fetch of ours, apart from the reset signal.
COUNTER_NAMES = (metrics.GPU_OBSERVED_SECONDS_TOTAL.name, *_SECONDS, *_HISTOGRAMS)
GAUGE_NAMES = (
    metrics.GPU_INFO.name,
    metrics.GPU_MEMORY_TOTAL_BYTES.name,
    metrics.NODE_INFO.name,
    metrics.SIGNAL_INTERVAL_SECONDS.name,
)
PEAK_NAME = metrics.GPU_MEMORY_USED_PEAK_BYTES.name
RESET_NAME = metrics.PROCESS_START_TIME_SECONDS.name


@dataclass(frozen=True, slots=True)
class Owner:
    """The target that tells of a card."""

    target_name: str
    seen_seconds: float
    process_start_seconds: float


@dataclass(slots=True)
class RightsliceMapper:
    """Takes in scrapes of our exporters, in the order of time per target."""

    table: HourTable = field(default_factory=lambda: HourTable(SOURCE_RIGHTSLICE))
    targets: dict[str, Target] = field(default_factory=dict)
    rejected_count: int = 0
    _owners: dict[str, Owner] = field(default_factory=dict)

    def feed(self, target_name: str, now_seconds: float, readings: Iterable[Reading]) -> None:
        """Take in one scrape; one that is not newer than the target's last is ignored."""
        by_name: dict[str, list[Reading]] = {}
        for reading in readings:
            by_name.setdefault(reading.name, []).append(reading)
        starts = by_name.get(RESET_NAME)
        process_start_seconds = starts[0].value if starts else None
        target = self.targets.setdefault(target_name, Target())
        scrape = open_scrape(target, now_seconds, process_start_seconds)
        if scrape is None:
            return
        teller = Owner(target_name, now_seconds, process_start_seconds or 0.0)
        nodes = by_name.get(metrics.NODE_INFO.name)
        node = nodes[0].labels.get("node", "") if nodes else ""
        intervals = {
            reading.labels.get("signal", ""): reading.value
            for reading in by_name.get(metrics.SIGNAL_INTERVAL_SECONDS.name, ())
        }
        for reading in by_name.get(metrics.GPU_INFO.name, ()):
            uuid = reading.labels.get("uuid", "")
            if self._owns(teller, uuid):
                self.table.see(uuid, now_seconds, node, reading.labels.get("name", ""))
                if reading.labels.get("mig") == "enabled":
                    self.table.card(uuid, hour_of(now_seconds)).note(FLAG_MIG)
        for name, found in by_name.items():
            for reading in found:
                self._take(target_name, scrape, name, reading, intervals)

    def _owns(self, teller: Owner, uuid: str) -> bool:
        """Tell whether a card is this target's to tell of, and note that it is."""
        owner = self._owners.get(uuid, teller)
        is_newer = teller.process_start_seconds > owner.process_start_seconds + NEWER_SECONDS
        is_silent = teller.seen_seconds - owner.seen_seconds >= TARGET_SILENT_SECONDS
        if owner.target_name != teller.target_name and not (is_newer or is_silent):
            return False
        self._owners[uuid] = teller
        return True

    def _take(
        self,
        target_name: str,
        scrape: Scrape,
        name: str,
        reading: Reading,
        intervals: dict[str, float],
    ) -> None:
        uuid = reading.labels.get("uuid", "")
        if not uuid:
            return
        if is_blank(reading.value) or not 0 <= reading.value <= LARGEST_VALUE:
            self.rejected_count += 1
            return
        owner = self._owners.get(uuid)
        if owner is not None and owner.target_name != target_name:
            return
        if reading.labels.get("gpu_instance_id"):
            return  # of a part of the card, which an hour of the whole card must not count
        if name in _HISTOGRAMS:
            self._take_bucket(scrape, uuid, _HISTOGRAMS[name], reading, intervals)
        elif name == metrics.GPU_OBSERVED_SECONDS_TOTAL.name:
            signal = reading.labels.get("signal", "")
            if signal in _OBSERVED:
                growth = scrape.grow((name, uuid, signal), reading.value, 1.0)
                self._add(uuid, _OBSERVED[signal], growth)
        elif name in _SECONDS:
            self._add(uuid, _SECONDS[name], scrape.grow((name, uuid), reading.value, 1.0))
        elif name == metrics.GPU_MEMORY_TOTAL_BYTES.name:
            builder = self.table.card(uuid, hour_of(scrape.now_seconds))
            builder.memory_total_bytes = reading.value
        elif name == PEAK_NAME:
            self.table.card(uuid, hour_of(scrape.now_seconds)).see_peak(reading.value)

    def _add(self, uuid: str, field_name: str, growth: Growth | None) -> None:
        if growth is None:
            return
        for hour, part in spread(growth.start_seconds, growth.end_seconds, growth.amount):
            builder = self.table.card(uuid, hour)
            setattr(builder, field_name, getattr(builder, field_name) + part)

    def _take_bucket(
        self,
        scrape: Scrape,
        uuid: str,
        histogram: str,
        reading: Reading,
        intervals: dict[str, float],
    ) -> None:
        index = _BIN_OF_EDGE.get(reading.labels.get("le", ""))
        if index is None:  # another version's edges: not to be mixed with these
            self.rejected_count += 1
            return
        signal = metrics.SIGNAL_MEMORY if histogram == "memory" else metrics.SIGNAL_COMPUTE
        interval_seconds = intervals.get(signal, MEAN_SECONDS)
        key = (reading.name, uuid, str(index))
        growth = scrape.grow(key, reading.value, interval_seconds)
        if growth is None or not growth.amount:
            return
        bins = f"{histogram}_bins"
        for hour, part in spread(growth.start_seconds, growth.end_seconds, growth.amount):
            builder = self.table.card(uuid, hour)
            setattr(builder, f"{histogram}_interval_seconds", interval_seconds)
            if histogram == BUSY_SIGNAL:
                builder.busy_signal = BUSY_SIGNAL
            # Buckets are cumulative: what this edge gained, the next bin has not.
            builder.add_to_bin(bins, index, part)
            if index + 1 < BIN_COUNT:
                builder.add_to_bin(bins, index + 1, -part)

    def forget_departed(self, now_seconds: float) -> None:
        """Drop what is kept of cards and targets that have left."""
        departed = self.table.forget_departed(now_seconds)
        for uuid in departed:
            self._owners.pop(uuid, None)
        silent_seconds = now_seconds - DEPARTED_SECONDS
        for name in [n for n, t in self.targets.items() if (t.last_seconds or 0) < silent_seconds]:
            del self.targets[name]
        for target in self.targets.values() if departed else ():
            target.values = {
                key: value
                for key, value in target.values.items()
                if not (isinstance(key, tuple) and key[1] in departed)
            }

    def start_over(self, now_seconds: float) -> None:
        """Forget when things were read: the clock was set back."""
        self.targets.clear()
        self._owners.clear()
        self.table.start_over(now_seconds)

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything needed to go on after a restart, in a shape that JSON can hold."""
        return {
            "table": self.table.state(from_hour),
            "targets": {
                name: {
                    "last_seconds": target.last_seconds,
                    "process_start_seconds": target.process_start_seconds,
                    "values": [
                        [list(key), seconds, value]
                        for key, (seconds, value) in target.values.items()
                        if isinstance(key, tuple)
                    ],
                }
                for name, target in self.targets.items()
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self.table.restore(state["table"])
        self.targets = {
            name: Target(
                told["last_seconds"],
                told["process_start_seconds"],
                {tuple(key): (seconds, value) for key, seconds, value in told["values"]},
            )
            for name, told in state["targets"].items()
        }
