"""How a target fares, as values for people and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Whether the last scrape of a target went well."""

    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """A target's last scrape. Moments are seconds since the Unix epoch.

    None means that there was none yet; `sample_count`, `broken_line_count` and `unattached`
    (serving engines whose workload is not known) are of the last page that was read. `error` is
    empty while the target is not down.
    """

    group: str
    url: str
    labels: Mapping[str, str]
    state: State = State.UNKNOWN
    last_scrape_seconds: float | None = None
    last_success_seconds: float | None = None
    duration_seconds: float | None = None
    error: str = ""
    sample_count: int | None = None
    broken_line_count: int | None = None
    unattached: tuple[str, ...] = ()
    failure_count: int = 0
    next_try_seconds: float | None = None
