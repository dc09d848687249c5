"""One card's hour while it is being told, and the ledger's row of it."""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.counter_state import dense, sparse
from rightslice.feeders.hours.facts import PART, whole_bins
from rightslice.feeders.hours.spread import hour_start, moment
from rightslice.ledger.rows import CardHour

HISTOGRAMS = ("memory_bins", "busy_bins", "sm_active_bins")


@dataclass(slots=True)
class CardHourBuilder:
    """One card's hour while it is being told. Bins are lists of BIN_COUNT counts, or empty.

    None means that nobody told. `parts` are values of which the row has the largest part, such as
    throttled seconds by reason.
    """

    observed_seconds: float = 0.0
    allocation_observed_seconds: float = 0.0
    allocated_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    unrequested_busy_seconds: float = 0.0
    sm_observed_seconds: float = 0.0
    sm_active_seconds: float = 0.0
    dram_active_seconds: float = 0.0
    seen_seconds: float = 0.0
    memory_total_bytes: float | None = None
    memory_used_peak_bytes: float | None = None
    energy_joules: float | None = None
    nvlink_bytes: float | None = None
    pcie_bytes: float | None = None
    xid_count: float | None = None
    ecc_uncorrected_count: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    memory_bins: list[float] = field(default_factory=list)
    busy_bins: list[float] = field(default_factory=list)
    sm_active_bins: list[float] = field(default_factory=list)
    busy_signal: str = ""
    memory_interval_seconds: float = 0.0
    busy_interval_seconds: float = 0.0
    sm_active_interval_seconds: float = 0.0
    workloads: dict[str, float] = field(default_factory=dict)
    quality: list[str] = field(default_factory=list)

    def add(self, name: str, amount: float) -> None:
        """Add to a field, or to a part of one: "throttled_seconds/sw_thermal"."""
        if PART in name:
            self.parts[name] = self.parts.get(name, 0.0) + amount
        else:
            setattr(self, name, (getattr(self, name) or 0.0) + amount)

    def put(self, name: str, value: float) -> None:
        setattr(self, name, value)

    def add_to_bin(self, histogram: str, index: int, amount: float) -> None:
        """Add to one bin of "memory_bins", "busy_bins" or "sm_active_bins"."""
        bins: list[float] = getattr(self, histogram)
        if not bins:
            bins.extend([0.0] * BIN_COUNT)
        bins[index] += amount

    def note(self, flag: str) -> None:
        """Remember a doubt about this hour."""
        if flag not in self.quality:
            self.quality.append(flag)

    def see_peak(self, used_bytes: float) -> None:
        self.memory_used_peak_bytes = max(self.memory_used_peak_bytes or 0.0, used_bytes)

    def row(self, uuid: str, hour: int, source: str, owned_seconds: float) -> CardHour:
        """Give the ledger's row."""
        reason, throttled_seconds = self._throttled()
        return CardHour(
            uuid=uuid,
            hour=hour_start(hour),
            source=source,
            owned_seconds=owned_seconds,
            observed_seconds=self.observed_seconds,
            allocation_observed_seconds=self.allocation_observed_seconds,
            allocated_seconds=self.allocated_seconds,
            busy_observed_seconds=self.busy_observed_seconds,
            busy_seconds=self.busy_seconds,
            unrequested_busy_seconds=self.unrequested_busy_seconds,
            memory_total_bytes=_whole(self.memory_total_bytes),
            memory_used_peak_bytes=_whole(self.memory_used_peak_bytes),
            memory_bins=whole_bins(self.memory_bins),
            busy_bins=whole_bins(self.busy_bins),
            sm_active_bins=whole_bins(self.sm_active_bins),
            busy_signal=self.busy_signal,
            memory_interval_seconds=self.memory_interval_seconds,
            busy_interval_seconds=self.busy_interval_seconds,
            sm_active_interval_seconds=self.sm_active_interval_seconds,
            quality=tuple(sorted(self.quality)),
            seen_until=moment(self.seen_seconds) if self.seen_seconds else None,
            sm_observed_seconds=self.sm_observed_seconds,
            sm_active_seconds=self.sm_active_seconds,
            dram_active_seconds=self.dram_active_seconds,
            throttled_seconds=throttled_seconds,
            throttle_reason=reason,
            energy_joules=self.energy_joules,
            nvlink_bytes=self.nvlink_bytes,
            pcie_bytes=self.pcie_bytes,
            xid_count=_whole(self.xid_count),
            ecc_uncorrected_count=_whole(self.ecc_uncorrected_count),
        )

    def _throttled(self) -> tuple[str, float | None]:
        """Give the reason that held the clocks down longest; none where no reason held."""
        told = {key.partition(PART)[2]: seconds for key, seconds in self.parts.items()}
        if not told:
            return "", None
        reason = max(sorted(told), key=told.__getitem__)
        return (reason if told[reason] > 0 else ""), told[reason]

    def state(self) -> list[Any]:
        """Give the values of `STATE_FIELDS`, histograms without their empty bins."""
        values = list(_ALL_VALUES(self))
        for place in _HISTOGRAM_PLACES:
            values[place] = sparse(values[place])
        return values

    @classmethod
    def restored(cls, names: list[str], values: list[Any]) -> "CardHourBuilder":
        """Take up what `state` gave under these names; those that are no more are left out."""
        told = dict(zip(names, values, strict=True))
        kept = {name: told[name] for name in STATE_FIELDS if name in told}
        bins = {name: list(dense(kept[name])) for name in HISTOGRAMS if kept.get(name)}
        return cls(**(kept | bins))


STATE_FIELDS = tuple(each.name for each in fields(CardHourBuilder))
_ALL_VALUES = attrgetter(*STATE_FIELDS)
_HISTOGRAM_PLACES = tuple(STATE_FIELDS.index(name) for name in HISTOGRAMS)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
