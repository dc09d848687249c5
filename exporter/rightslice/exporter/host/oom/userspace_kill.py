"""Lines of programs that kill for want of memory, or tell that the kernel did."""

import re
from collections.abc import Callable
from dataclasses import dataclass

LINE_LIMIT_CHARACTERS = 8192
# One of these is in every such line: who reads much text looks for them first.
KILL_WORDS = (
    " due to memory ",
    " SIGTERM to ",
    " SIGKILL to ",
    " with signal ",
    "oom-kill event",
    "oom_kill event",
    "memory limit",
)
SHELL_KILL_WORD = " Killed"

# The time and host that syslog, Slurm or the program itself put before; no other words may stand
# there, for people quote such lines.
PREFIX = (
    r"(?:(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}"
    r"|\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,+Z-]{8,24}\]?):? )?"
    r"(?:[^\s:\[\]]{1,255} )?"
)
NUMBER = r"(?:\[[0-9]{1,10}\])?"
# "srun --label" puts the task before, several slurmd on a node their name behind; slurmd's own log
# has "[191.batch]" for it. One of them must be there.
SLURM_TAG = (
    rf"(?:(?:[0-9]{{1,6}}: )?slurmstepd(?:-[^\s:\[\]]{{1,255}})?{NUMBER}: (?:error: )?"
    r"|(?:\[[\w.+]{1,64}\] )?error: )"
)
STEP = r"(?P<job>[0-9]{1,10}(?:[_+][0-9]{1,10})?)\.(?P<step>[\w+]{1,32})"
COUNT = r"(?P<count>[0-9]{1,10})"
PID = r"(?P<pid>[0-9]{1,10})"
COMMAND = r"(?P<command>.{0,64}?)"
BEING_KILLED = r"exceeded memory limit \([0-9]+ > [0-9]+\), being killed"


@dataclass(frozen=True, slots=True)
class UserspaceKill:
    """What a line tells; what it does not is None or empty.

    `count` is of processes, with systemd-oomd of cgroups; 0 where the line says that a limit was
    reached and not that anything died. Of slurmstepd's "oom-kill event" the kernel is the killer.
    """

    program: str
    cgroup: str = ""
    process_id: int | None = None
    command: str = ""
    slurm_job_id: str = ""
    slurm_step: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class ShellKill:
    """A shell's word that a child of its was killed, by whom and why it does not know.

    No event by itself: it names the process of one that is told elsewhere. `command` is the name
    of the program alone, as the rest may hold secrets. `slurm_job_id` is empty outside of Slurm's
    spool folder.
    """

    process_id: int
    command: str
    slurm_job_id: str = ""


OOMD = re.compile(
    rf"{PREFIX}(?:systemd-oomd{NUMBER}: )?"
    r"Killed (?P<cgroup>/[^\n]{0,4096}?) due to memory (?:used \(?[0-9]|pressure for /)"
)
# Newest first. It asks again every ten seconds until the process is gone: that is one kill.
EARLYOOM = tuple(
    re.compile(rf"{PREFIX}(?:earlyoom{NUMBER}: )?{form}")
    for form in (
        rf'sending SIG(?:TERM|KILL) to process {PID} (?:uid [0-9]{{1,10}} )?"{COMMAND}"'
        r": (?:badness|oom_score) ",
        rf'killing process {PID} "{COMMAND}" with signal [0-9]{{1,2}}: badness ',
        rf"Killing process '{COMMAND}' with signal [0-9]{{1,2}}, pid: {PID}, badness: ",
    )
)
# Which process it is the lines before tell.
NOHANG = re.compile(
    rf"{PREFIX}(?:nohang{NUMBER}: )? {{0,4}}Send(?:ing)? SIG(?:TERM|KILL) to the victim\b"
)
SLURM = tuple(
    re.compile(PREFIX + SLURM_TAG + form, re.ASCII)
    for form in (
        rf"Detected {COUNT} oom[-_]kill event(?:\(s\)|s)? in (?:StepId=|step ){STEP}(?=[ .]|$)",
        rf"(?:StepId=|Step ){STEP} {BEING_KILLED}",
        rf"(?:JobId=|Job )(?P<job>[0-9]{{1,10}}) {BEING_KILLED}",
        # "At some point" page cache alone may have reached it, and nothing died.
        r"Exceeded (?:step|job) memory limit(?P<is_vague> at some point)?",
    )
)
SHELL_KILL = re.compile(
    rf"(?P<script>[^:\n]{{1,1024}}): (?:line [0-9]{{1,9}}: {{1,8}})?{PID} Killed\b"
    r" {0,64}(?P<line>.*)"
)
SPOOLED_JOB = re.compile(r"/job(?P<job>[0-9]{1,10})/slurm_script$", re.ASCII)
PROGRAM = re.compile(r"[({\s]*(?:[^\s(){}]*/)?(?P<name>[\w.+-]{1,64})", re.ASCII)


def parse_userspace_kill(message: str) -> UserspaceKill | None:
    """Read a line; None for one that tells of no kill."""
    message = message[:LINE_LIMIT_CHARACTERS].rstrip()
    if not any(word in message for word in KILL_WORDS):
        return None
    kills = (parse(message) for parse in PARSERS)
    return next((kill for kill in kills if kill is not None), None)


def parse_shell_kill(message: str) -> ShellKill | None:
    """Read a shell's line; None for another, and for its "Killed" without more."""
    message = message[:LINE_LIMIT_CHARACTERS]
    match = SHELL_KILL.match(message) if SHELL_KILL_WORD in message else None
    if match is None:
        return None
    program, job = PROGRAM.match(match["line"]), SPOOLED_JOB.search(match["script"])
    return ShellKill(
        int(match["pid"]), program["name"] if program else "", job["job"] if job else ""
    )


def _oomd(message: str) -> UserspaceKill | None:
    match = OOMD.match(message)
    return UserspaceKill("systemd-oomd", cgroup=match["cgroup"]) if match else None


def _earlyoom(message: str) -> UserspaceKill | None:
    match = next((match for form in EARLYOOM if (match := form.match(message))), None)
    if match is None:
        return None
    return UserspaceKill("earlyoom", process_id=int(match["pid"]), command=match["command"])


def _nohang(message: str) -> UserspaceKill | None:
    return UserspaceKill("nohang") if NOHANG.match(message) else None


def _slurm(message: str) -> UserspaceKill | None:
    match = next((match for form in SLURM if (match := form.match(message))), None)
    if match is None:
        return None
    told = match.groupdict("")
    count = 0 if told.get("is_vague") else int(told.get("count", 1))
    return UserspaceKill(
        "slurmstepd",
        slurm_job_id=told.get("job", ""),
        slurm_step=told.get("step", ""),
        count=count,
    )


PARSERS: tuple[Callable[[str], UserspaceKill | None], ...] = (_oomd, _earlyoom, _nohang, _slurm)
