"""Which log files tell of the workloads that hold or use a card."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.oom.log_format import CriOrDocker, DecoderFactory
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.owners.workload import CONTAINER, POD, Workload

# A container that is started anew writes to the next number; the one before may not be read yet.
RESTARTS_READ = 2
RESTART_LOG = re.compile(r"(\d{1,9})\.log")
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


class Targets(Protocol):
    """Finds files. `unavailable_reason` says in a sentence what keeps it from that, or is None."""

    unavailable_reason: str | None

    def find(self, now_seconds: float) -> Mapping[Path, Target]:
        """Give the files to follow now."""


@dataclass
class ContainerTargets:
    """The logs of containers that are on a card, or were a minute ago. For one thread.

    `pods_folder` is the kubelet's, `docker_folder` Docker's containers'.
    """

    attribution: Attribution
    pods_folder: Path
    docker_folder: Path
    unavailable_reason: str | None = None
    _seen_seconds: dict[Path, float] = field(default_factory=dict)
    _known: dict[Path, Target] = field(default_factory=dict)

    def find(self, now_seconds: float) -> Mapping[Path, Target]:
        """Give the files of all containers on cards."""
        self.unavailable_reason = None
        for path, target in self._now():
            self._known[path], self._seen_seconds[path] = target, now_seconds
        for path, seen_seconds in list(self._seen_seconds.items()):
            if now_seconds - seen_seconds > LINGER_SECONDS:
                del self._seen_seconds[path], self._known[path]
        return dict(self._known)

    def _now(self) -> Iterator[tuple[Path, Target]]:
        seen = self.attribution.owners.seen
        for workload, uid in self._pods(seen):
            yield from self._of_pod(workload, uid)
        for owner in seen:
            if owner.workload is not None and owner.workload.kind == CONTAINER:
                name = f"{owner.container_id}-json.log"
                path = self.docker_folder / owner.container_id / name
                yield path, Target(owner.workload, CriOrDocker)

    def _pods(self, seen: Iterable[Owner]) -> set[tuple[Workload, str]]:
        """Give the containers of pods that hold or use a card, with the uids of their pods."""
        found = {
            (workload, uid)
            for workload in self.attribution.holders
            if workload.kind == POD
            for uid in self.attribution.owners.pod_uids(workload.namespace, workload.pod)
        }
        of_processes = ((owner.workload, owner.pod_uid) for owner in seen)
        found |= {(who, uid) for who, uid in of_processes if who and who.kind == POD and uid}
        return found

    def _of_pod(self, workload: Workload, uid: str) -> Iterator[tuple[Path, Target]]:
        """Give the logs of a container; of all the pod's where it is not known which it is."""
        if workload.is_nameless:
            return
        folder = self.pods_folder / f"{workload.namespace}_{workload.pod}_{uid}"
        containers = (workload.container,) if workload.container else self._names_in(folder)
        for container in containers:
            named = Workload(POD, workload.namespace, workload.pod, container)
            numbers = sorted(
                int(match[1])
                for name in self._names_in(folder / container)
                if (match := RESTART_LOG.fullmatch(name))
            )
            for number in numbers[-RESTARTS_READ:]:
                yield folder / container / f"{number}.log", Target(named, CriOrDocker)

    def _names_in(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []  # it is gone, or not there yet
        except OSError as error:
            self.unavailable_reason = (
                f"{folder} cannot be listed ({error.strerror}): run the exporter as root"
            )
            return []
