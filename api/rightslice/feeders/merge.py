"""Joins what two sources tell of the same card and hour: ours leads, dcgm-exporter's fills in."""

from collections.abc import Iterable
from dataclasses import replace

from rightslice.ledger.rows import CardHour

FROM_DCGM = "sm_active_from_dcgm"


def merge(ours: Iterable[CardHour], companion: Iterable[CardHour]) -> list[CardHour]:
    """Give one row per card and hour; SM activity comes from the companion where we have none."""
    others = {(row.uuid, row.hour): row for row in companion}
    merged = []
    for row in ours:
        other = others.pop((row.uuid, row.hour), None)
        if other is None:
            merged.append(row)
        elif not row.observed_seconds:
            merged.append(other)  # we saw nothing of this hour
        elif row.sm_active_bins is None and other.sm_active_bins is not None:
            merged.append(
                replace(
                    row,
                    sm_active_bins=other.sm_active_bins,
                    sm_active_interval_seconds=other.sm_active_interval_seconds,
                    quality=tuple(sorted({*row.quality, *other.quality, FROM_DCGM})),
                )
            )
        else:
            merged.append(row)
    return [*merged, *others.values()]
