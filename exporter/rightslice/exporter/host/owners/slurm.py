"""Slurm's jobs on this node, and which cards they hold even while they use none."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rightslice.exporter.host.owners.environment import read_variables
from rightslice.exporter.host.owners.label_text import label_text, name_text
from rightslice.exporter.host.owners.process_files import read_stat, read_user_id
from rightslice.exporter.host.owners.slurm_cgroups import (
    JobFolder,
    job_folders,
    slurm_roots,
    step_processes,
)
from rightslice.exporter.host.owners.users import UserNames

# Cards by number on the node, whatever the job itself sees. Slurm sets the first for the job's
# script only, the second for the other steps. A job's name is not read: it may be personal.
JOB_CARDS, STEP_CARDS = "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"
ACCOUNT, USER, USER_ID = "SLURM_JOB_ACCOUNT", "SLURM_JOB_USER", "SLURM_JOB_UID"
NAMES = frozenset({JOB_CARDS, STEP_CARDS, ACCOUNT, USER, USER_ID})
SCRIPT_STEPS = ("batch", "interactive")

CARD_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")
CARD_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,90}")
USER_NUMBER = re.compile(r"[0-9]{1,10}")
MOST_JOBS = 1024
ROOT = 0
ENVIRONMENT_REMEDY = "give CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or run as root"
HANG_REMEDY = "they hang in the kernel, and are read when they go on"


@dataclass(frozen=True, slots=True)
class JobHolding:
    """A job, and its cards by minor number or UUID: none of either where `is_known` is False."""

    job_id: str
    user: str = ""
    account: str = ""
    minors: frozenset[int] = frozenset()
    uuids: frozenset[str] = frozenset()
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class StepReading:
    """What one process of a step tells; no variables where its environment is hidden.

    `is_hung` says that another may tell more, which cannot be asked before it goes on.
    """

    step: str
    user_id: int | None
    variables: Mapping[str, str]
    is_hung: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """A job as it was read. Final is what its script says: steps come and go."""

    generation: int
    holding: JobHolding
    is_final: bool
    is_hung: bool


class SlurmJobs:
    """The jobs as of the last scan, by id. A scan reads the environment of their processes.

    `is_present` tells whether the node runs Slurm at all; None before the first scan. `is_wanted`
    says that somebody asked for a job that the last scan did not find. `since_seconds` is when the
    last scan that came to its end began. `unavailable_reason` says in a sentence why the cards of
    some jobs are not told, and what to do.
    """

    def __init__(self, sysfs: Path, procfs: Path, users: UserNames | None = None) -> None:
        self.is_present: bool | None = None
        self.is_wanted = False
        self.since_seconds = float("-inf")
        self.unavailable_reason: str | None = None
        self._sysfs = sysfs
        self._procfs = procfs
        self._users = users or UserNames()
        self.jobs: Mapping[str, JobHolding] = {}
        self._known: dict[str, _Known] = {}

    def job(self, job_id: str) -> JobHolding | None:
        """Give a job; None for one that no scan has read yet."""
        known = self._known.get(job_id)
        if known is None:
            self.is_wanted = True
        return None if known is None else known.holding

    def scan(self, now_seconds: float) -> Mapping[str, JobHolding]:
        """Look for jobs, and read those that are not fully known.

        Which there are is told first: a process that hangs may hold up the reading.
        """
        self.is_wanted = False
        roots = slurm_roots(self._sysfs)
        folders = _by_job(job_folders(roots))
        known = {job_id: self._known.get(job_id) for job_id in folders}
        self._known = {
            job_id: job
            for job_id, job in known.items()
            if job is not None and job.generation == folders[job_id][0].generation
        }
        # Other threads go through these jobs: from here on none is added, and none goes.
        jobs = {
            job_id: self._known[job_id].holding if job_id in self._known else JobHolding(job_id)
            for job_id in folders
        }
        self.jobs, self.is_present = jobs, bool(roots)
        for job_id, found in folders.items():
            self._known[job_id] = self._look_at(found)
            jobs[job_id] = self._known[job_id].holding
        self.unavailable_reason = _why_untold(self._known.values())
        self.since_seconds = now_seconds
        return jobs

    def _look_at(self, folders: list[JobFolder]) -> _Known:
        known = self._known.get(folders[0].job_id)
        if known is None:
            return self._read(folders)
        if known.is_final:
            return known
        read = self._read(folders)
        if read.is_hung and not read.holding.is_known:
            read = replace(known, is_hung=True)
        # A name that was told once stays: labels must not change in the midst of a job.
        user = known.holding.user or read.holding.user
        return replace(read, holding=replace(read.holding, user=user))

    def _read(self, folders: list[JobFolder]) -> _Known:
        first = folders[0]
        steps = next(filter(None, (step_processes(folder.path) for folder in folders)), {})
        readings = [
            reading
            for step, process_ids in steps.items()
            if (reading := self._read_step(step, process_ids)) is not None
        ]
        cards, is_final = cards_of(readings)
        holding = JobHolding(
            first.job_id,
            user=self._user(first.user_id, readings),
            account=label_text(_told(readings, ACCOUNT)),
            minors=cards[0] if cards else frozenset(),
            uuids=cards[1] if cards else frozenset(),
            is_known=cards is not None,
        )
        is_hung = any(reading.is_hung for reading in readings)
        return _Known(first.generation, holding, is_final, is_hung)

    def _read_step(self, step: str, process_ids: list[int]) -> StepReading | None:
        """Read the first process that tells something of its job; None for a step of none."""
        hidden, is_hung = None, False
        for process_id in process_ids:
            user_id = read_user_id(self._procfs, process_id)
            stat = read_stat(self._procfs, process_id)
            if stat is not None and stat.may_hang:
                is_hung = True
            elif variables := read_variables(self._procfs, process_id, NAMES):
                return StepReading(step, user_id, variables)
            if user_id != ROOT or hidden is None:  # Slurm's own daemon is root's
                hidden = StepReading(step, user_id, {})
        return hidden and replace(hidden, is_hung=is_hung)

    def _user(self, folder_user_id: int | None, readings: list[StepReading]) -> str:
        """Name the user by what the kernel says; a job may say anything of itself."""
        ids = [folder_user_id, *(reading.user_id for reading in readings)]
        told_id = _told(readings, USER_ID)
        ids += [int(told_id)] if USER_NUMBER.fullmatch(told_id) else []
        known = [user_id for user_id in ids if user_id is not None]
        if not known:
            return name_text(_told(readings, USER))
        name = self._users.look_up_now(next(filter(None, known), ROOT))
        # In a container the node's users have no names.
        return name_text(_told(readings, USER)) or name if name.isdigit() else name


def cards_of(
    readings: list[StepReading],
) -> tuple[tuple[frozenset[int], frozenset[str]] | None, bool]:
    """Give a job's cards, None where nobody tells, and whether that can change no more."""
    told = _told(readings, JOB_CARDS)
    if told:
        cards = parse_cards([told])
        return cards, cards is not None
    if any(reading.is_hung for reading in readings):
        return None, False
    of_steps = [
        reading.variables[STEP_CARDS] for reading in readings if STEP_CARDS in reading.variables
    ]
    if of_steps:
        return parse_cards(of_steps), False
    has_script = any(reading.step in SCRIPT_STEPS and reading.variables for reading in readings)
    return ((frozenset(), frozenset()) if has_script else None), has_script


def parse_cards(lists: Iterable[str]) -> tuple[frozenset[int], frozenset[str]] | None:
    """Read lists such as "0,2-3" and "GPU-..."; None where a part of one cannot be read."""
    minors: set[int] = set()
    uuids: set[str] = set()
    for part in (part.strip() for text in lists for part in text.split(",")):
        span = CARD_RANGE.fullmatch(part)
        if span:
            minors |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
        elif CARD_UUID.fullmatch(part):
            uuids.add(part)
        else:
            return None
    return frozenset(minors), frozenset(uuids)


def _by_job(folders: Iterable[JobFolder]) -> dict[str, list[JobFolder]]:
    found: dict[str, list[JobFolder]] = {}
    for folder in folders:
        if folder.job_id in found or len(found) < MOST_JOBS:
            found.setdefault(folder.job_id, []).append(folder)
    return found


def _why_untold(jobs: Iterable[_Known]) -> str | None:
    untold = [job for job in jobs if not job.holding.is_known]
    if not untold:
        return None
    if all(job.is_hung for job in untold):
        return f"the cards of {len(untold)} jobs are not told by their processes: {HANG_REMEDY}"
    return f"the cards of {len(untold)} jobs are not told: {ENVIRONMENT_REMEDY}"


def _told(readings: list[StepReading], name: str) -> str:
    return next((row.variables[name] for row in readings if name in row.variables), "")
