"""Counters' last values in a shape that JSON can hold, small and quick enough for each minute.

Which series a target has changes seldom: their keys are written out once and kept as a text, so
that each minute only the values are gathered.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, TypeVar

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.counters import Bins, Key, KeyText, Target

PLACES = range(BIN_COUNT)

Value = TypeVar("Value", float, Bins)


def targets_state(targets: Mapping[str, Target]) -> dict[str, Any]:
    """Give what `restore_targets` takes up."""
    return {name: _target_state(target) for name, target in targets.items()}


def restore_targets(state: Mapping[str, Any]) -> dict[str, Target]:
    """Give the targets that `targets_state` was given."""
    return {name: _target(told) for name, told in state.items()}


def _target_state(target: Target) -> dict[str, Any]:
    target.value_keys = _key_text(target.values, target.value_keys)
    target.bin_keys = _key_text(target.bins, target.bin_keys)
    return {
        "last_seconds": target.last_seconds,
        "process_start_seconds": target.process_start_seconds,
        "value_keys": target.value_keys.text,
        "values": [value for _, value in target.values.values()],
        "late_values": _late(target.values, target.last_seconds),
        "bin_keys": target.bin_keys.text,
        "bins": [sparse(counts) for _, counts in target.bins.values()],
        "late_bins": _late(target.bins, target.last_seconds),
    }


def _key_text(known: Mapping[Key, Any], before: KeyText) -> KeyText:
    """Write keys as places in a list of their parts, most of which come again and again."""
    keys = list(known)
    if keys == before.keys:
        return before
    parts = {part: place for place, part in enumerate({part: None for key in keys for part in key})}
    written = [[parts[part] for part in key] for key in keys]
    return KeyText(keys, json.dumps([list(parts), written], separators=(",", ":")))


def _keys(text: str) -> list[Key]:
    parts, written = json.loads(text)
    return [tuple(parts[place] for place in places) for places in written]


def _late(known: Mapping[Key, tuple[float, Value]], last_seconds: float | None) -> dict[str, float]:
    """Give when those were read that were not read with the target's last page, by place."""
    stamps = [seconds for seconds, _ in known.values()]
    if stamps.count(last_seconds) == len(stamps):  # type: ignore[arg-type]  # None is none of them
        return {}
    return {str(place): seconds for place, seconds in enumerate(stamps) if seconds != last_seconds}


def _target(told: Mapping[str, Any]) -> Target:
    last_seconds = told["last_seconds"]
    target = Target(last_seconds, told["process_start_seconds"])
    late = told["late_values"]
    for place, (key, value) in enumerate(
        zip(_keys(told["value_keys"]), told["values"], strict=True)
    ):
        target.values[key] = (late.get(str(place), last_seconds), value)
    late = told["late_bins"]
    for place, (key, kept) in enumerate(zip(_keys(told["bin_keys"]), told["bins"], strict=True)):
        target.bins[key] = (late.get(str(place), last_seconds), dense(kept))
    return target


def sparse(counts: Sequence[float]) -> list[float]:
    """Give the bins that hold something: their places, then their counts."""
    return [*compress(PLACES, counts), *compress(counts, counts)]


def dense(kept: Sequence[float]) -> Bins:
    """Give all bins of what `sparse` gave."""
    counts = [0.0] * BIN_COUNT
    half = len(kept) // 2
    for place, count in zip(kept[:half], kept[half:], strict=True):
        counts[int(place)] = count
    return tuple(counts)
