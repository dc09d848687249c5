"""Which log files tell of the workloads that hold or use a card."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from glob import iglob
from itertools import islice
from pathlib import Path

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.oom.journal_export import JournalExport
from rightslice.exporter.host.oom.log_format import CriOrDocker, DecoderFactory, Plain
from rightslice.exporter.host.owners.label_text import command_text
from rightslice.exporter.host.owners.users import account_name
from rightslice.exporter.host.owners.workload import (
    CONTAINER,
    POD,
    PROCESS,
    SLURM_JOB,
    Workload,
    pod_of,
)

# A container that is started anew writes to the next number; the one before may not be read yet.
RESTARTS_READ = 2
RESTART_LOG = re.compile(r"(\d{1,9})\.log")
# The name that Slurm itself gives to a job's output; users choose others.
SLURM_OUTPUT = re.compile(r"slurm-(\d{1,10})(?:[_.+-][\w.+-]{0,64})?\.(?:out|err|log)", re.ASCII)
MOST_GLOBBED = 10_000
# A container that was killed is gone before its last lines are read.
LINGER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A file to follow. `workload` is None for a journal, whose entries tell it one by one.

    `has_programs` says that programs of the node write there, which may tell whom they killed.
    """

    workload: Workload | None
    new_decoder: DecoderFactory
    has_programs: bool = False


@dataclass
class Targets:
    """Finds the files anew each time it is asked. For one thread.

    `pods_folder` is the kubelet's, `docker_folder` Docker's containers'; `file_globs` and
    `journal_globs` are what the user added.
    """

    attribution: Attribution
    pods_folder: Path
    docker_folder: Path
    file_globs: tuple[str, ...] = ()
    journal_globs: tuple[str, ...] = ()
    user_name: Callable[[int], str] = account_name
    _seen_seconds: dict[Path, float] = field(default_factory=dict)
    _known: dict[Path, Target] = field(default_factory=dict)

    def find(self, now_seconds: float) -> Mapping[Path, Target]:
        """Give the files of all workloads that are on a card, or were a minute ago."""
        for path, target in self._now():
            self._known[path], self._seen_seconds[path] = target, now_seconds
        for path, seen_seconds in list(self._seen_seconds.items()):
            if now_seconds - seen_seconds > LINGER_SECONDS:
                del self._seen_seconds[path], self._known[path]
        return dict(self._known)

    def _now(self) -> Iterator[tuple[Path, Target]]:
        yield from self._of_containers()
        for path in _globbed(self.file_globs):
            yield path, Target(self._workload_of_file(path), Plain, has_programs=True)
        for path in _globbed(self.journal_globs):
            yield path, Target(None, JournalExport, has_programs=True)

    def _of_containers(self) -> Iterator[tuple[Path, Target]]:
        for workload in self.attribution.holders:
            if workload.kind == POD:
                for uid in self.attribution.owners.pod_uids(workload.namespace, workload.pod):
                    yield from self._of_pod(workload, uid)
        for owner in self.attribution.owners.seen:
            if owner.workload is None:
                continue
            if owner.workload.kind == POD and owner.pod_uid:
                yield from self._of_pod(owner.workload, owner.pod_uid)
            elif owner.workload.kind == CONTAINER and owner.container_id:
                name = f"{owner.container_id}-json.log"
                path = self.docker_folder / owner.container_id / name
                yield path, Target(owner.workload, CriOrDocker)

    def _of_pod(self, workload: Workload, uid: str) -> Iterator[tuple[Path, Target]]:
        """Give the logs of a container; of all the pod's where it is not known which it is."""
        if workload.is_nameless:
            return
        folder = self.pods_folder / f"{workload.namespace}_{workload.pod}_{uid}"
        containers = (workload.container,) if workload.container else _names_in(folder)
        for container in containers:
            named = Workload(POD, workload.namespace, workload.pod, container)
            numbers = sorted(
                int(match[1])
                for name in _names_in(folder / container)
                if (match := RESTART_LOG.fullmatch(name))
            )
            for number in numbers[-RESTARTS_READ:]:
                yield folder / container / f"{number}.log", Target(named, CriOrDocker)

    def _workload_of_file(self, path: Path) -> Workload:
        """Name the workload of a file of the user's: a job by the file's name, else the file."""
        try:
            user = self.user_name(os.stat(path).st_uid)
        except OSError:
            user = ""
        match = SLURM_OUTPUT.fullmatch(path.name)
        if match is None:
            return Workload(PROCESS, user, command_text(path.stem))
        steps = [
            owner.workload
            for owner in self.attribution.owners.seen
            if owner.workload is not None and pod_of(owner.workload)[::2] == (SLURM_JOB, match[1])
        ]
        return min(steps, default=Workload(SLURM_JOB, user, match[1]))


def _globbed(patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        for name in islice(iglob(pattern, recursive=True), MOST_GLOBBED):
            yield Path(name)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
