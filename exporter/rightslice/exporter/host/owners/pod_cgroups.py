"""Which pods have a cgroup on this node: what has none does not run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rightslice.exporter.host.owners.cgroup_path import POD_PART, QOS_CLASSES

KUBEPODS = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
QOS_FOLDER = re.compile(rf"(?:.*-)?(?:{'|'.join(QOS_CLASSES)})(?:\.slice)?")
# Of cgroup v1 any one controller that the kubelet uses, v2 beside v1, and v2.
MOUNTS = ("memory", "cpu", "cpu,cpuacct", "pids", "systemd", "unified", "")


class PodCgroups:
    """The pods as of the last scan. Only `scan` reads the tree; the rest may run in any thread."""

    def __init__(self, sysfs: Path) -> None:
        self._root = str(sysfs / "fs/cgroup")
        # By uid the path of its folder below its mount.
        self._paths: dict[str, str] | None = None
        # Asked for since the last scan, and before it: a pod may be younger than the scan.
        self._asked: set[str] = set()
        self._looked_for: set[str] = set()

    def scan(self) -> None:
        """List the pods of every tree: under cgroup v1 a pod may be in some of them alone."""
        asked, self._asked = self._asked, set()
        roots = [row for mount in MOUNTS for row in self._kubepods(mount)]
        paths: dict[str, str] = {}
        for top, root in roots:
            for uid, path in _pods_in(root):
                paths.setdefault(uid, path.removeprefix(top))
        self._paths, self._looked_for = paths if roots else None, asked

    def is_alive(self, uid: str) -> bool | None:
        """Tell whether a pod has a cgroup.

        None where the tree is not visible, and for a uid that no scan has looked for yet.
        """
        paths = self._paths
        if paths is None or uid in paths:
            return None if paths is None else True
        self._asked.add(uid)
        return False if uid in self._looked_for else None

    def pod_path(self, uid: str) -> str:
        """Give the path of a pod's folder below its mount; empty where it is not known."""
        return (self._paths or {}).get(uid, "")

    def path(self, path: str, uid: str) -> str | None:
        """Give a path in a pod's cgroup from its mount on; None where that is not known.

        To a process in a cgroup namespace, a neighbour is at "/../pod.../...".
        """
        if ".." not in path.split("/"):
            return path
        match, pod_path = POD_PART.search(path), self.pod_path(uid)
        if match is None or not pod_path:
            return None
        _, slash, below = path[match.end() :].partition("/")
        return pod_path + slash + below

    def _kubepods(self, mount: str) -> list[tuple[str, str]]:
        """Find the kubelet's roots in a tree, at its top or one level deeper; each with the top."""
        top = f"{self._root}/{mount}" if mount else self._root
        names = _names_in(top)
        found = [f"{top}/{name}" for name in names if KUBEPODS.fullmatch(name)]
        deeper = found or [
            f"{top}/{parent}/{name}"
            for parent in names
            for name in _names_in(f"{top}/{parent}")
            if KUBEPODS.fullmatch(name)
        ]
        return [(top, root) for root in deeper]


def _pods_in(root: str) -> Iterator[tuple[str, str]]:
    """Give each pod's uid, and its folder."""
    names = _names_in(root)
    folders = [f"{root}/{name}" for name in names if QOS_FOLDER.fullmatch(name)]
    for parent, children in ((root, names), *((folder, _names_in(folder)) for folder in folders)):
        for name in children:
            match = POD_PART.search(f"/{name}")
            if match:
                yield match["uid"].replace("_", "-"), f"{parent}/{name}"


def _names_in(folder: str) -> list[str]:
    """List a folder; a file, and what is absent or hidden, has nothing in it."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
