"""Slurm's jobs on this node, and which cards they hold even while they use none."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rightslice.exporter.host.owners.environment import read_variables
from rightslice.exporter.host.owners.label_text import label_text
from rightslice.exporter.host.owners.process_files import read_user_id
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
    """What one process of a step tells; no variables where its environment is hidden."""

    step: str
    user_id: int | None
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Known:
    """A job as it was read. Final is what its script says: steps come and go."""

    generation: int
    holding: JobHolding
    is_final: bool


class SlurmJobs:
    """The jobs as of the last scan, by id. A scan reads the environment of their processes.

    `is_present` tells whether the node runs Slurm at all; None before the first scan. `is_wanted`
    says that somebody asked for a job that the last scan did not find.
    """

    def __init__(self, sysfs: Path, procfs: Path, users: UserNames | None = None) -> None:
        self.is_present: bool | None = None
        self.is_wanted = False
        self._sysfs = sysfs
        self._procfs = procfs
        self._users = users or UserNames()
        self.jobs: Mapping[str, JobHolding] = {}
        self._known: dict[str, _Known] = {}

    def job(self, job_id: str) -> JobHolding | None:
        """Give a job; None for one that the last scan did not see."""
        job = self.jobs.get(job_id)
        if job is None:
            self.is_wanted = True
        return job

    def scan(self) -> Mapping[str, JobHolding]:
        """Look for jobs, and read those that are not fully known."""
        self.is_wanted = False
        roots = slurm_roots(self._sysfs)
        folders: dict[str, list[JobFolder]] = {}
        for folder in job_folders(roots):
            if folder.job_id in folders or len(folders) < MOST_JOBS:
                folders.setdefault(folder.job_id, []).append(folder)
        self._known = {job_id: self._look_at(found) for job_id, found in folders.items()}
        self.jobs = {job_id: known.holding for job_id, known in self._known.items()}
        self.is_present = bool(roots)
        return self.jobs

    def _look_at(self, folders: list[JobFolder]) -> _Known:
        first = folders[0]
        known = self._known.get(first.job_id)
        if known is None or known.generation != first.generation:
            return self._read(folders)
        if known.is_final:
            return known
        read = self._read(folders)
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
        return _Known(first.generation, holding, is_final)

    def _read_step(self, step: str, process_ids: list[int]) -> StepReading | None:
        """Read the first process that tells something of its job; None for a step of none."""
        hidden = None
        for process_id in process_ids:
            user_id = read_user_id(self._procfs, process_id)
            variables = read_variables(self._procfs, process_id, NAMES)
            if variables:
                return StepReading(step, user_id, variables)
            if user_id != ROOT or hidden is None:  # Slurm's own daemon is root's
                hidden = StepReading(step, user_id, {})
        return hidden

    def _user(self, folder_user_id: int | None, readings: list[StepReading]) -> str:
        """Name the user by what the kernel says; a job may say anything of itself."""
        ids = [folder_user_id, *(reading.user_id for reading in readings)]
        told_id = _told(readings, USER_ID)
        ids += [int(told_id)] if USER_NUMBER.fullmatch(told_id) else []
        known = [user_id for user_id in ids if user_id is not None]
        if not known:
            return label_text(_told(readings, USER))
        name = self._users.look_up_now(next(filter(None, known), ROOT))
        # In a container the node's users have no names.
        return label_text(_told(readings, USER)) or name if name.isdigit() else name


def cards_of(
    readings: list[StepReading],
) -> tuple[tuple[frozenset[int], frozenset[str]] | None, bool]:
    """Give a job's cards, None where nobody tells, and whether that can change no more."""
    told = _told(readings, JOB_CARDS)
    if told:
        cards = parse_cards([told])
        return cards, cards is not None
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


def _told(readings: list[StepReading], name: str) -> str:
    return next((row.variables[name] for row in readings if name in row.variables), "")
