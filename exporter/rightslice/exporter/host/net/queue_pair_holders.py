"""Which processes hold queue pairs, and whether that is known of all."""

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rightslice.exporter.host.net.rdma_netlink import QueuePair
from rightslice.exporter.host.owners.cgroup_path import CgroupPlace, parse_cgroups
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.owners.process_files import read_cgroup_text, read_stat
from rightslice.exporter.host.owners.small_files import read_start
from rightslice.exporter.host.reading_error import ReadingError

# A list asks the NIC's firmware about each queue pair. While their numbers stay, so do holders.
LIST_SECONDS = 300.0
MOST_THREADS = 4096
MOST_ANCESTORS = 8
STATUS_BYTES = 4096
GROUP_LINE = re.compile(rb"^Tgid:\s+([0-9]{1,10})$", re.MULTILINE)
KERNEL_VERSION = re.compile(rb"([0-9]{1,3})\.([0-9]{1,4})")
# Older ones list only what belongs to the reader's own PID namespace, and do not say so.
FIRST_KERNEL_WITH_ALL = (5, 5)
EXCLUSIVE = "exclusive"


class QueuePairSource(Protocol):
    """What is asked of the kernel: RdmaNetlink, or a simulated node."""

    def queue_pairs(self) -> list[QueuePair] | None: ...

    def queue_pair_counts(self) -> dict[str, int] | None: ...

    def namespace_mode(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds queue pairs: its ids and its ancestors', and where it is."""

    process_ids: frozenset[int]
    place: CgroupPlace


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds queue pairs. `is_complete` says that nobody else does."""

    holders: tuple[Holder, ...] = ()
    is_complete: bool = False

    def include(self, owners: Collection[Owner]) -> bool:
        """Tell whether one is of these processes, a descendant of one, or in its container."""
        ids = {owner.process_id for owner in owners}
        places = {owner.place.identity for owner in owners if any(owner.place.identity)}
        return any(
            holder.place.identity in places or not ids.isdisjoint(holder.process_ids)
            for holder in self.holders
        )


NOBODY_KNOWN = Holders()


@dataclass(slots=True)
class QueuePairHolders:
    """Asks seldom. `unavailable_reason` says why the kernel could not be asked; empty if it could.

    For one thread.
    """

    source: QueuePairSource
    procfs: Path
    now_seconds: Callable[[], float]
    unavailable_reason: str = ""
    _counts: dict[str, int] | None = None
    _holders: Holders = field(default=NOBODY_KNOWN)
    _listed_seconds: float = float("-inf")

    def find(self) -> Holders:
        """Tell what is known by now."""
        try:
            holders, self.unavailable_reason = self._find(), ""
        except ReadingError as error:
            holders, self.unavailable_reason = NOBODY_KNOWN, str(error)
        return holders

    def _find(self) -> Holders:
        if not _numbers_are_ours(self.procfs):
            return NOBODY_KNOWN
        now_seconds, counts = self.now_seconds(), self.source.queue_pair_counts()
        is_late = now_seconds - self._listed_seconds >= LIST_SECONDS
        if counts is None or counts != self._counts or is_late:
            self._holders = self._listed()
            self._counts, self._listed_seconds = counts, now_seconds
        return self._holders

    def _listed(self) -> Holders:
        queue_pairs = self.source.queue_pairs()
        if queue_pairs is None:
            return NOBODY_KNOWN
        threads = {each.thread_id for each in queue_pairs if each.kernel_name is None}
        known = sorted(thread for thread in threads if thread is not None)
        process_ids = [_process_of(self.procfs, thread) for thread in known[:MOST_THREADS]]
        found = sorted({each for each in process_ids if each is not None})
        are_all_named = None not in threads and None not in process_ids
        return Holders(
            tuple(_holder(self.procfs, process_id) for process_id in found),
            is_complete=are_all_named and len(known) <= MOST_THREADS and self._sees_all(),
        )

    def _sees_all(self) -> bool:
        """Tell whether the kernel lists what processes in namespaces of their own hold."""
        text = read_start(f"{self.procfs}/sys/kernel/osrelease", STATUS_BYTES) or b""
        version = KERNEL_VERSION.match(text)
        if version is None or (int(version[1]), int(version[2])) < FIRST_KERNEL_WITH_ALL:
            return False
        return self.source.namespace_mode() != EXCLUSIVE


def _numbers_are_ours(procfs: Path) -> bool:
    """Tell whether procfs names processes as netlink does: by our own PID namespace."""
    try:
        return os.readlink(f"{procfs}/self") == str(os.getpid())
    except OSError:
        return False


def _holder(procfs: Path, process_id: int) -> Holder:
    place, ids = parse_cgroups(read_cgroup_text(procfs, process_id)), [process_id]
    while len(ids) < MOST_ANCESTORS and (stat := read_stat(procfs, ids[-1])) is not None:
        ids.append(stat.parent_id)
    return Holder(frozenset(ids), place)


def _process_of(procfs: Path, thread_id: int) -> int | None:
    """Give the process of a thread; None for one that has ended by now."""
    found = GROUP_LINE.search(read_start(f"{procfs}/{thread_id}/status", STATUS_BYTES) or b"")
    return int(found[1]) if found else None
