"""From many reports of memory that ran out to incidents, each once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rightslice.exporter.host.owners.workload import SLURM_JOB, Workload, pod_of

DEVICE_ALLOC, SOFT_LIMIT, STARTUP_CAPACITY = "device_alloc", "soft_limit", "startup_capacity"
HOST_CGROUP, HOST_GLOBAL, SUSPECTED = "host_cgroup", "host_global", "suspected"
CAUSES = (DEVICE_ALLOC, SOFT_LIMIT, STARTUP_CAPACITY, HOST_CGROUP, HOST_GLOBAL, SUSPECTED)
# Those who know most first. A log and a kernel's record name more than a counter does.
SOURCES = LOG, KERNEL, CGROUP, PROGRAM, INFERRED = (
    "log",
    "kernel",
    "cgroup",
    "program",
    "inferred",
)

# One failure is told by a traceback, by each of its ranks, by a launcher's summary: all within
# seconds (research, section 2.4).
QUIET_SECONDS = 10.0
# The kernel's record, the cgroup's counter and the words of a program lie this far apart at most.
SAME_KILL_SECONDS = 15.0
# So long somebody may yet tell more surely of what is only suspected.
DOUBT_SECONDS = 15.0
# A library that refuses memory prints its own word, and the framework above it another one.
REFUSALS = frozenset((DEVICE_ALLOC, SOFT_LIMIT))
KILLS = frozenset((HOST_CGROUP, HOST_GLOBAL))


@dataclass(frozen=True, slots=True)
class Report:
    """One source's word that a workload ran out of memory.

    `at_seconds` is on the clock that never goes back; `wall_seconds` is told to people. A detail
    opens no incident, and adds sizes to one that is open.
    """

    workload: Workload
    cause: str
    source: str
    at_seconds: float
    wall_seconds: float
    framework: str = ""
    confidence: str = "high"
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    uuid: str = ""
    is_detail: bool = False


@dataclass(slots=True)
class Incident:
    """One incident: what is known of it best, and when somebody last told of it."""

    report: Report
    last_seconds: float
    # Whether a program has told of it: Slurm does when the step ends, which may be hours later.
    is_told_by_program: bool = False


@dataclass
class Incidents:
    """Tells incidents apart. Not thread-safe.

    One is over when nobody told of it for ten seconds; reports of the same container and cause join
    it until then. A refusal by a library and the framework's error about it are one; so are all
    words about one kill, whichever container of the pod they name.
    """

    # The last of each workload and cause, open or over.
    last: dict[tuple[Workload, str], Incident] = field(default_factory=dict)
    # The newest of each workload.
    _doubts: dict[Workload, Report] = field(default_factory=dict)

    def take(self, report: Report) -> Report | None:
        """Take in a report; give it back if it begins an incident.

        What is suspected waits: `take_due` gives it.
        """
        if report.cause == SUSPECTED:
            if not report.is_detail:
                self._doubts.setdefault(report.workload, report)
            return None
        open_incident = self._open(report)
        if open_incident is not None:
            _join(open_incident, report)
            return None
        if report.is_detail:
            return None
        return self._begin(report)

    def take_due(self, now_seconds: float) -> list[Report]:
        """Give what was suspected and begins an incident, for nobody told of it more surely."""
        waiting, self._doubts = self._doubts, {}
        begun = []
        for workload, report in waiting.items():
            if now_seconds - report.at_seconds < DOUBT_SECONDS:
                self._doubts[workload] = report
            elif not self._is_explained(report):
                joined = self._open(report)
                if joined is None:
                    begun.append(self._begin(report))
                else:
                    _join(joined, report)
        return begun

    def forget_all_but(self, workloads: Iterable[Workload]) -> None:
        """Forget the incidents of workloads that are no more; what is in doubt ends by itself."""
        kept = frozenset(workloads)
        self.last = {key: each for key, each in self.last.items() if key[0] in kept}

    def _begin(self, report: Report) -> Report:
        is_of_program = report.source == PROGRAM
        new = Incident(report, report.at_seconds, is_of_program)
        self.last[report.workload, report.cause] = new
        return report

    def _open(self, report: Report) -> Incident | None:
        """Find the incident that a report is of."""
        if report.cause in KILLS:
            return self._open_kill(report)
        causes = REFUSALS if report.cause in REFUSALS else (report.cause,)
        found = (self.last.get((report.workload, cause)) for cause in sorted(causes))
        return next(
            (each for each in found if each and _is_open(each, report, QUIET_SECONDS)), None
        )

    def _open_kill(self, report: Report) -> Incident | None:
        """Find the kill, which others may tell of another container, or of the pod as a whole."""
        found = [
            incident
            for (workload, cause), incident in self.last.items()
            if cause in KILLS
            and pod_of(workload) == pod_of(report.workload)
            and _is_same_place(workload, report.workload)
            and _is_same_kill(incident, report)
        ]
        return max(found, key=lambda incident: incident.last_seconds, default=None)

    def _is_explained(self, doubt: Report) -> bool:
        """Tell whether something certain happened to the workload around that time."""
        return any(
            pod_of(workload) == pod_of(doubt.workload)
            and cause != SUSPECTED
            and abs(incident.last_seconds - doubt.at_seconds) <= DOUBT_SECONDS
            for (workload, cause), incident in self.last.items()
        )


def _is_same_place(workload: Workload, other: Workload) -> bool:
    return workload == other or not (workload.container and other.container)


def _is_same_kill(incident: Incident, report: Report) -> bool:
    if report.source == PROGRAM and not incident.is_told_by_program:
        return report.workload.kind == SLURM_JOB or _is_open(incident, report, SAME_KILL_SECONDS)
    is_other_source = incident.report.source != report.source
    return _is_open(incident, report, SAME_KILL_SECONDS if is_other_source else QUIET_SECONDS)


def _is_open(incident: Incident, report: Report, longest_seconds: float) -> bool:
    return abs(report.at_seconds - incident.last_seconds) <= longest_seconds


def _join(incident: Incident, report: Report) -> None:
    """Add what a report knows. What was told first stays; sources that know more correct it.

    One who only repeats what another source told does not keep the incident open.
    """
    known = incident.report
    if report.source == known.source or known.cause not in KILLS:
        incident.last_seconds = max(incident.last_seconds, report.at_seconds)
    incident.is_told_by_program |= report.source == PROGRAM
    is_better = SOURCES.index(report.source) < SOURCES.index(known.source)
    sizes = {**report.sizes_bytes, **known.sizes_bytes}
    if report.is_detail:  # the exact bytes of what was told rounded
        sizes = {**known.sizes_bytes, **report.sizes_bytes}
    best = report if is_better else known
    incident.report = replace(
        known,
        source=best.source,
        framework=best.framework or known.framework,
        confidence=best.confidence,
        sizes_bytes=sizes,
        uuid=known.uuid or report.uuid,
    )
