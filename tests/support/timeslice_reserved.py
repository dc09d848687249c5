"""A vGPU host whose tenants have slots of their own, which are lost when they have no work."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from .timeslice import SLICE_SECONDS, SWITCH_SECONDS, Jobs, Tenant, Truth

# A slot and the switch to it.
ROUND_PART_SECONDS = SLICE_SECONDS + SWITCH_SECONDS


def reserved_slots(
    tenants: Sequence[Tenant], seed: int, total_seconds: float, block_seconds: float
) -> list[Truth]:
    """Give what each block of a run was, but for the first."""
    seeds = Random(seed)
    slots = [_Slots(index, len(tenants)) for index in range(len(tenants))]
    spells = [
        own.spells(tenant.traffic(Random(seeds.random())), total_seconds)
        for own, tenant in zip(slots, tenants, strict=True)
    ]
    block_count = int(total_seconds / block_seconds)
    edges = [block_seconds * number for number in range(1, block_count + 1)]
    return [_reserved_truth(slots, spells, start, end) for start, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class _Slots:
    """One tenant's slots: each round of all tenants has one."""

    index: int
    count: int

    def served_until(self, at_seconds: float) -> float:
        """Give the time its slots had up to then."""
        rounds, rest = divmod(at_seconds - self.index * ROUND_PART_SECONDS, self.round_seconds)
        return rounds * SLICE_SECONDS + min(rest, SLICE_SECONDS)

    def end_of(self, served_seconds: float) -> float:
        """Give when its slots have had so much time."""
        rounds, rest = divmod(served_seconds, SLICE_SECONDS)
        return self.index * ROUND_PART_SECONDS + rounds * self.round_seconds + rest

    @property
    def round_seconds(self) -> float:
        return self.count * ROUND_PART_SECONDS

    def spells(self, jobs: Jobs, total_seconds: float) -> list[tuple[float, float]]:
        """Give from when to when it had work."""
        spells: list[tuple[float, float]] = []
        asked_at = end = 0.0
        for gap, work in jobs:
            asked_at += gap
            if asked_at > total_seconds:
                break
            start = max(asked_at, end)
            end = self.end_of(self.served_until(start) + work)
            spells.append((start, end))
        return spells


def _reserved_truth(
    slots: Sequence[_Slots],
    spells: Sequence[Sequence[tuple[float, float]]],
    start_seconds: float,
    end_seconds: float,
) -> Truth:
    busy, wait = [], []
    for own, its_spells in zip(slots, spells, strict=True):
        inside = [
            (max(start, start_seconds), min(end, end_seconds))
            for start, end in its_spells
            if start < end_seconds and end > start_seconds
        ]
        served = sum(own.served_until(end) - own.served_until(start) for start, end in inside)
        wanted = sum(end - start for start, end in inside)
        busy.append(served / (end_seconds - start_seconds))
        wait.append((wanted - served) / (end_seconds - start_seconds))
    return Truth(tuple(busy), tuple(wait), device_busy_ratio=sum(busy))
