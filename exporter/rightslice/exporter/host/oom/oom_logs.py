"""Reads the logs of workloads for the words of frameworks whose memory ran out."""

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.oom.file_targets import FileTargets, job_on_a_card
from rightslice.exporter.host.oom.incidents import (
    HOST_CGROUP,
    LOG,
    PROGRAM,
    SUSPECTED,
    Report,
)
from rightslice.exporter.host.oom.log_format import LogMessage
from rightslice.exporter.host.oom.log_tail import LogTail
from rightslice.exporter.host.oom.patterns import OomMatch, Patterns, load_patterns
from rightslice.exporter.host.oom.positions import PositionFile, SavedPositions
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.oom.targets import Target, Targets
from rightslice.exporter.host.oom.userspace_kill import (
    KILL_WORDS,
    UserspaceKill,
    parse_userspace_kill,
)
from rightslice.exporter.host.owners.cgroup_path import parse_path
from rightslice.exporter.host.owners.workload import SLURM_JOB, Workload
from rightslice.exporter.host.part import NodePart

log = logging.getLogger(__name__)

TARGETS_SECONDS = 2.0
# The end of the program does not wait longer for a disk.
CLOSE_SECONDS = 2.0
CONTAINERS, FILES = "oom_logs", "oom_files"
SOURCES = {CONTAINERS: "logs", FILES: "files"}
# A record this old was not read as it was written: then its own time tells when it happened. Below,
# this clock does, which nobody sets back.
LATE_SECONDS = 5.0
KILL_LITERALS = tuple(word.encode() for word in KILL_WORDS)


class OomLogs(NodePart):
    """One thread reads. The positions are saved before what was read is told: at most once.

    A program that is killed in between has read lines that it never told of.
    """

    asks_driver = False

    def __init__(
        self,
        name: str,
        attribution: Attribution,
        targets: Targets,
        patterns_file: Path | None,
        position_file: Path | None,
        clock: Clock,
        reports: Reports,
    ) -> None:
        self.id = self.lane = name
        self._attribution = attribution
        self._targets = targets
        self._patterns_file = patterns_file
        self._position_file = position_file
        self._clock = clock
        self._reports = reports
        self._patterns: Patterns | None = None
        self._positions: PositionFile | None = None
        self._tail: LogTail | None = None
        self._found: Mapping[Path, Target] = {}
        self._found_seconds = float("-inf")
        self._found_workloads: set[Workload] = set()
        self._told_reasons: dict[str, str | None] = {}
        self._kill_words = KILL_LITERALS if isinstance(targets, FileTargets) else ()
        # Who ends the program closes what the lane's thread may be reading from.
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def sources(self) -> dict[str, bool]:
        """Tell what there is to read, or to keep, and whether that works."""
        has_any = bool(self._found) or self._targets.unavailable_reason is not None
        found = {SOURCES[self.id]: self._reason} if has_any else {}
        if self._positions is not None:
            found[f"{SOURCES[self.id]}_position"] = self._positions.unavailable_reason
        return {source: reason is None for source, reason in found.items()}

    @property
    def workloads(self) -> frozenset[Workload]:
        """Name the workloads of which a log is read."""
        return self._workloads_of(frozenset() if self._tail is None else self._tail.readable)

    @property
    def named_by_user(self) -> frozenset[Workload]:
        """Name the workloads of files that the user named and somebody writes, on a card or not."""
        if self._tail is None or not isinstance(self._targets, FileTargets):
            return frozenset()
        return self._workloads_of(self._tail.readable & self._tail.grown)

    def _workloads_of(self, paths: frozenset[Path]) -> frozenset[Workload]:
        workloads = (self._found[path].workload for path in paths & self._found.keys())
        return frozenset(each for each in workloads if each is not None)

    @property
    def file_count(self) -> int:
        return 0 if self._tail is None else self._tail.file_count

    @property
    def read_bytes(self) -> int:
        return 0 if self._tail is None else self._tail.read_bytes

    @property
    def skipped_bytes(self) -> int:
        return 0 if self._tail is None else self._tail.skipped_bytes

    def refresh(self) -> None:
        """Read what was written since the last call."""
        with self._lock:
            if not self._is_closed:
                self._refresh()

    def close(self) -> None:
        """Tell of what was begun, and keep how far logs were read; not while a disk hangs."""
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return
        try:
            self._is_closed = True
            if self._tail is not None:
                self._tell(list(self._reports_of(self._tail.finish())), is_last=True)
            if self._positions is not None:
                self._positions.close()
        finally:
            self._lock.release()

    def _refresh(self) -> None:
        tail, now_seconds = self._opened(), self._clock.monotonic_seconds()
        workloads = self._attribution.workloads_on_cards()
        is_due = now_seconds - self._found_seconds >= TARGETS_SECONDS
        if is_due or workloads != self._found_workloads:
            self._found_seconds, self._found_workloads = now_seconds, workloads
            self._found = self._targets.find(now_seconds)
            tail.follow({path: target.new_decoder for path, target in self._found.items()})
        # To its end, before the positions are taken.
        self._tell(list(self._reports_of(tail.read(self._may_match))))
        self._log_reasons()

    def _tell(self, told: list[tuple[Report, bool]], *, is_last: bool = False) -> None:
        assert self._tail is not None
        if self._positions is not None:
            is_idle = not (told or is_last)
            self._positions.save(self._tail.positions(), is_idle=is_idle)
        for report, is_line in told:
            self._reports.waiting.append(report)
            if is_line:
                self._reports.matches.append((report.workload, report.framework))

    def _opened(self) -> LogTail:
        """Give the tail; the first time, begin where an earlier run stopped."""
        if self._tail is None:
            self._patterns = load_patterns(self._patterns_file)
            saved = self._saved()
            self._tail = LogTail(
                self._clock.wall_seconds() if saved is None else saved.wall_seconds,
                {} if saved is None else saved.positions,
                has_saved=saved is not None,
                now_seconds=self._clock.monotonic_seconds,
                wall_now_seconds=self._clock.wall_seconds,
            )
        return self._tail

    def _saved(self) -> SavedPositions | None:
        """Give what an earlier run saved, and from now on save there."""
        if self._position_file is None:
            return None
        clock = self._clock
        self._positions = PositionFile(
            self._position_file, clock.monotonic_seconds, clock.wall_seconds
        )
        saved = self._positions.load()
        if self._positions.warning:
            log.warning("%s", self._positions.warning)
        return saved

    def _may_match(self, chunk: bytes) -> bool:
        assert self._patterns is not None
        return self._patterns.may_match(chunk) or any(word in chunk for word in self._kill_words)

    def _reports_of(
        self, messages: Iterator[tuple[Path, LogMessage]]
    ) -> Iterator[tuple[Report, bool]]:
        for path, message in messages:
            target = self._found.get(path)
            if target is not None:
                yield from self._report(target, message)

    def _report(self, target: Target, message: LogMessage) -> Iterator[tuple[Report, bool]]:
        """Give what a message tells, and whether it is a framework's word."""
        assert self._patterns is not None
        match = self._patterns.match(message.text)
        if match is not None and not match.is_quoted:
            workload = target.workload or self._workload_of_entry(message)
            if workload is not None:
                yield self._of_match(workload, match, message), True
        elif match is None and target.has_programs:
            yield from self._of_program(target, message)

    def _of_match(self, workload: Workload, match: OomMatch, message: LogMessage) -> Report:
        at_seconds, wall_seconds = self._times(message)
        memory = self._attribution.whereabouts.memory_of(workload, self._clock.monotonic_seconds())
        sizes = {
            **match.sizes_bytes,
            **({} if memory.used_bytes is None else {"used": memory.used_bytes}),
            **({} if memory.promised_bytes is None else {"promised": memory.promised_bytes}),
        }
        return Report(
            workload,
            SUSPECTED if match.confidence == "low" else match.cause,
            LOG,
            at_seconds,
            wall_seconds,
            match.framework,
            match.confidence,
            sizes,
            memory.uuid,
            match.is_detail,
        )

    def _of_program(self, target: Target, message: LogMessage) -> Iterator[tuple[Report, bool]]:
        """Read the word of a program that kills, in a journal or in a job's output.

        A journal tells who wrote; in a job's output anybody may write, so it counts for that job.
        """
        kill = parse_userspace_kill(message.text)
        if kill is None or not kill.count:
            return
        workload: Workload | None = None
        if target.workload is None:
            workload = self._killed(kill) if _is_of_system(message, kill.program) else None
        elif target.workload.kind == SLURM_JOB and kill.slurm_job_id == target.workload.pod:
            workload = self._job(kill) or target.workload
        if workload is not None and self._attribution.is_on_a_card(workload):
            at_seconds, wall_seconds = self._times(message)
            confidence = "high" if target.workload is None else "medium"
            report = Report(
                workload, HOST_CGROUP, PROGRAM, at_seconds, wall_seconds, kill.program, confidence
            )
            yield report, False

    def _killed(self, kill: UserspaceKill) -> Workload | None:
        if kill.cgroup:
            return self._attribution.workload_at(parse_path(kill.cgroup)[0], kill.command, None)
        if kill.slurm_job_id:
            return self._job(kill)
        if kill.process_id is not None:
            return self._attribution.whereabouts.workload_of(kill.process_id)
        return None

    def _job(self, kill: UserspaceKill) -> Workload | None:
        return job_on_a_card(self._attribution, kill.slurm_job_id, kill.slurm_step)

    def _workload_of_entry(self, message: LogMessage) -> Workload | None:
        """Name whose an entry of a journal is, if it is on a card."""
        container_id = message.fields.get("CONTAINER_ID_FULL", "")
        for owner in self._attribution.owners.seen if container_id else ():
            if owner.container_id == container_id:
                return owner.workload
        process_id = message.fields.get("_PID", "")
        if process_id.isascii() and process_id.isdigit():
            workload = self._attribution.whereabouts.workload_of(int(process_id))
            if workload is not None:
                return workload
        place = parse_path(message.fields.get("_SYSTEMD_CGROUP", ""))[0]
        workload = self._attribution.workload_at(place, message.fields.get("_COMM", ""), None)
        is_ours = workload is not None and self._attribution.is_on_a_card(workload)
        return workload if is_ours else None

    def _times(self, message: LogMessage) -> tuple[float, float]:
        """Say when a message was written, on the clock that never goes back and on the wall."""
        now_seconds, wall_seconds = self._clock.monotonic_seconds(), self._clock.wall_seconds()
        age_seconds = 0.0 if message.wall_seconds is None else wall_seconds - message.wall_seconds
        if age_seconds <= LATE_SECONDS:  # or from the future: somebody's clock was set
            return now_seconds, wall_seconds
        return now_seconds - age_seconds, wall_seconds - age_seconds

    @property
    def _reason(self) -> str | None:
        if self._targets.unavailable_reason is not None:
            return self._targets.unavailable_reason
        return None if self._tail is None else self._tail.unavailable_reason

    def _log_reasons(self) -> None:
        reasons = {"logs": self._reason}
        if self._positions is not None:
            reasons["positions"] = self._positions.unavailable_reason
        for source, reason in reasons.items():
            if reason and reason != self._told_reasons.get(source):
                log.warning("memory that ran out: %s", reason)
        self._told_reasons = reasons


def _is_of_system(message: LogMessage, program: str) -> bool:
    """Tell whether the program itself wrote an entry: the journal vouches for user and command."""
    command = message.fields.get("_COMM", "")
    return message.fields.get("_UID") == "0" and bool(command) and program.startswith(command)
