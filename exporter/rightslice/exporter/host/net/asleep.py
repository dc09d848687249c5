"""Jobs on several nodes whose processes hold no RDMA queue pair while a port is active."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.net.card_processes import CardProcess, CardProcesses
from rightslice.exporter.host.net.job_span import SPAN_NAMES, are_all_ranks, is_on_several_nodes
from rightslice.exporter.host.net.nccl_choice import CHOICE_NAMES, is_meant_for_tcp
from rightslice.exporter.host.net.port_now import PortNow
from rightslice.exporter.host.net.queue_pair_holders import QueuePairHolders, QueuePairSource
from rightslice.exporter.host.net.sleep_hints import hints_of
from rightslice.exporter.host.net.verbs_files import OpenFiles
from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.part import NodePart

# Before its first exchange a job holds no queue pair, however well it is set up.
START_SECONDS = 600.0
MOST_OPEN_FILES = 20_000
MOST_HINTED = 16
REMEDY = "give CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or run as root"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a job sleeps as to RDMA here, and what may be why."""

    workload: Workload
    is_asleep: bool
    hints: tuple[str, ...] = ()


class RdmaSleep(NodePart):
    """Judges the workloads on cards. In a lane of its own: a process that hangs holds it up.

    `ports` tells of the node's ports, `card_count` how many cards it has. `unavailable_reason` says
    in a sentence why some cannot be judged, and what to do; empty where all can.
    """

    id = lane = "rdma_idle"
    asks_driver = False

    def __init__(
        self,
        attribution: Attribution,
        ports: Callable[[], Collection[PortNow]],
        queue_pairs: QueuePairSource,
        card_count: Callable[[], int],
        clock: Clock,
    ) -> None:
        self.unavailable_reason = ""
        self._attribution = attribution
        self._procfs = attribution.procfs
        self._ports = ports
        self._card_count = card_count
        now_seconds = clock.monotonic_seconds
        self._processes = CardProcesses(self._procfs, SPAN_NAMES | set(CHOICE_NAMES), now_seconds)
        self._queue_pairs = QueuePairHolders(queue_pairs, self._procfs, now_seconds)

    def refresh(self) -> list[Verdict]:
        """Judge anew. Without an active port nothing is read, and nothing told."""
        ports = self._ports()
        if not any(port.is_up for port in ports):
            self._tell("")
            return []
        processes = self._processes.refresh(self._attribution.owners.seen)
        files, verdicts, undecided_count = OpenFiles(self._procfs, MOST_OPEN_FILES), [], 0
        for workload, members in self._jobs(processes):
            is_asleep = self._is_asleep(members, files)
            if is_asleep is None:
                undecided_count += 1
            else:
                hints = self._hints(members, ports) if is_asleep else ()
                verdicts.append(Verdict(workload, is_asleep, hints))
        self._tell(self._reason(sum(each.is_hidden for each in processes), undecided_count))
        return verdicts

    def _jobs(
        self, processes: Collection[CardProcess]
    ) -> Iterator[tuple[Workload, list[CardProcess]]]:
        """Give the workloads that are to be judged, each with its processes that span nodes."""
        by_workload: dict[Workload, list[CardProcess]] = {}
        card_count = self._card_count()
        for process in processes:
            workload, variables = process.owner.workload, process.variables or {}
            if workload is not None and is_on_several_nodes(variables, card_count):
                by_workload.setdefault(workload, []).append(process)
        for workload, members in sorted(by_workload.items()):
            if max(each.age_seconds for each in members) >= START_SECONDS and not (
                are_all_ranks(each.variables or {} for each in members)
                or self._is_exempt(workload, members)
            ):
                yield workload, members

    def _is_exempt(self, workload: Workload, members: list[CardProcess]) -> bool:
        details = self._attribution.details(workload, [each.owner for each in members])
        if details.is_rdma_meant is not None:
            return not details.is_rdma_meant
        return any(is_meant_for_tcp(each.variables or {}) for each in members)

    def _is_asleep(self, members: list[CardProcess], files: OpenFiles) -> bool | None:
        """Tell it by open devices; of who has none, or hides them, by queue pairs too."""
        have_verbs = []
        for member in members:
            have_verbs.append(files.has_verbs(member.id))
            if have_verbs[-1]:
                return False
        known = self._queue_pairs.find()
        if known.include([each.owner for each in members]):
            return False
        return True if known.is_complete or None not in have_verbs else None

    def _hints(self, members: list[CardProcess], ports: Collection[PortNow]) -> tuple[str, ...]:
        found = {
            hint
            for member in members[:MOST_HINTED]
            for hint in hints_of(self._procfs, member.id, member.variables or {}, ports)
        }
        return tuple(sorted(found))

    def _reason(self, hidden_count: int, undecided_count: int) -> str:
        if hidden_count:
            return f"{hidden_count} processes on cards hide their environment: {REMEDY}"
        if not undecided_count:
            return ""
        kernel = self._queue_pairs.unavailable_reason
        asked = f"; queue pairs: {kernel}" if kernel else ""
        return f"{undecided_count} jobs hide which files they have open: {REMEDY}{asked}"

    def _tell(self, reason: str) -> None:
        """Tell the log when something cannot be judged, and when it can again."""
        if bool(reason) != bool(self.unavailable_reason):
            log.warning("use of RDMA by jobs: %s", reason or "all can be judged again")
        self.unavailable_reason = reason
