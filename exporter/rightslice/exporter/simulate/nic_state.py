"""A simulated network card as it stands now: its settings, and what its registers have counted."""

from collections.abc import Iterable
from dataclasses import replace

from rightslice.exporter.simulate.nic import UP, CounterKey, NicEvent, SimulatedNic
from rightslice.exporter.simulate.nic_counters import (
    gauge_of,
    levels_of,
    parts_of,
    rows_of,
    share_of,
)
from rightslice.exporter.simulate.totals import Totals
from rightslice.facts.nics import ETHTOOL, EXTENDED, SATURATE, CounterRow

# Whose statistics are written by the hardware once a second, whenever they are read.
PACED_DRIVERS = ("bnxt",)
LINK_DOWN_KEYS: tuple[CounterKey, ...] = (
    ("rdma_nic_link_down_events_total", ()),
    ("rdma_link_downed_total", ()),
)


class NicState:
    """One network card in play. Events are applied in the order of their times."""

    def __init__(self, nic: SimulatedNic, start_seconds: float) -> None:
        self.nic = nic
        self.is_present = True
        self.carrier_down_count = self.carrier_up_count = 0
        self._start_seconds = start_seconds
        self._first_registers = dict(nic.first_registers)
        self._begin(start_seconds)
        self.carrier_up_count = int(nic.is_up)

    def apply(self, event: NicEvent, at_seconds: float) -> None:
        if event.reset or event.present:
            self._first_registers = {}
            self._begin(at_seconds)
        if event.present is not None:
            self.is_present = event.present
        if event.present:
            self.carrier_down_count, self.carrier_up_count = 0, int(self.nic.is_up)
        if event.changes:
            self._change(replace(self.nic, **event.changes), at_seconds)

    def registers(self, source: str, now_seconds: float) -> dict[str, int]:
        """Give what each counter's name reads now."""
        rows = rows_of(self.nic, source)
        return {name: self.register(row, now_seconds) for name, row in rows.items()}

    def register(self, row: CounterRow, now_seconds: float) -> int:
        """Give what a register holds, at the end of its width as the table tells."""
        if row.is_gauge:
            return round(gauge_of(self.nic, row, now_seconds) / row.multiplier)
        is_paced = self.nic.driver in PACED_DRIVERS and row.source == ETHTOOL
        if is_paced:
            now_seconds -= (now_seconds - self._start_seconds) % 1.0
        total = self._count(self._paced if is_paced else self._totals, row.key, now_seconds)
        total *= share_of(row)
        first = self._first_registers.get(row.key, 0)
        # Sums of floats fall short of whole numbers by a hair.
        raw = first + int(total / row.multiplier + 1e-6)
        if row.overflow == SATURATE:
            return min(raw, (1 << row.width_bits) - 1)
        # The driver itself widens those that are extended.
        return raw if row.overflow == EXTENDED else raw % (1 << row.width_bits)

    def count(self, key: CounterKey, now_seconds: float) -> float:
        """Give what has been counted, in the unit of the metric, whether or not it is shown."""
        return self._count(self._totals, key, now_seconds)

    def _count(self, totals: Totals, key: CounterKey, now_seconds: float) -> float:
        total = self._before.get(key, 0.0)
        for name, factor in self._parts.get(key, {}).items():
            total += factor * (totals.at(name, now_seconds) or 0.0)
        return total

    def _begin(self, now_seconds: float) -> None:
        """Let all counters begin at 0."""
        self._before: dict[CounterKey, float] = {}
        self._add_up(now_seconds)

    def _add_up(self, since_seconds: float) -> None:
        """Add up what goes through it now; twice, for paced statistics are behind."""
        self._parts, levels = parts_of(self.nic), levels_of(self.nic)
        self._totals, self._paced = Totals(levels, since_seconds), Totals(levels, since_seconds)

    def _change(self, nic: SimulatedNic, at_seconds: float) -> None:
        """Go on with other settings, from what has been counted by now."""
        known: Iterable[CounterKey] = self._before.keys() | self._parts.keys()
        self._before = {key: self.count(key, at_seconds) for key in known}
        if nic.is_up != self.nic.is_up:
            self._count_link(is_up=nic.link == UP)
        self.nic = nic
        self._add_up(at_seconds)

    def _count_link(self, *, is_up: bool) -> None:
        self.carrier_up_count += is_up
        if is_up:
            return
        self.carrier_down_count += 1
        for key in LINK_DOWN_KEYS:
            self._before[key] = self._before.get(key, 0.0) + 1
