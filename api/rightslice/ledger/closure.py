"""The arithmetic that makes the seconds of an hour add up, each of them in exactly one place."""

from dataclasses import dataclass

from rightslice.ledger.rows import SECONDS_PER_HOUR, CardHour, SliceHour

MILLISECONDS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True)
class HourSplit:
    """Milliseconds of an hour, each in exactly one place; their sum is `owned`."""

    owned: int
    unknown: int
    unallocated: int
    busy: int
    idle: int
    unmeasured: int


def milliseconds(seconds: float) -> int:
    return round(seconds * MILLISECONDS_PER_SECOND)


def _within(seconds: float, most_milliseconds: int) -> int:
    """Give whole milliseconds, none below 0 and none above what there is to share out."""
    most_seconds = most_milliseconds / MILLISECONDS_PER_SECOND
    return milliseconds(min(max(seconds, 0.0), most_seconds))


def split_hour(row: CardHour | SliceHour) -> HourSplit:
    """Put every millisecond of a card's or slice's hour into one place.

    Unknown: holders not observed. Unallocated: observed and held by nobody. Unmeasured: held while
    busy was not observed. Busy: no more than held. Idle: the rest of held. Works in whole
    milliseconds, by subtraction, so that the parts sum to the hour exactly.
    """
    owned = _within(row.owned_seconds, milliseconds(SECONDS_PER_HOUR))
    watched = _within(row.allocation_observed_seconds, owned)
    allocated = _within(row.allocated_seconds, watched)
    seen_ratio = row.busy_observed_seconds / row.allocation_observed_seconds if watched else 0.0
    measured = round(allocated * min(max(seen_ratio, 0.0), 1.0))
    busy = _within(row.busy_seconds - row.unrequested_busy_seconds, measured)
    return HourSplit(
        owned=owned,
        unknown=owned - watched,
        unallocated=watched - allocated,
        busy=busy,
        idle=measured - busy,
        unmeasured=allocated - measured,
    )
