"""Where Slurm keeps its jobs in the cgroup tree, and which processes are in them."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.owners.small_files import read_start

V2_ROOT = re.compile(r"(?:.+_)?slurmstepd\.scope")
V1_ROOT = re.compile(r"slurm(?:_.+)?")
USER_FOLDER = re.compile(r"uid_(\d{1,10})")
JOB_FOLDER = re.compile(r"job_(\w{1,32})", re.ASCII)
STEP_FOLDER = re.compile(r"step_([\w+.]{1,32})", re.ASCII)
PROCESS_ID = re.compile(rb"\d{1,10}")
# slurmstepd's own folder in a step of v2: no process of the job's.
DAEMON_FOLDER = "slurm"
# system.slice/slurmstepd.scope, or a level more where slurmd runs in a slice of its own.
MOST_LEVELS_TO_ROOT = 3
MOST_LEVELS_TO_PROCESS = 4
MOST_PROCESSES = 64
PROCESSES_BYTES = 16 * 1024

# The job's script knows the job best; what only keeps the job open knows nothing.
STEP_ORDER = {"batch": 0, "interactive": 1, "extern": 3}


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job's cgroup. A job that is requeued has its old id and another `generation`."""

    job_id: str
    path: str
    generation: int
    user_id: int | None = None


def slurm_roots(sysfs: Path) -> list[str]:
    """Find the folders that Slurm keeps its jobs in; none on a node without Slurm."""
    root = str(sysfs / "fs/cgroup")
    v1 = [
        path
        for controller in _folders(root)
        for path in _folders(controller)
        if V1_ROOT.fullmatch(_name(path))
    ]
    v2_root = root if os.path.exists(f"{root}/cgroup.controllers") else f"{root}/unified"
    return [*v1, *_v2_roots(v2_root, MOST_LEVELS_TO_ROOT)]


def job_folders(roots: list[str]) -> Iterator[JobFolder]:
    """Give the jobs below these folders; with cgroup v1 once for each controller."""
    for root in roots:
        for path in _folders(root):
            user = USER_FOLDER.fullmatch(_name(path))
            for folder in _folders(path) if user else (path,):
                job = JOB_FOLDER.fullmatch(_name(folder))
                if job:
                    user_id = int(user[1]) if user else None
                    yield JobFolder(job[1], folder, _generation(folder), user_id)


def step_processes(job_path: str) -> dict[str, list[int]]:
    """Give a job's process ids by step, the steps that know most first."""
    steps = {
        match[1]: path
        for path in _folders(job_path)
        if (match := STEP_FOLDER.fullmatch(_name(path)))
    }
    names = sorted(steps, key=lambda step: (STEP_ORDER.get(step, 2), step))
    return {name: _processes(steps[name], MOST_LEVELS_TO_PROCESS) for name in names}


def _v2_roots(folder: str, levels: int) -> Iterator[str]:
    for path in _folders(folder):
        if V2_ROOT.fullmatch(_name(path)):
            yield path
        elif levels > 1 and "kubepods" not in path:
            yield from _v2_roots(path, levels - 1)


def _processes(folder: str, levels: int) -> list[int]:
    text = read_start(f"{folder}/cgroup.procs", PROCESSES_BYTES) or b""
    found = [int(word) for word in text.split() if PROCESS_ID.fullmatch(word)]
    for path in _folders(folder) if levels > 1 else ():
        if _name(path) != DAEMON_FOLDER:
            found += _processes(path, levels - 1)
    return found[:MOST_PROCESSES]


def _folders(folder: str) -> list[str]:
    """List the folders in one, in order; none where it is absent or hidden."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _generation(folder: str) -> int:
    try:
        return os.stat(folder).st_ino
    except OSError:
        return 0
