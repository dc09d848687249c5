"""Histograms as the ledger keeps them: the levels that occur, and the milliseconds at each.

Most of a histogram's bins are empty: this takes a third of the room of all bins. Whole
milliseconds make sums exact, in whatever order and pieces they are added.
"""

from collections.abc import Iterable, Sequence

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger.closure import MILLISECONDS_PER_SECOND, milliseconds

# DuckDB's types of the two lists.
LEVELS_TYPE, MILLISECONDS_TYPE = "UTINYINT[]", "UINTEGER[]"


def levels_of(
    bins: Sequence[float] | None, interval_seconds: float
) -> tuple[list[int] | None, list[int] | None]:
    """Give the levels of a histogram of counts and their milliseconds; None for none."""
    if bins is None:
        return None, None
    if len(bins) != BIN_COUNT:
        raise ValueError(f"a histogram has {BIN_COUNT} bins, got {len(bins)}")
    factor = interval_seconds
    kept = [(level, milliseconds(count * factor)) for level, count in enumerate(bins) if count > 0]
    kept = [pair for pair in kept if pair[1]]
    return [level for level, _ in kept], [amount for _, amount in kept]


def bin_seconds(levels: Iterable[tuple[int, int]]) -> tuple[float, ...]:
    """Give the seconds at each level from (level, milliseconds); empty for no levels."""
    filled: list[float] | None = None
    for level, amount in levels:
        if filled is None:
            filled = [0.0] * BIN_COUNT
        filled[level] += amount / MILLISECONDS_PER_SECOND
    return tuple(filled) if filled is not None else ()
