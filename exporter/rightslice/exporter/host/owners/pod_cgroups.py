"""Which pods have a cgroup on this node: what has none does not run."""

import os
import re
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
        self._uids: frozenset[str] | None = None
        # Asked for since the last scan, and before it: a pod may be younger than the scan.
        self._asked: set[str] = set()
        self._looked_for: set[str] = set()

    def scan(self) -> None:
        """List the pods of the first tree that has any place for them."""
        asked, self._asked = self._asked, set()
        roots = next(filter(None, map(self._kubepods, MOUNTS)), [])
        uids = frozenset(uid for root in roots for uid in _pods_in(root)) if roots else None
        self._uids, self._looked_for = uids, asked

    def is_alive(self, uid: str) -> bool | None:
        """Tell whether a pod has a cgroup.

        None where the tree is not visible, and for a uid that no scan has looked for yet.
        """
        uids = self._uids
        if uids is None or uid in uids:
            return None if uids is None else True
        self._asked.add(uid)
        return False if uid in self._looked_for else None

    def _kubepods(self, mount: str) -> list[str]:
        """Find the kubelet's roots in a tree: at its top, or one level deeper."""
        top = f"{self._root}/{mount}"
        names = _names_in(top)
        found = [f"{top}/{name}" for name in names if KUBEPODS.fullmatch(name)]
        return found or [
            f"{top}/{parent}/{name}"
            for parent in names
            for name in _names_in(f"{top}/{parent}")
            if KUBEPODS.fullmatch(name)
        ]


def _pods_in(root: str) -> list[str]:
    names = _names_in(root)
    for folder in [name for name in names if QOS_FOLDER.fullmatch(name)]:
        names += _names_in(f"{root}/{folder}")
    found = (POD_PART.search(f"/{name}") for name in names)
    return [match["uid"].replace("_", "-") for match in found if match]


def _names_in(folder: str) -> list[str]:
    """List a folder; a file, and what is absent or hidden, has nothing in it."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
