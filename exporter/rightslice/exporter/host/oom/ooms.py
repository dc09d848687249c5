"""Memory that ran out on this node: what all sources tell, as incidents."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.oom.incidents import (
    DEVICE_ALLOC,
    INFERRED,
    KILLS,
    SOFT_LIMIT,
    STARTUP_CAPACITY,
    SUSPECTED,
    Incidents,
    Report,
)
from rightslice.exporter.host.oom.oom_kills import OomKills
from rightslice.exporter.host.oom.oom_logs import OomLogs
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.owners.workload import POD, Workload, pod_of
from rightslice.exporter.host.part import NodePart
from rightslice.exporter.host.whereabouts import Departure

# Whoever was killed may be gone before that is told.
LINGER_SECONDS = 60.0
# A counter that is born with 1 tells no increase: its 0 must be scraped first. Who scrapes is not
# always seen, and comes once a minute at the latest.
LONGEST_HOLD_SECONDS = 65.0
# Two may scrape, each for itself: both have, after two pages and the half minute that most let pass
# between two of their own.
HOLD_SCRAPES, SHORTEST_HOLD_SECONDS = 2, 30.0
# By then it is known of a pod that ended that it did: the kubelet is asked every ten seconds, and
# so are the cgroups.
STAYED_SECONDS = 25.0


LOG_CAUSES = (DEVICE_ALLOC, SOFT_LIMIT, STARTUP_CAPACITY)
# A workload and a cause.
Subject = tuple[Workload, str]


@dataclass(slots=True)
class _Told:
    """A subject: since when its series are told, how many pages were read then, and its last."""

    since_seconds: float
    scrape_count: int
    seen_seconds: float


@dataclass
class Ooms(NodePart):
    """Counts incidents; read by one thread. `scrape_count` tells how many pages were read whole."""

    id = "oom"

    attribution: Attribution
    logs: tuple[OomLogs, ...]
    kills: OomKills
    reports: Reports
    clock: Clock
    scrape_count: Callable[[], int]
    incidents: Incidents = field(default_factory=Incidents)
    _told: dict[Subject, _Told] = field(default_factory=dict)
    # Processes that left a full card, of which it is not known yet whether their pods stayed.
    _departures: list[Departure] = field(default_factory=list)
    # Incidents whose 0 nobody has read yet.
    _held: list[Report] = field(default_factory=list)

    def told(self) -> list[Subject]:
        """Name the workloads, and causes, whose incidents are told."""
        now_seconds = self.clock.monotonic_seconds()
        for subject in {*self._watched(), *map(_subject, self._held)}:
            self._see(subject, now_seconds)
        for subject, told in list(self._told.items()):
            if now_seconds - told.seen_seconds > LINGER_SECONDS:
                del self._told[subject]
        self.incidents.forget_all_but({workload for workload, _ in self._told})
        return list(self._told)

    def take_new(self) -> list[Report]:
        """Give the incidents that began since the last call, or that were held back."""
        now_seconds = self.clock.monotonic_seconds()
        reports = self.reports.take()
        begun = [new for report in reports if (new := self.incidents.take(report)) is not None]
        for report in self._inferred(now_seconds):
            self.incidents.take(report)
        self._held += [*begun, *self.incidents.take_due(now_seconds)]
        due = [report for report in self._held if self._is_read(report, now_seconds)]
        self._held = [report for report in self._held if report not in due]
        return due

    def _watched(self) -> Iterator[Subject]:
        """Give what somebody would tell of: what is not looked at is not known to be 0."""
        measured = self.attribution.whereabouts.measured(self.clock.monotonic_seconds())
        with_logs = frozenset().union(*(logs.workloads for logs in self.logs))
        with_counters = self.kills.counters.workloads
        for logs in self.logs:
            yield from ((each, cause) for each in logs.named_by_user for cause in LOG_CAUSES)
        for workload in self.attribution.workloads_on_cards():
            causes: tuple[str, ...] = ()
            causes += LOG_CAUSES if workload in with_logs else ()
            causes += tuple(KILLS) if self.kills.has_log or workload in with_counters else ()
            causes += (SUSPECTED,) if workload.kind == POD and workload in measured else ()
            yield from ((workload, cause) for cause in causes)

    def _see(self, subject: Subject, now_seconds: float) -> _Told:
        new = _Told(now_seconds, self.scrape_count(), now_seconds)
        told = self._told.setdefault(subject, new)
        told.seen_seconds = now_seconds
        return told

    def _is_read(self, report: Report, now_seconds: float) -> bool:
        """Tell whether somebody has read that nothing had happened yet."""
        told = self._see(_subject(report), now_seconds)
        age_seconds = now_seconds - told.since_seconds
        if age_seconds < SHORTEST_HOLD_SECONDS:
            return False
        is_scraped = self.scrape_count() - told.scrape_count >= HOLD_SCRAPES
        return is_scraped or age_seconds >= LONGEST_HOLD_SECONDS

    def close(self) -> None:
        """Keep how far logs were read, and let go of files."""
        for logs in self.logs:
            logs.close()
        self.kills.close()

    def _inferred(self, now_seconds: float) -> list[Report]:
        """Suspect a process that left a full card while its pod goes on to hold the card.

        A job that is done leaves as a whole, and its pod ends with it; that takes a while to learn.
        """
        self._departures += self.attribution.whereabouts.take_departures()
        due = [each for each in self._departures if now_seconds - each.at_seconds >= STAYED_SECONDS]
        self._departures = [each for each in self._departures if each not in due]
        holders = {pod_of(workload) for workload in self.attribution.holders}
        return [
            Report(
                departure.workload,
                SUSPECTED,
                INFERRED,
                departure.at_seconds,
                self.clock.wall_seconds() - (now_seconds - departure.at_seconds),
                confidence="low",
                uuid=departure.uuid,
            )
            for departure in due
            if departure.workload.kind == POD and pod_of(departure.workload) in holders
        ]


def _subject(report: Report) -> Subject:
    return report.workload, report.cause
