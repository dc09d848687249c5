"""What is scraped and how it fares, as the API tells it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from rightslice.feeders.targets.health import State, TargetHealth
from rightslice.feeders.targets.loop import ScrapeLoop


@dataclass(frozen=True, slots=True)
class TargetDocument:
    """One target. What is null was not seen yet; counts are of the last page that was read.

    `unattached_engines` are serving engines on it whose workload is not known: they get no hours
    until the target's labels say namespace and pod.
    """

    group: str
    url: str
    labels: dict[str, str]
    state: State
    last_scrape: datetime | None
    last_success: datetime | None
    duration_seconds: float | None
    error: str
    sample_count: int | None
    broken_line_count: int | None
    unattached_engines: list[str]
    consecutive_failure_count: int
    next_try: datetime | None


@dataclass(frozen=True, slots=True)
class TargetsDocument:
    """All targets by group and URL. `problems` says what is wrong with where they are told."""

    targets: list[TargetDocument]
    problems: list[str]


def targets_document(scrape: ScrapeLoop | None) -> TargetsDocument:
    """Tell of a loop's targets; of none where nothing is scraped."""
    if scrape is None:
        return TargetsDocument([], [])
    return TargetsDocument(list(map(_target, scrape.health())), list(scrape.problems()))


def _target(health: TargetHealth) -> TargetDocument:
    return TargetDocument(
        group=health.group,
        url=health.url,
        labels=dict(health.labels),
        state=health.state,
        last_scrape=_moment(health.last_scrape_seconds),
        last_success=_moment(health.last_success_seconds),
        duration_seconds=health.duration_seconds,
        error=health.error,
        sample_count=health.sample_count,
        broken_line_count=health.broken_line_count,
        unattached_engines=list(health.unattached),
        consecutive_failure_count=health.failure_count,
        next_try=_moment(health.next_try_seconds),
    )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
