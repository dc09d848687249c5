"""A process that this machine's kernel kills at a cgroup's limit, seen in its log and its count."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.oom.kernel_oom import OomKill, OomKillReader
from rightslice.exporter.host.oom.memory_events import MemoryEvents

pytestmark = pytest.mark.integration

SYSFS = Path("/sys")
CGROUPS = SYSFS / "fs/cgroup"
DEVICE = Path("/dev/kmsg")
LIMIT_BYTES = 24 << 20
TIMEOUT_SECONDS = 20.0
# Puts itself into the cgroup, so that all of its memory counts there, and wants more than it may.
GREEDY = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
len(bytearray(96 << 20))
"""


@dataclass(frozen=True)
class Box:
    """A cgroup with a limit, within another without one. Paths are from the mount on."""

    mount: Path
    parent: str
    path: str
    limit: str

    @property
    def is_v2(self) -> bool:
        return self.mount == CGROUPS

    def run_greedy(self) -> int:
        """Run the process to its end; give its id."""
        folder = str(self.mount / self.path[1:])
        process = subprocess.Popen(
            [sys.executable, "-c", GREEDY, folder], stderr=subprocess.DEVNULL
        )
        assert process.wait(TIMEOUT_SECONDS) == -9
        return process.pid


def make_box() -> Box:
    """Make the cgroup; raises OSError where that is forbidden."""
    is_v2 = (CGROUPS / "cgroup.controllers").exists()
    mount, limit = (
        (CGROUPS, "memory.max") if is_v2 else (CGROUPS / "memory", "memory.limit_in_bytes")
    )
    parent = f"/rightslice-test-{uuid.uuid4().hex[:8]}"
    box = Box(mount, parent, f"{parent}/box", limit)
    (mount / parent[1:]).mkdir()
    try:
        if is_v2:
            (mount / parent[1:] / "cgroup.subtree_control").write_text("+memory")
        (mount / box.path[1:]).mkdir()
        (mount / box.path[1:] / limit).write_text(str(LIMIT_BYTES))
    except OSError:
        remove(box)
        raise
    return box


def remove(box: Box) -> None:
    for path in (box.path, box.parent):
        folder = box.mount / path[1:]
        until_seconds = time.monotonic() + TIMEOUT_SECONDS
        while folder.exists() and time.monotonic() < until_seconds:
            try:
                folder.rmdir()
            except OSError:  # the last process is still on its way out
                time.sleep(0.05)


@pytest.fixture
def box() -> Iterator[Box]:
    try:
        made = make_box()
    except OSError as error:
        pytest.skip(f"no cgroup with a limit of memory can be made here: {error}")
    yield made
    remove(made)


@pytest.fixture
def kernel_log() -> Iterator[KernelLog]:
    log = KernelLog(DEVICE)
    while log.read_new():  # all that was written before the test
        pass
    if log.unavailable_reason is not None:
        pytest.skip(f"the kernel log cannot be read here: {log.unavailable_reason}")
    yield log
    log.close()


def kills_in(log: KernelLog, cgroup: str) -> list[OomKill]:
    """Read until a kill in the cgroup is told; other programs' may be there as well."""
    reader, found = OomKillReader(), list[OomKill]()
    until_seconds = time.monotonic() + TIMEOUT_SECONDS
    while not found and time.monotonic() < until_seconds:
        for record in log.read_new():
            if record.is_from_kernel:
                reader.feed(record.text, record.monotonic_seconds)
        found += [kill for kill in reader.take(time.monotonic()) if kill.cgroup == cgroup]
        time.sleep(0.05)
    return found


def test_the_folder_counts_a_real_kill(box: Box) -> None:
    events = MemoryEvents(SYSFS)
    before = events.read([box.path, box.parent])
    if not before:
        pytest.skip(f"the kernel counts no kills in {box.mount}")

    box.run_greedy()
    after = events.read([box.path, box.parent])

    assert [count.kill_count for count in before.values()] == [0, 0]
    assert (after[box.path].kill_count, after[box.path].limit_bytes) == (1, LIMIT_BYTES)
    # Under v1 a folder does not count what happens below it.
    assert after[box.parent].kill_count == (1 if box.is_v2 else 0)
    assert (after[box.path].peak_bytes or LIMIT_BYTES) >= LIMIT_BYTES // 2


def test_the_log_tells_of_a_real_kill(box: Box, kernel_log: KernelLog) -> None:
    process_id = box.run_greedy()

    (kill,) = kills_in(kernel_log, box.path)

    assert (kill.process_id, kill.is_global, kill.user_id) == (process_id, False, os.getuid())
    assert (kill.limit_cgroup, kill.limit_bytes) == (box.path, LIMIT_BYTES)
    # Not below the limit: what it used before it came into the cgroup counts elsewhere.
    assert LIMIT_BYTES // 2 < (kill.anon_rss_bytes or 0) < (kill.total_vm_bytes or 0)


def test_a_folder_that_goes_after_a_real_kill_tells_no_more(box: Box) -> None:
    events = MemoryEvents(SYSFS)
    if not events.read([box.path]):
        pytest.skip(f"the kernel counts no kills in {box.mount}")
    box.run_greedy()
    remove(box)

    assert events.read([box.path])[box.path].kill_count == 0
