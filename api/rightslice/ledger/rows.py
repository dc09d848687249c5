"""The rows of the ledger, and the arithmetic that makes the seconds of an hour add up."""

from dataclasses import dataclass
from datetime import datetime

SECONDS_PER_HOUR = 3600
MILLISECONDS_PER_SECOND = 1000

SOURCE_RIGHTSLICE, SOURCE_DCGM = "rightslice", "dcgm"
# Who is believed where two sources tell of the same card and hour.
SOURCE_PRECEDENCE = {SOURCE_RIGHTSLICE: 2, SOURCE_DCGM: 1}


@dataclass(frozen=True, slots=True)
class CardHour:
    """What was seen of one card in one hour.

    Seconds of each signal are those covered by its samples. Bins count observations in the
    contract's edges, each of which stands for the signal's interval; None where the signal was
    not observed. `busy_signal` names the reading behind `busy_bins`.
    """

    uuid: str
    hour: datetime
    source: str
    owned_seconds: float = SECONDS_PER_HOUR
    observed_seconds: float = 0.0
    allocation_observed_seconds: float = 0.0
    allocated_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    unrequested_busy_seconds: float = 0.0
    memory_total_bytes: int | None = None
    memory_used_peak_bytes: int | None = None
    memory_bins: tuple[float, ...] | None = None
    busy_bins: tuple[float, ...] | None = None
    sm_active_bins: tuple[float, ...] | None = None
    busy_signal: str = ""
    memory_interval_seconds: float = 0.0
    busy_interval_seconds: float = 0.0
    sm_active_interval_seconds: float = 0.0
    quality: tuple[str, ...] = ()
    # The last reading in the hour; None where there was none.
    seen_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkloadHour:
    """What was seen of one workload on one card in one hour."""

    kind: str
    namespace: str
    pod: str
    container: str
    uuid: str
    hour: datetime
    source: str
    allocated_seconds: float


@dataclass(frozen=True, slots=True)
class CardAttributes:
    """What is told of a card from an hour on: where it sits and what NVML calls it."""

    uuid: str
    since: datetime
    node: str
    name: str


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


def split_hour(row: CardHour) -> HourSplit:
    """Put every millisecond of a card's hour into one place.

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
