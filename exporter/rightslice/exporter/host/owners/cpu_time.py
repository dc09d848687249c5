"""Processor time of the host that a workload has used so far."""

import re
from pathlib import Path

from rightslice.exporter.host.owners.cgroup_path import CgroupPlace
from rightslice.exporter.host.owners.process_files import read_stat
from rightslice.exporter.host.owners.small_files import read_start

MICROSECONDS_PER_SECOND = 1_000_000
NANOSECONDS_PER_SECOND = 1_000_000_000
READ_BYTES = 4096

USAGE_LINE = re.compile(rb"^usage_usec (\d{1,20})$", re.MULTILINE)
# The whole of v2, or beside v1, where its controllers have no files of their own.
V2_MOUNTS = ("", "unified")
# A controller's folder may be a link to the folder that it shares, or be absent beside that one.
V1_MOUNTS = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


def process_cpu_seconds(procfs: Path, process_id: int) -> float | None:
    """Give the time of one process, without its children; None where procfs does not show it."""
    stat = read_stat(procfs, process_id)
    return None if stat is None else stat.cpu_seconds


def cgroup_cpu_seconds(sysfs: Path, place: CgroupPlace) -> float | None:
    """Give the time of all that ran in a cgroup, also of what has ended; None where not told."""
    root = sysfs / "fs/cgroup"
    if (path := _path(place, "cpuacct")) is not None:
        for mount in V1_MOUNTS:
            text = read_start(f"{root / mount}{path}/cpuacct.usage", READ_BYTES) or b""
            if text.strip().isdigit():
                return int(text) / NANOSECONDS_PER_SECOND
    if (path := _path(place, "")) is not None:
        for mount in V2_MOUNTS:
            match = USAGE_LINE.search(
                read_start(f"{root / mount}{path}/cpu.stat", READ_BYTES) or b""
            )
            if match:
                return int(match[1]) / MICROSECONDS_PER_SECOND
    return None


def _path(place: CgroupPlace, controller: str) -> str | None:
    """Give the folder's path; None also where it is relative to a namespace, and so unknown."""
    path = place.paths.get(controller)
    return None if path is None or ".." in path.split("/") else path
