"""Names of this node's pods and containers, from the names of the kubelet's log folders."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

POD_FOLDER = re.compile(r"(?P<namespace>[a-z0-9-]+)_(?P<name>[a-z0-9.-]+)_(?P<uid>[0-9a-f-]+)")
CONTAINER_LINK = re.compile(
    r"[a-z0-9.-]+_[a-z0-9-]+_(?P<container>[a-z0-9-]+)-(?P<id>[0-9a-f]{64})\.log"
)
PERMISSION_REMEDY = "run as root, or give the user read access to it"
# A node has a few hundred pods; what is beyond this is no kubelet's doing.
MOST_ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class PodName:
    """A pod, and the containers that have a log folder; those may have ended."""

    namespace: str
    name: str
    containers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """What was found last. `since_seconds` is when the scan that found the pods began."""

    pods: Mapping[str, PodName] = field(default_factory=dict)
    uids: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    since_seconds: float = float("-inf")


class PodNames:
    """The names as of the last scan. Only `scan` reads the disk; the rest may run in any thread.

    `pods_folder` is /var/log/pods; /var/log/containers is beside it. `is_wanted` says that somebody
    asked for what the last scan did not find. `unavailable_reason` says in a sentence why a folder
    cannot be read (of both, the pods'), and what to do; a node without these folders has no names,
    and no reason.
    """

    def __init__(self, pods_folder: Path) -> None:
        self.is_wanted = False
        self.unavailable_reason: str | None = None
        self._pods_folder = pods_folder
        self._containers_folder = pods_folder.parent / "containers"
        self._names = Names()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to read: no folder of a pod, and none that is kept shut."""
        return not self._names.pods and self.unavailable_reason is None

    @property
    def since_seconds(self) -> float:
        """When the pods' last scan began; what is older than that has been looked for."""
        return self._names.since_seconds

    def scan(self, now_seconds: float) -> None:
        """Read each listing; of one that cannot be read, what was known stays."""
        self.is_wanted = False  # before the reading: who asks meanwhile asks for the next
        names, reasons = self._names, []
        try:
            pods = dict(self._pods())
            names = replace(names, pods=pods, uids=_uids_by_name(pods), since_seconds=now_seconds)
        except OSError as error:
            reasons.append(_why_unavailable(error))
        try:
            names = replace(names, containers=dict(self._containers()))
        except OSError as error:
            reasons.append(_why_unavailable(error))
        self._names, self.unavailable_reason = names, next(iter(reasons), None)

    def pod(self, uid: str) -> PodName | None:
        """Name a pod; None for one that the last scan did not see."""
        found = self._names.pods.get(uid)
        if found is None:
            self.is_wanted = True
        return found

    def known(self, uid: str) -> PodName | None:
        """Name a pod if the last scan saw it; nothing is looked for."""
        return self._names.pods.get(uid)

    def uids(self, namespace: str, name: str) -> tuple[str, ...]:
        """Give the uids that pods of this name have or, until their logs are removed, had."""
        return self._names.uids.get((namespace, name), ())

    def container_name(self, container_id: str) -> str | None:
        """Name a container; None for one that the last scan did not see."""
        found = self._names.containers.get(container_id)
        if found is None:
            self.is_wanted = True
        return found

    def _pods(self) -> Iterator[tuple[str, PodName]]:
        for folder in _names_in(self._pods_folder):
            match = POD_FOLDER.fullmatch(folder)
            if match:
                containers = tuple(sorted(_containers_in(self._pods_folder / folder)))
                yield match["uid"], PodName(match["namespace"], match["name"], containers)

    def _containers(self) -> Iterator[tuple[str, str]]:
        for link in _names_in(self._containers_folder):
            match = CONTAINER_LINK.fullmatch(link)
            if match:
                yield match["id"], match["container"]


def _why_unavailable(error: OSError) -> str:
    remedy = PERMISSION_REMEDY if isinstance(error, PermissionError) else "see the disk"
    return f"{error.filename} cannot be read ({error.strerror}): {remedy}"


def _uids_by_name(pods: Mapping[str, PodName]) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for uid, pod in sorted(pods.items()):
        name = (pod.namespace, pod.name)
        found[name] = (*found.get(name, ()), uid)
    return found


def _names_in(folder: Path) -> list[str]:
    """List a folder; one that is absent has nothing in it."""
    try:
        return os.listdir(folder)[:MOST_ENTRIES]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _containers_in(pod_folder: Path) -> list[str]:
    """List a pod's containers; none for a pod that goes meanwhile or hides its folder."""
    try:
        with os.scandir(pod_folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
