"""Which workload was on which card lately, and with how much memory: asked when one ran out."""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rightslice.exporter.host.owners.workload import Workload

# The line that tells of an allocation that failed comes within seconds; by then the process may
# have given its memory back.
WINDOW_SECONDS = 15.0
# A kill is looked into when its record is read, and a log when it is followed up to its end.
REMEMBERED_SECONDS = 600.0
FORGET_EVERY_SECONDS = 60.0
# So full a card or promise leaves nothing that an allocator could use (research, section 2.4).
FULL_RATIO = 0.97


@dataclass(frozen=True, slots=True)
class Stay:
    """A workload's part of a card in one reading. Sizes that are not told are None.

    `room_bytes` is what the card, or the GPU instance, has at all, and `room_used_bytes` what all
    who are on it hold. `promised_bytes` is the least that somebody promised the workload.
    """

    workload: Workload
    uuid: str
    gpu_instance_id: str
    process_ids: frozenset[int]
    used_bytes: int | None = None
    promised_bytes: int | None = None
    room_bytes: int | None = None
    room_used_bytes: int | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether hardly any memory was left to the workload."""
        pairs = (
            (self.used_bytes, self.promised_bytes),
            (self.room_used_bytes, self.room_bytes),
        )
        return any(used and most and used >= FULL_RATIO * most for used, most in pairs)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a workload had of its card lately. `uuid` is empty where it had several, or none."""

    uuid: str = ""
    used_bytes: int | None = None
    promised_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A process that left a full card, while its workload is still known there."""

    workload: Workload
    uuid: str
    at_seconds: float


@dataclass(slots=True)
class _Known:
    """One workload on one card: the newest reading, and the sizes of the last seconds."""

    stay: Stay
    seen_seconds: float
    # When, how much of it, and whether it was full.
    recent: deque[tuple[float, int, bool]] = field(default_factory=deque)

    def note(self, stay: Stay, now_seconds: float) -> None:
        self.stay, self.seen_seconds = stay, now_seconds
        while self.recent and now_seconds - self.recent[0][0] > WINDOW_SECONDS:
            self.recent.popleft()
        if stay.used_bytes is not None:
            self.recent.append((now_seconds, stay.used_bytes, stay.is_full))

    @property
    def was_full(self) -> bool:
        return any(is_full for _, _, is_full in self.recent)


class Whereabouts:
    """Cards' threads note, others ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, Workload], _Known] = {}
        self._process_owners: dict[int, tuple[Workload, float]] = {}
        self._departures: deque[Departure] = deque(maxlen=1024)
        self._forget_seconds = float("-inf")

    def note(self, uuid: str, stays: Iterable[Stay], now_seconds: float) -> None:
        """Take in everybody on one card."""
        with self._lock:
            here = {(stay.gpu_instance_id, stay.workload): stay for stay in stays}
            for key, known in list(self._known.items()):
                if key[0] == uuid:
                    self._note_departures(known, here.get(key[1:]), now_seconds)
            for (instance, workload), stay in here.items():
                key = (uuid, instance, workload)
                known = self._known.setdefault(key, _Known(stay, now_seconds))
                known.note(stay, now_seconds)
                owner = (workload, now_seconds)
                self._process_owners |= dict.fromkeys(stay.process_ids, owner)
            self._forget(now_seconds)

    def workload_of(self, process_id: int) -> Workload | None:
        """Say whose a process on a card was; ids of processes that are gone are remembered."""
        found = self._process_owners.get(process_id)
        return None if found is None else found[0]

    def memory_of(self, workload: Workload, now_seconds: float) -> Memory:
        """Tell what a workload had of its card in the last seconds."""
        with self._lock:
            rows = [
                known
                for (_, _, who), known in self._known.items()
                if who == workload and now_seconds - known.seen_seconds <= WINDOW_SECONDS
            ]
        if len(rows) != 1:
            return Memory()
        (known,) = rows
        used_bytes = max((used for _, used, _ in known.recent), default=None)
        promised_bytes = known.stay.promised_bytes
        room_bytes = known.stay.room_bytes if promised_bytes is None else promised_bytes
        return Memory(known.stay.uuid, used_bytes, room_bytes)

    def measured(self, now_seconds: float) -> frozenset[Workload]:
        """Name the workloads whose memory was told in the last seconds."""
        with self._lock:
            return frozenset(
                workload
                for (_, _, workload), known in self._known.items()
                if known.recent and now_seconds - known.recent[-1][0] <= WINDOW_SECONDS
            )

    def take_departures(self) -> list[Departure]:
        """Give the processes that left full cards since the last call."""
        with self._lock:
            departures = list(self._departures)
            self._departures.clear()
        return departures

    def _note_departures(self, known: _Known, stay: Stay | None, now_seconds: float) -> None:
        now_here = stay.process_ids if stay is not None else frozenset()
        if known.was_full and known.stay.process_ids - now_here:
            before = known.stay
            self._departures.append(Departure(before.workload, before.uuid, now_seconds))
        if stay is None and known.stay.process_ids:  # told once
            known.stay = Stay(
                known.stay.workload, known.stay.uuid, known.stay.gpu_instance_id, frozenset()
            )

    def _forget(self, now_seconds: float) -> None:
        if now_seconds < self._forget_seconds:
            return
        self._forget_seconds = now_seconds + FORGET_EVERY_SECONDS
        for key, known in list(self._known.items()):
            if now_seconds - known.seen_seconds > REMEMBERED_SECONDS:
                del self._known[key]
        for process_id, (_, seen_seconds) in list(self._process_owners.items()):
            if now_seconds - seen_seconds > REMEMBERED_SECONDS:
                del self._process_owners[process_id]
