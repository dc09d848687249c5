"""The facts of one card summed over a window, as the ledger hands them out."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Holder:
    """Who held a card, for how many hours of the window, on how many cards at once."""

    kind: str
    namespace: str
    pod: str
    container: str
    hour_count: int
    last_hour: datetime
    most_cards: int

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.pod) if part)


@dataclass(frozen=True, slots=True)
class CardUsage:
    """Sums over the hours of one card in a window.

    Per card, exactly: owned = unknown + unallocated + busy + idle + unmeasured seconds. Bins hold
    seconds, not counts, in the contract's edges; an empty tuple means that the signal was never
    observed. `observed_until` is None for a card never seen in the window. `kernel_seconds` are
    those in which a kernel ran, whoever held the card. `memory_*` is None where the card told none.
    `memory_peak_low_bytes` is the tenth percentile of the hourly peaks of held hours.
    """

    uuid: str
    node: str
    name: str
    first_hour: datetime
    observed_until: datetime | None
    hour_count: int
    source: str
    owned_seconds: Decimal
    observed_seconds: Decimal
    unknown_seconds: Decimal
    unallocated_seconds: Decimal
    busy_seconds: Decimal
    idle_seconds: Decimal
    unmeasured_seconds: Decimal
    unrequested_busy_seconds: Decimal
    busy_observed_seconds: Decimal
    kernel_seconds: Decimal
    allocated_seconds: Decimal
    memory_total_bytes: int | None
    memory_used_peak_bytes: int | None
    memory_peak_low_bytes: int | None
    memory_seconds: tuple[float, ...]
    busy_bin_seconds: tuple[float, ...]
    sm_active_bin_seconds: tuple[float, ...]
    busy_signal: str
    compute_interval_seconds: float
    quality: tuple[str, ...]
    holders: tuple[Holder, ...]
    shared_hour_count: int
