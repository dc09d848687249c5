"""Puts a card's series together into sightings: what was told of it, moment by moment.

Copies of one value are that value. A card that several read is told once: by one of them as long
as it tells, by another in the gaps.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rightslice.feeders.gauges.labels import Pod, TargetKey, Teller, Told

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
# A metric's place in the mapping, of the card (empty) or an instance.
ColumnKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GaugeSeries:
    """Valid samples of one series, in base units and in the order of time."""

    told: Told
    metric: int
    stamps: Floats
    values: Floats

    def after(self, seconds: float) -> "GaugeSeries | None":
        """Give what is newer than a moment; None for nothing."""
        return self._cut(int(np.searchsorted(self.stamps, seconds, side="right")), None)

    def until(self, seconds: float) -> "GaugeSeries | None":
        """Give what is not newer than a moment; None for nothing."""
        return self._cut(0, int(np.searchsorted(self.stamps, seconds, side="right")))

    def _cut(self, start: int, end: int | None) -> "GaugeSeries | None":
        stamps = self.stamps[start:end]
        if len(stamps) == len(self.stamps):
            return self
        values = self.values[start:end]
        return GaugeSeries(self.told, self.metric, stamps, values) if len(stamps) else None


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds a card, or an instance of it, and at which sightings."""

    pod: Pod
    instance: str
    at: Flags


@dataclass(slots=True)
class CardSightings:
    """What was told of one card at each of `stamps`; NaN where nothing was."""

    uuid: str
    node: str
    interval_seconds: float
    stamps: Floats
    columns: dict[ColumnKey, Floats] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    # When the card was told of before; NaN for never.
    before_seconds: float = np.nan
    # Who told at the last sighting.
    leader: Teller = ()
    # The names of its instances by their ids, where what share of the card each is is known.
    slices: dict[str, str] = field(default_factory=dict)

    @property
    def instances(self) -> list[str]:
        return sorted({instance for instance, _ in self.columns if instance})

    @property
    def before(self) -> Floats:
        """Give, for each sighting, when the one before it was."""
        return np.append(self.before_seconds, self.stamps[:-1])

    def told_of(self, instance: str) -> Flags:
        """Tell at which sightings anything was told of an instance."""
        told = [column for (one, _), column in self.columns.items() if one == instance]
        there: Flags = ~np.isnan(np.fmax.reduce(told))
        return there


def put_together(
    uuid: str,
    series: Sequence[GaugeSeries],
    interval_seconds: float,
    exporting_targets: dict[TargetKey, float],
    leader: Teller = (),
) -> CardSightings:
    """Put the series of one card together. `leader` is who told it last."""
    by_teller: dict[Teller, list[GaugeSeries]] = defaultdict(list)
    for one in series:
        by_teller[one.told.teller].append(one)
    latest = max(series, key=lambda one: one.stamps[-1])
    stamps = _union([one.stamps for one in series])
    made = CardSightings(uuid, latest.told.node, interval_seconds, stamps)
    if len(by_teller) == 1:
        (made.leader,) = by_teller
        made.columns = _columns(series, stamps)
        made.holders = _holders(series, stamps, exporting_targets)
        return made
    _merge(made, by_teller, exporting_targets, leader)
    return made


def _union(all_stamps: Sequence[Floats]) -> Floats:
    """Give all moments once, in order; most series of a card have the same ones."""
    fullest = max(all_stamps, key=len)
    others = [one for one in all_stamps if one is not fullest and not np.array_equal(one, fullest)]
    return np.unique(np.concatenate([fullest, *others])) if others else fullest


def _places(stamps: Floats, among: Floats) -> Numbers | slice:
    if len(stamps) == len(among):
        return slice(None)
    return np.searchsorted(among, stamps)


def _columns(series: Iterable[GaugeSeries], stamps: Floats) -> dict[ColumnKey, Floats]:
    columns: dict[ColumnKey, Floats] = {}
    for one in series:
        key = (one.told.instance, one.metric)
        places = _places(one.stamps, stamps)
        column = columns.get(key)
        if column is None:
            column = columns[key] = np.full(len(stamps), np.nan)
        # Of two values for the same thing the larger counts.
        column[places] = np.fmax(column[places], one.values)
    return columns


def _holders(
    series: Iterable[GaugeSeries], stamps: Floats, exporting_targets: dict[TargetKey, float]
) -> list[Holder]:
    made: dict[tuple[Pod, str], Flags] = {}
    for one in series:
        told = one.told
        if told.pod is None:
            continue
        at = made.get((told.pod, told.instance))
        if at is None:
            at = made[told.pod, told.instance] = np.zeros(len(stamps), dtype=bool)
        named = np.ones(len(one.stamps), dtype=bool)
        if told.is_plain:
            named = one.stamps < exporting_targets.get(told.target, np.inf)
        places = _places(one.stamps, stamps)
        at[places] |= named
    return [Holder(pod, instance, at) for (pod, instance), at in made.items() if at.any()]


def _merge(
    made: CardSightings,
    by_teller: dict[Teller, list[GaugeSeries]],
    exporting_targets: dict[TargetKey, float],
    leader: Teller,
) -> None:
    """Take each value from the leader where it tells it, else from another."""
    stamps = made.stamps
    # The one that tells most often comes first, and leads where nobody has led before.
    tellers = sorted(by_teller, key=lambda key: (-max(len(s.stamps) for s in by_teller[key]), key))
    columns = [_columns(by_teller[key], stamps) for key in tellers]
    there = np.array(
        [np.any([~np.isnan(one) for one in told.values()], axis=0) for told in columns]
    )
    leads = _leads(there, tellers.index(leader) if leader in tellers else 0)
    made.leader = tellers[leads[-1]]
    for key in sorted({key for told in columns for key in told}):
        made.columns[key] = _first_told([told.get(key) for told in columns], leads)
    holders = [_holders(by_teller[key], stamps, exporting_targets) for key in tellers]
    names = np.array(
        [np.any([np.zeros(len(stamps), bool), *(h.at for h in told)], axis=0) for told in holders]
    )
    namer = np.where(names[leads, np.arange(len(stamps))], leads, np.argmax(names, axis=0))
    at: dict[tuple[Pod, str], Flags] = {}
    for number, told in enumerate(holders):
        for holder in told:
            key_of = (holder.pod, holder.instance)
            before = at.get(key_of, np.zeros(len(stamps), dtype=bool))
            at[key_of] = before | (holder.at & (namer == number))
    made.holders = [Holder(pod, instance, flags) for (pod, instance), flags in at.items()]


def _leads(there: Flags, leader: int) -> Numbers:
    """Tell who leads at each moment: the same as before, for as long as it is there."""
    count = there.shape[1]
    leads = np.empty(count, dtype=np.int64)
    start = 0
    while start < count:
        if not there[leader, start]:
            leader = int(np.argmax(there[:, start]))
        missing = np.flatnonzero(~there[leader, start:])
        end = start + int(missing[0]) if len(missing) else count
        leads[start:end] = leader
        start = end
    return leads


def _first_told(columns: Sequence[Floats | None], leads: Numbers) -> Floats:
    told = np.full(len(leads), np.nan)
    for number, column in enumerate(columns):
        if column is not None:
            np.copyto(told, column, where=leads == number)
    for column in columns:
        if column is not None:
            np.copyto(told, column, where=np.isnan(told))
    return told


def on_grid(one: GaugeSeries, step_seconds: float) -> GaugeSeries:
    """Move samples to the end of their step of a grid; the last of each step stays.

    Who reads a card at other moments than another, or dates each metric on its own, then tells of
    the same moments.
    """
    stamps = np.ceil(one.stamps / step_seconds) * step_seconds
    last = np.append(stamps[1:] != stamps[:-1], True)
    return GaugeSeries(one.told, one.metric, stamps[last], one.values[last])
