"""What single lines of the kernel log tell of the OOM killer."""

import re
from dataclasses import dataclass
from enum import Enum, auto

BYTES_PER_KIB = 1024
# The kernel writes its largest counter for "no limit", which depends on the size of a page.
NO_LIMIT_BYTES = 1 << 60
# Far above any record, and above what a wrapped line of them is joined to.
LINE_LIMIT_CHARACTERS = 8192

# Every part may be missing: syslog's or journald's time with host and tag, dmesg's time, level and
# caller. A tag of another program stays, and then nothing below holds from the line's start.
PREFIX = re.compile(
    r"(?:<[0-9]{1,3}>)?"
    r"(?:kern *:[a-z]+ *: )?"
    r"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}(?:\.[0-9]{1,9})? "
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})? )?"
    r"(?:(?:[^\s:]{1,255} )?kernel: ?)?"
    r"(?:\[(?: *[0-9]{1,10}\.[0-9]{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4})"
    r"\] ?)?"
    r"(?:\[ *[TC][0-9]{1,10}\] ?)?"
)
SUMMARY_START, TASK_START, GROUP_START = "oom-kill:constraint=", "Task in ", "Tasks in "
SUMMARY_END = re.compile(r"(?P<command>.*),pid=(?P<pid>[0-9]{1,10}),uid=(?P<uid>[0-9]{1,10})", re.S)
AS_A_RESULT = " killed as a result of limit of "
GROUP_END = " are going to be killed due to memory.oom.group set"
SCOPE = r"(?P<scope>Memory cgroup out of memory|Out of memory)(?: \([a-z_]{1,40}\))?: "
# Until Linux 5.0 a line said whom the killer chose; it then might take a child of that process.
CHOSEN = re.compile(
    rf"{SCOPE}[Kk]ill process (?P<pid>[0-9]{{1,10}}) \((?P<command>.*)\) score ", re.S
)
# RHEL 6 has the user before the name, RHEL 7 behind it, Linux 5.0 and later behind the sizes.
KILLED = re.compile(
    rf"(?:{SCOPE})?Killed process (?P<pid>[0-9]{{1,10}})(?:, UID (?P<uid>[0-9]{{1,10}}),)? "
    r"\((?P<rest>.*)",
    re.S,
)
SIZES = re.compile(
    r"(?P<command>.*)\)(?:, UID (?P<uid>[0-9]{1,10}),)? (?:total-vm|vsz):(?P<vm>[0-9]{1,18})kB"
    r"(?:, anon-rss:(?P<anon>[0-9]{1,18})kB)?(?:, file-rss:(?P<file>[0-9]{1,18})kB)?"
    r"(?:, shmem-rss:[0-9]{1,18}kB)?(?:, UID:(?P<last_uid>[0-9]{1,10}))?",
    re.S,
)
USAGE = re.compile(r"memory: usage [0-9]{1,18}kB, limit (?P<limit>[0-9]{1,18})kB")
# The processes that might have been killed; there may be thousands, and a console prints slowly.
TABLE_ROW = re.compile(r"\[ *(?:[0-9]{1,10}|pid) *\] +(?:[0-9]|uid)")
HEAD = " invoked oom-killer: "
HEAD_CHARACTERS = 64  # the name of a process is shorter

DRIVER_NO_MEMORY = "NV_ERR_NO_MEMORY"


class Kind(Enum):
    """What a line is in the report of a kill, in the order of a report."""

    HEAD = auto()
    TASK = auto()  # "Task in X killed as a result of limit of Y", until Linux 4.20
    USAGE = auto()
    TABLE_ROW = auto()
    SUMMARY = auto()  # "oom-kill:constraint=...", since Linux 5.0
    CHOSEN = auto()
    KILLED = auto()
    GROUP = auto()


@dataclass(frozen=True, slots=True)
class OomLine:
    """One line. A field that it does not tell is None or empty."""

    kind: Kind
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


def without_prefix(line: str) -> str:
    """Take away what syslog, journald or dmesg put before the kernel's text."""
    match = PREFIX.match(line)
    return line[match.end() :] if match else line


def is_driver_no_memory(text: str) -> bool:
    """Tell whether NVIDIA's driver failed to allocate for itself, often the node's own memory.

    That says of no process that it ran out, so it is counted apart. On boards whose memory is the
    node's own it often comes just before one does.
    """
    return text.startswith("NVRM: ") and DRIVER_NO_MEMORY in text


def parse_oom_line(text: str) -> OomLine | None:
    """Read a record's text; None for one that is no part of a report.

    All is read from the start of a record: names that others choose stand further right.
    """
    text = text[:LINE_LIMIT_CHARACTERS].rstrip()
    if text.startswith(SUMMARY_START):
        return _summary(text)
    if text.startswith(TASK_START):
        return _task(text)
    if text.startswith(GROUP_START) and " are going to be killed" in text:
        cgroup = text.removeprefix(GROUP_START).partition(" are going to be killed")[0]
        return OomLine(Kind.GROUP, cgroup=cgroup)
    if match := KILLED.match(text):
        return _killed(match)
    if match := CHOSEN.match(text):
        return OomLine(
            Kind.CHOSEN,
            is_global=_is_global(match["scope"]),
            process_id=int(match["pid"]),
            command=match["command"],
        )
    if match := USAGE.match(text):
        return OomLine(Kind.USAGE, limit_bytes=limit_bytes(int(match["limit"]) * BYTES_PER_KIB))
    if TABLE_ROW.match(text):
        return OomLine(Kind.TABLE_ROW)
    return OomLine(Kind.HEAD) if HEAD in text[: HEAD_CHARACTERS + len(HEAD)] else None


def limit_bytes(told_bytes: int) -> int | None:
    """Give a limit of memory; None for the huge value that means none."""
    return told_bytes if told_bytes < NO_LIMIT_BYTES else None


def is_whole(text: str) -> bool:
    """Tell whether a line that was begun has its end; a line of another kind has."""
    text = text.rstrip()
    if text.startswith(SUMMARY_START):
        return SUMMARY_END.fullmatch(text) is not None
    if text.startswith(TASK_START.rstrip()):
        return bool(text.partition(AS_A_RESULT)[2])
    return not text.startswith(GROUP_START.rstrip()) or text.endswith(GROUP_END)


def _is_global(scope: str | None) -> bool | None:
    return None if scope is None else not scope.startswith("Memory cgroup")


def _summary(text: str) -> OomLine:
    """Read what is there: the kernel cuts a record at 1 KiB, and two paths may be longer.

    A process's name may hold commas and "pid=", a path hardly does.
    """
    before, has_cgroup, after = text.partition(",task_memcg=")
    if not has_cgroup:  # cut before, or a kernel without cgroups of memory
        before, _, task = text.partition(",task=")
        cgroup = ""
    else:
        cgroup, _, task = after.partition(",task=")
    limit_cgroup = before.partition(",oom_memcg=")[2]
    end = SUMMARY_END.fullmatch(task)
    # Linux 4.19 and 5.0 call a cgroup's limit CONSTRAINT_NONE, so the constraint is asked last.
    is_global = not limit_cgroup and "CONSTRAINT_MEMCG" not in before
    return OomLine(
        Kind.SUMMARY,
        is_global=is_global if limit_cgroup or end or ",global_oom" in before else None,
        process_id=int(end["pid"]) if end else None,
        command=end["command"] if end else "",
        user_id=int(end["uid"]) if end else None,
        cgroup=cgroup,
        limit_cgroup=limit_cgroup,
    )


def _task(text: str) -> OomLine | None:
    cgroup, is_told, limit_cgroup = text.removeprefix(TASK_START).partition(AS_A_RESULT)
    if not is_told:
        cgroup, is_told, _ = cgroup.partition(" killed")
    if not is_told:
        return None
    return OomLine(Kind.TASK, is_global=False, cgroup=cgroup, limit_cgroup=limit_cgroup)


def _killed(match: re.Match[str]) -> OomLine:
    sizes = SIZES.match(match["rest"])
    told = sizes.groupdict() if sizes else {}
    user_id = match["uid"] or told.get("uid") or told.get("last_uid")
    return OomLine(
        Kind.KILLED,
        is_global=_is_global(match["scope"]),
        process_id=int(match["pid"]),
        command=told.get("command") or match["rest"].rpartition(")")[0],
        user_id=int(user_id) if user_id else None,
        anon_rss_bytes=_bytes(told.get("anon")),
        total_vm_bytes=_bytes(told.get("vm")),
        file_rss_bytes=_bytes(told.get("file")),
    )


def _bytes(kib: str | None) -> int | None:
    return int(kib) * BYTES_PER_KIB if kib else None
