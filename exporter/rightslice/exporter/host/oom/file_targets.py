"""The log files that the user names, and whose they are."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from glob import iglob
from itertools import islice
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.oom.journal_export import JournalExport
from rightslice.exporter.host.oom.log_format import Plain
from rightslice.exporter.host.oom.targets import Target
from rightslice.exporter.host.owners.label_text import command_text
from rightslice.exporter.host.owners.users import UserNames
from rightslice.exporter.host.owners.workload import PROCESS, SLURM_JOB, Workload, pod_of

# The name that Slurm itself gives to a job's output; users choose others.
SLURM_OUTPUT = re.compile(r"slurm-(\d{1,10})(?:[_.+-][\w.+-]{0,64})?\.(?:out|err|log)", re.ASCII)
MOST_FILES = 10_000
FIND_SECONDS = 10.0


@dataclass
class FileTargets:
    """Finds the files anew every ten seconds: a tree may be large. For one thread."""

    attribution: Attribution
    file_globs: tuple[str, ...]
    journal_globs: tuple[str, ...]
    users: UserNames = field(default_factory=UserNames)
    unavailable_reason: str | None = None
    _found: dict[Path, Target] = field(default_factory=dict)
    _found_seconds: float = float("-inf")

    def find(self, now_seconds: float) -> Mapping[Path, Target]:
        """Give the files. One that is told to be of a job's step stays so when the step ends."""
        if now_seconds - self._found_seconds < FIND_SECONDS:
            return self._found
        self._found_seconds = now_seconds
        found = dict.fromkeys(_globbed(self.journal_globs), Target(None, JournalExport, True))
        for path in _globbed(self.file_globs):
            found[path] = self._better(self._found.get(path), path)
        self._found = found
        return found

    def _better(self, known: Target | None, path: Path) -> Target:
        if known is not None and known.workload is not None and known.workload.container:
            return known
        return Target(self._workload(path), Plain, has_programs=True)

    def _workload(self, path: Path) -> Workload:
        """Name a job by the file's name, else the file by its own, with its owner as the user."""
        try:
            user = self.users.look_up_now(os.stat(path).st_uid)
        except OSError:
            user = ""
        match = SLURM_OUTPUT.fullmatch(path.name)
        if match is None:
            return Workload(PROCESS, user, command_text(path.stem))
        return job_on_a_card(self.attribution, match[1]) or Workload(SLURM_JOB, user, match[1])


def job_on_a_card(attribution: Attribution, job_id: str, step: str = "") -> Workload | None:
    """Name a job that holds or uses a card, by its step if that is known; None where none does."""
    jobs = sorted(
        workload
        for workload in attribution.workloads_on_cards()
        if pod_of(workload)[::2] == (SLURM_JOB, job_id)
    )
    same_step = [workload for workload in jobs if workload.container == step]
    with_step = [workload for workload in jobs if workload.container]
    return next(iter((*same_step, *with_step, *jobs) if step else (*with_step, *jobs)), None)


def _globbed(patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        for name in islice(iglob(pattern, recursive=True), MOST_FILES):
            yield Path(name)
