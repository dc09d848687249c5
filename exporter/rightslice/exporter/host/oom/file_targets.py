"""The log files that the user names, and whose they are."""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from glob import has_magic, iglob
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.oom.journal_export import JournalExport
from rightslice.exporter.host.oom.log_format import Plain
from rightslice.exporter.host.oom.log_rotation import log_name
from rightslice.exporter.host.oom.targets import Target
from rightslice.exporter.host.owners.label_text import name_text
from rightslice.exporter.host.owners.users import UserNames
from rightslice.exporter.host.owners.workload import PROCESS, SLURM_JOB, Workload, pod_of

log = logging.getLogger(__name__)

# How a journal itself begins, which only systemd's library reads.
JOURNAL_START = b"LPKSHHRH"
# The name that Slurm itself gives to a job's output; users choose others.
SLURM_OUTPUT = re.compile(r"slurm-(\d{1,10})(?:[_.+-][\w.+-]{0,64})?\.(?:out|err|log)", re.ASCII)
# A number in a name of the user's own, which may be his job's.
NUMBER = re.compile(r"(?<![0-9])[0-9]{1,10}(?![0-9])")
LOG_SUFFIXES = frozenset((".log", ".out", ".err", ".txt"))
MOST_FILES = 10_000
FIND_SECONDS = 10.0
# A log that was rotated may be without a successor for so long.
REMEMBER_SECONDS = 3600.0


class _Named(NamedTuple):
    """A file that a pattern names; nothing is known of it where it cannot be looked at."""

    pattern: str
    path: Path
    status: os.stat_result | None


@dataclass
class FileTargets:
    """Finds the files anew every ten seconds: a tree may be large. For one thread.

    A file is found once, however many names and links lead to it, and not where `read_elsewhere`
    says that somebody else reads it. What was rotated is read by way of the log that it was.
    """

    attribution: Attribution
    file_globs: tuple[str, ...]
    journal_globs: tuple[str, ...]
    read_elsewhere: tuple[Path, ...] = ()
    users: UserNames = field(default_factory=UserNames)
    unavailable_reason: str | None = None
    _found: dict[Path, Target] = field(default_factory=dict)
    _found_seconds: float = float("-inf")
    _told_barren: set[str] = field(default_factory=set)
    _seen_seconds: dict[Path, float] = field(default_factory=dict)
    _real_folders: dict[Path, Path] = field(default_factory=dict)

    def find(self, now_seconds: float) -> Mapping[Path, Target]:
        """Give the files. One that is told to be of a job's step stays so when the step ends."""
        if now_seconds - self._found_seconds < FIND_SECONDS:
            return self._found
        self._found_seconds = now_seconds
        self._real_folders.clear()
        self.unavailable_reason = None
        found: dict[Path, Target] = {}
        for file in self._once(self.journal_globs):
            if _is_journal_itself(file):
                self.unavailable_reason = (
                    f"{file.path} is a journal itself, not what was exported of it: write it by "
                    "journalctl --follow --output=export"
                )
            else:
                found[file.path] = Target(None, JournalExport, has_programs=True)
        for file in self._once(self.file_globs):
            found[file.path] = self._better(self._found.get(file.path), file)
        self._found = found
        return found

    def _once(self, patterns: Iterable[str]) -> Iterator[_Named]:
        """Give each file of the patterns once."""
        files = {file.path: file for pattern in patterns for file in self._globbed(pattern)}
        self._remember(files)
        places: set[tuple[int, int]] = set()
        # One that is followed already stays under its name; else the file comes before its links.
        for path in sorted(
            files, key=lambda path: (path not in self._found, path.is_symlink(), path)
        ):
            name, status = log_name(path.name), files[path].status
            if name is not None and path.with_name(name) in self._seen_seconds:
                continue
            place = None if status is None else (status.st_dev, status.st_ino)
            if place is None or place not in places:
                yield files[path]
            if place is not None:
                places.add(place)

    def _remember(self, paths: Iterable[Path]) -> None:
        """Keep the names that files had of late."""
        self._seen_seconds |= dict.fromkeys(paths, self._found_seconds)
        earliest_seconds = self._found_seconds - REMEMBER_SECONDS
        for path, seconds in list(self._seen_seconds.items()):
            if seconds < earliest_seconds:
                del self._seen_seconds[path]

    def _globbed(self, pattern: str) -> Iterator[_Named]:
        """List what there is, but no folders; what is named without a wildcard comes as it is."""
        count = 0
        for name in islice(iglob(pattern, recursive=True), MOST_FILES):
            file = _Named(pattern, Path(name), _status(name))
            if has_magic(pattern) and file.status is not None and S_ISDIR(file.status.st_mode):
                continue
            count += 1
            if not self._is_read_elsewhere(file.path):
                yield file
        if not count and pattern not in self._told_barren:
            self._told_barren.add(pattern)
            log.warning("memory that ran out: %s finds no file yet", pattern)

    def _is_read_elsewhere(self, path: Path) -> bool:
        real = path.resolve() if path.is_symlink() else self._real_folder(path.parent) / path.name
        return any(real.is_relative_to(folder) for folder in self.read_elsewhere)

    def _real_folder(self, folder: Path) -> Path:
        if folder not in self._real_folders:
            self._real_folders[folder] = folder.resolve()
        return self._real_folders[folder]

    def _better(self, known: Target | None, file: _Named) -> Target:
        if known is not None and known.workload is not None and known.workload.container:
            return known
        return Target(self._workload(file), Plain, has_programs=True)

    def _workload(self, file: _Named) -> Workload:
        """Name a job by the file's name, else the file by what the pattern's wildcards stand for.

        The user is the file's owner. A number in a name of the user's own is his job's if one that
        goes by it is on a card now.
        """
        status, path = file.status, file.path
        user = "" if status is None else self.users.look_up_now(status.st_uid)
        match = SLURM_OUTPUT.fullmatch(path.name)
        if match is not None:
            return job_on_a_card(self.attribution, match[1]) or Workload(SLURM_JOB, user, match[1])
        for number in reversed(NUMBER.findall(path.name)):
            job = job_on_a_card(self.attribution, number)
            if job is not None and job.namespace == user:
                return job
        return Workload(PROCESS, user, name_text(_own_name(file)))


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


def _is_journal_itself(file: _Named) -> bool:
    if file.status is None or not S_ISREG(file.status.st_mode):
        return False
    try:
        with file.path.open("rb") as opened:
            return opened.read(len(JOURNAL_START)) == JOURNAL_START
    except OSError:
        return False


def _own_name(file: _Named) -> str:
    """Name a file by its path below the folders that the pattern spells out."""
    parts = Path(file.pattern).parts
    spelt_out = next((i for i, part in enumerate(parts) if has_magic(part)), len(parts) - 1)
    relative = Path(*file.path.parts[spelt_out:])
    return str(relative.with_suffix("") if relative.suffix in LOG_SUFFIXES else relative)


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except OSError:
        return None
