"""Reads the logs of workloads for the words of frameworks whose memory ran out."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.oom.incidents import (
    HOST_CGROUP,
    LOG,
    PROGRAM,
    SUSPECTED,
    Report,
)
from rightslice.exporter.host.oom.log_format import LogMessage
from rightslice.exporter.host.oom.log_tail import LogTail
from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.host.oom.patterns import OomMatch, Patterns, load_patterns
from rightslice.exporter.host.oom.positions import PositionFile
from rightslice.exporter.host.oom.reports import Reports
from rightslice.exporter.host.oom.targets import Target, Targets
from rightslice.exporter.host.oom.userspace_kill import KILL_WORDS, parse_userspace_kill
from rightslice.exporter.host.owners.cgroup_path import parse_path
from rightslice.exporter.host.owners.workload import SLURM_JOB, Workload, pod_of
from rightslice.exporter.host.part import NodePart

log = logging.getLogger(__name__)

TARGETS_SECONDS = 2.0
# A record this old was not read as it was written: then its own time tells when it happened. Below,
# this clock does, which nobody sets back.
LATE_SECONDS = 5.0
KILL_LITERALS = tuple(word.encode() for word in KILL_WORDS)


class OomLogs(NodePart):
    """One thread reads. The positions are saved before what was read is told: at most once.

    A program that is killed in between has read lines that it never told of.
    """

    id = "oom_logs"
    lane = "oom_logs"

    def __init__(
        self,
        attribution: Attribution,
        targets: Targets,
        options: OomOptions,
        clock: Clock,
        reports: Reports,
    ) -> None:
        self._attribution = attribution
        self._whereabouts = attribution.whereabouts
        self._targets = targets
        self._clock = clock
        self._reports = reports
        self._options = options
        self._patterns: Patterns | None = None
        self._positions: PositionFile | None = None
        self._tail: LogTail | None = None
        self._found: Mapping[Path, Target] = {}
        self._found_seconds = float("-inf")
        self._told_reasons: dict[str, str | None] = {}
        has_programs = targets.file_globs or targets.journal_globs
        self._kill_words = KILL_LITERALS if has_programs else ()

    @property
    def sources(self) -> dict[str, bool]:
        """Tell what there is to read, or to keep, and whether that works."""
        found = {} if self._tail is None or not self._tail.file_count else {"logs": self._reason}
        if self._positions is not None:
            found["position"] = self._positions.unavailable_reason
        return {source: reason is None for source, reason in found.items()}

    @property
    def workloads(self) -> frozenset[Workload]:
        """Name the workloads of which a log is read."""
        workloads = (target.workload for target in self._found.values())
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
        tail, now_seconds = self._opened(), self._clock.monotonic_seconds()
        if now_seconds - self._found_seconds >= TARGETS_SECONDS:
            self._found_seconds = now_seconds
            self._found = self._targets.find(now_seconds)
            tail.follow({path: target.new_decoder for path, target in self._found.items()})
        # To its end, before the positions are taken.
        self._tell(list(self._reports_of(tail.read(self._may_match))))
        self._log_reasons()

    def close(self) -> None:
        """Tell of what was begun, and keep how far logs were read."""
        if self._tail is not None:
            self._tell(list(self._reports_of(self._tail.finish())), is_last=True)

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
            self._patterns = load_patterns(self._options.patterns_file)
            reference_seconds, known = self._clock.wall_seconds(), {}
            if self._options.position_file is not None:
                self._positions = PositionFile(
                    self._options.position_file,
                    self._clock.monotonic_seconds,
                    self._clock.wall_seconds,
                )
                saved = self._positions.load()
                if self._positions.warning:
                    log.warning("%s", self._positions.warning)
                if saved is not None:
                    reference_seconds, known = saved.wall_seconds, dict(saved.positions)
            self._tail = LogTail(
                reference_seconds, known, now_seconds=self._clock.monotonic_seconds
            )
        return self._tail

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
        memory = self._whereabouts.memory_of(workload, self._clock.monotonic_seconds())
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
        """Read the word of a program that kills, in a journal or in a job's output."""
        kill = parse_userspace_kill(message.text)
        if kill is None or not kill.count:
            return
        workload = None
        if kill.process_id is not None:
            workload = self._whereabouts.workload_of(kill.process_id)
        if workload is None and kill.cgroup:
            workload = self._attribution.workload_at(parse_path(kill.cgroup)[0], kill.command, None)
        if workload is None and kill.slurm_job_id:
            workload = self._job(kill.slurm_job_id, kill.slurm_step) or target.workload
        if workload is not None and self._attribution.is_on_a_card(workload):
            at_seconds, wall_seconds = self._times(message)
            yield (
                Report(workload, HOST_CGROUP, PROGRAM, at_seconds, wall_seconds, kill.program),
                False,
            )

    def _job(self, job_id: str, step: str) -> Workload | None:
        seen = (owner.workload for owner in self._attribution.owners.seen)
        jobs = {
            workload
            for workload in (*self._attribution.holders, *seen)
            if workload is not None and pod_of(workload)[::2] == (SLURM_JOB, job_id)
        }
        same_step = [workload for workload in sorted(jobs) if workload.container == step]
        return next(iter(same_step or sorted(jobs)), None)

    def _workload_of_entry(self, message: LogMessage) -> Workload | None:
        """Name whose an entry of a journal is, if it is on a card."""
        process_id = message.fields.get("_PID", "")
        if process_id.isdigit():
            workload = self._whereabouts.workload_of(int(process_id))
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
        return None if self._tail is None else self._tail.unavailable_reason

    def _log_reasons(self) -> None:
        reasons = {"logs": self._reason}
        if self._positions is not None:
            reasons["positions"] = self._positions.unavailable_reason
        for source, reason in reasons.items():
            if reason and reason != self._told_reasons.get(source):
                log.warning("memory that ran out: %s", reason)
        self._told_reasons = reasons
