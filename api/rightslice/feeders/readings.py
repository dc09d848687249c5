"""One reading of one series, and what is no reading at all."""

import math
from collections.abc import Mapping
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

# What DCGM writes where it has no value: blank, not found, not supported, no permission.
_DCGM_BLANKS = frozenset(
    blank + offset
    for blank in (2147483632.0, 9223372036854775792.0, 140737488355328.0)
    for offset in range(4)
)
# What is less is a number, if it is finite.
LEAST_BLANK = min(_DCGM_BLANKS)


class Reading(NamedTuple):
    """A series' value at a time. Labels are sorted pairs, without those the scrape added.

    A tuple, as there are millions of them: a frozen dataclass takes three times as long to make.
    """

    name: str
    labels: Mapping[str, str]
    value: float


def is_blank(value: float) -> bool:
    """Tell a sentinel, NaN or infinity from a number."""
    return not math.isfinite(value) or value in _DCGM_BLANKS
