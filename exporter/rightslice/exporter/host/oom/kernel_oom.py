"""Kills by the kernel's OOM killer: the lines of its reports, joined to one kill a process."""

from collections import deque
from dataclasses import dataclass, field, fields, replace

from rightslice.exporter.host.oom.kernel_line import Kind, OomLine, parse_oom_line
from rightslice.exporter.host.oom.wrapped_line import LineJoiner

# Lines of one report lie microseconds apart, at a slow console milliseconds. The table of processes
# may take longer, and each of its rows starts the wait anew.
WAIT_SECONDS = 2.0
# With a group the process that was chosen is named twice. No id is used again within this time.
SAME_PROCESS_SECONDS = 5.0
# The processes of a group are killed in one go. A kill without a report, as the kernel leaves out
# many in a row, may follow and looks the same.
GROUP_SECONDS = 0.25
# Limits of memory, above what the kernel's own log holds.
MOST_WAITING = 1024
MOST_READY = 16_384
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class OomKill:
    """One process that the kernel killed. What was not told is None or empty.

    `is_global` tells whether the node ran out rather than a cgroup at its limit; None where an
    excerpt does not tell. `cgroup` is where the process was, `limit_cgroup` whose limit was hit,
    `limit_bytes` that limit, both from the cgroup's mount on. A path that the kernel cut is given
    as far as it goes. `is_group` tells that it died with all of its cgroup (memory.oom.group);
    `cgroup` of the others is then that cgroup. `seconds` is the record's stamp.
    """

    seconds: float
    is_global: bool | None = None
    process_id: int | None = None
    command: str = ""
    user_id: int | None = None
    cgroup: str = ""
    limit_cgroup: str = ""
    limit_bytes: int | None = None
    anon_rss_bytes: int | None = None
    total_vm_bytes: int | None = None
    file_rss_bytes: int | None = None
    is_group: bool = False


TOLD_BY_A_LINE = tuple(row.name for row in fields(OomLine) if row.name != "kind")


@dataclass(slots=True, eq=False)
class _Report:
    """A kill as far as it is told."""

    kill: OomKill
    last_seconds: float
    kinds: set[Kind] = field(default_factory=set)
    # By the clock of those who take, which is not the kernel's.
    waits_since_seconds: float | None = None
    is_given: bool = False

    @property
    def is_complete(self) -> bool:
        if Kind.KILLED not in self.kinds:
            return False
        # Before Linux 5.0 nothing told the cgroup of a process when the whole node ran out.
        is_old_global = Kind.CHOSEN in self.kinds and self.kill.is_global is True
        return is_old_global or self.kill.is_group or bool({Kind.SUMMARY, Kind.TASK} & self.kinds)

    def take_in(self, line: OomLine, seconds: float) -> None:
        told = {name: getattr(line, name) for name in TOLD_BY_A_LINE}
        told = {name: value for name, value in told.items() if value not in (None, "")}
        self.kill = replace(self.kill, **told)
        self.kinds.add(line.kind)
        self.touch(seconds)

    def touch(self, seconds: float) -> None:
        self.last_seconds, self.waits_since_seconds = seconds, None

    def may_be_of(self, line: OomLine) -> bool:
        """Tell whether a line that names another process, or the first one, may belong here."""
        if Kind.KILLED in self.kinds or line.kind in self.kinds:
            return False
        scopes = {self.kill.is_global, line.is_global} - {None}
        if len(scopes) > 1:
            return False
        # A child of the one that was chosen; the line without a scope is of that time.
        is_sacrificed = Kind.CHOSEN in self.kinds and line.is_global is None
        return self.kill.process_id is None or is_sacrificed


class OomKillReader:
    """Joins lines to kills. Bounded memory; never raises, whatever the text. Not thread-safe.

    `lost_count` counts kills that nobody took in time.
    """

    def __init__(self) -> None:
        self.lost_count = 0
        self._joiner = LineJoiner()
        self._held_since_seconds: float | None = None
        self._waiting: deque[_Report] = deque()
        self._ready: deque[OomKill] = deque()
        # By process id, the newest last; also what was given already.
        self._recent: dict[int, _Report] = {}
        # A limit is told before the line that tells whose it is. More than one, and none is sure.
        self._limits: list[tuple[int | None, float]] = []
        self._last_killed: _Report | None = None
        # What all processes of a group that is being killed have in common.
        self._group: OomKill | None = None
        self._group_seconds = 0.0

    def feed(self, text: str, seconds: float) -> None:
        """Take in a record of the kernel, without syslog's prefix, and the record's stamp."""
        for line_text, line_seconds in self._joiner.feed(text, seconds):
            self._feed_line(line_text, line_seconds)
        self._held_since_seconds = None

    def take(self, now_seconds: float) -> list[OomKill]:
        """Give the kills that are whole, and those whose rest did not come within two seconds.

        The waiting is counted from the first call that saw the kill: `now_seconds` need not be of
        the kernel's clock.
        """
        if self._joiner.held:
            since_seconds = _earlier(self._held_since_seconds, now_seconds)
            self._held_since_seconds = since_seconds
            if now_seconds - since_seconds >= WAIT_SECONDS:
                self._feed_held()
        for report in tuple(self._waiting):
            report.waits_since_seconds = _earlier(report.waits_since_seconds, now_seconds)
            waited_seconds = now_seconds - report.waits_since_seconds
            if report.is_complete or waited_seconds >= WAIT_SECONDS:
                self._give(report)
        return self._ready_kills()

    def take_all(self) -> list[OomKill]:
        """Give all kills, also those that wait for the rest: nothing more will come."""
        self._feed_held()
        for report in tuple(self._waiting):
            self._give(report)
        return self._ready_kills()

    def _feed_held(self) -> None:
        for text, seconds in self._joiner.release():
            self._feed_line(text, seconds)

    def _feed_line(self, text: str, seconds: float) -> None:
        line = parse_oom_line(text)
        if line is None:
            return
        self._give_old(seconds)
        match line.kind:
            case Kind.HEAD:
                self._group = None
            case Kind.TABLE_ROW:
                self._touch(seconds)
            case Kind.USAGE:
                self._take_limit(line, seconds)
            case Kind.GROUP:
                self._begin_group(line, seconds)
            case Kind.KILLED:
                self._take_killed(line, seconds)
            case _:
                self._group = None
                self._take_named(line, seconds)

    def _touch(self, seconds: float) -> None:
        """Keep the newest report waiting: its table is still being printed."""
        if self._waiting and Kind.KILLED not in self._waiting[-1].kinds:
            self._waiting[-1].touch(seconds)
        self._limits = [(limit, seconds) for limit, _ in self._limits]

    def _take_limit(self, line: OomLine, seconds: float) -> None:
        """Keep a limit for the line to come; the old kernels' line is there already."""
        of_old_kernels = [report for report in self._waiting if report.kinds == {Kind.TASK}]
        if len(of_old_kernels) == 1:
            of_old_kernels[0].take_in(line, seconds)
        if of_old_kernels:
            return
        self._limits.append((line.limit_bytes, seconds))
        if len(self._limits) > 1:
            self._limits = [(None, seconds) for _ in self._limits[-MOST_WAITING:]]

    def _take_named(self, line: OomLine, seconds: float) -> None:
        """Take in who was chosen, or in what cgroup."""
        report = self._recent.get(line.process_id) if line.process_id is not None else None
        if report is None and line.kind is Kind.CHOSEN:
            report = self._first_that_lacks(line)
        report = report or self._wait_for(OomKill(seconds))
        self._add(report, line, seconds)

    def _take_killed(self, line: OomLine, seconds: float) -> None:
        report = self._recent.get(line.process_id) if line.process_id is not None else None
        group = self._group
        if group is not None and abs(seconds - self._group_seconds) <= GROUP_SECONDS:
            self._group_seconds = seconds
            report = report or self._wait_for(replace(group, seconds=seconds))
            report.kill = replace(report.kill, is_group=True)
        report = report or self._first_that_lacks(line) or self._wait_for(OomKill(seconds))
        self._add(report, line, seconds)
        self._last_killed = report

    def _add(self, report: _Report, line: OomLine, seconds: float) -> None:
        if report.is_given:
            return
        before = report.kill.process_id
        report.take_in(line, seconds)
        after = report.kill.process_id
        if before is not None and before != after:  # a child died in its place
            self._recent.pop(before, None)
        if after is not None:
            self._recent.pop(after, None)
            self._recent[after] = report  # at the end: what was not heard of for longest is first
        if len(self._recent) > MOST_REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._add_limit(report)

    def _add_limit(self, report: _Report) -> None:
        kill = report.kill
        is_asking = kill.is_global is False and kill.limit_bytes is None and not kill.is_group
        if is_asking and self._limits and Kind.TASK not in report.kinds:
            limit_bytes, _ = self._limits.pop(0)
            report.kill = replace(kill, limit_bytes=limit_bytes)

    def _begin_group(self, line: OomLine, seconds: float) -> None:
        """Mark the process that was killed first, and keep what the others have in common."""
        first = self._last_killed
        if first is not None and abs(seconds - first.last_seconds) > WAIT_SECONDS:
            first = None
        if first is not None:
            first.kill = replace(first.kill, is_group=True)
        self._group = OomKill(
            seconds,
            is_global=first.kill.is_global if first else None,
            cgroup=line.cgroup,
            limit_cgroup=first.kill.limit_cgroup if first else "",
            limit_bytes=first.kill.limit_bytes if first else None,
            is_group=True,
        )
        self._group_seconds = seconds

    def _first_that_lacks(self, line: OomLine) -> _Report | None:
        return next((report for report in self._waiting if report.may_be_of(line)), None)

    def _wait_for(self, kill: OomKill) -> _Report:
        report = _Report(kill, kill.seconds)
        self._waiting.append(report)
        if len(self._waiting) > MOST_WAITING:
            self._give(self._waiting[0])
        return report

    def _give_old(self, seconds: float) -> None:
        """Stop waiting for the rest of what is too old by the kernel's clock."""
        while self._waiting and abs(seconds - self._waiting[0].last_seconds) > WAIT_SECONDS:
            self._give(self._waiting[0])
        self._limits = [row for row in self._limits if abs(seconds - row[1]) <= WAIT_SECONDS]
        while self._recent:
            process_id, oldest = next(iter(self._recent.items()))
            if abs(seconds - oldest.last_seconds) <= SAME_PROCESS_SECONDS:
                return
            del self._recent[process_id]

    def _give(self, report: _Report) -> None:
        self._waiting.remove(report)
        report.is_given = True
        self._ready.append(report.kill)
        if len(self._ready) > MOST_READY:
            self._ready.popleft()
            self.lost_count += 1

    def _ready_kills(self) -> list[OomKill]:
        kills = list(self._ready)
        self._ready.clear()
        return kills


def _earlier(since_seconds: float | None, now_seconds: float) -> float:
    """Give when a wait began; a clock that went back begins it anew."""
    return now_seconds if since_seconds is None else min(since_seconds, now_seconds)
