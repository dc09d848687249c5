"""Which workload was on which card lately, and with how much memory: asked when one ran out."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rightslice.exporter.host.owners.workload import Workload

# The line that tells of an allocation that failed comes within seconds; by then the process may
# have given its memory back.
WINDOW_SECONDS = 15.0
# A kill is looked into within seconds of its record; ids of processes are used again.
REMEMBERED_SECONDS = 60.0
FORGET_EVERY_SECONDS = 60.0
# A GPU instance's id, and who is on it.
Place = tuple[str, Workload]
# So full a card or promise leaves nothing that an allocator could use (research, section 2.4).
FULL_RATIO = 0.97
# Who has less of a full card than this has not filled it.
MAIN_RATIO = 0.5


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
        """Tell whether hardly any memory was left to the workload, and mostly by its own use."""
        own, room = self.used_bytes, self.room_bytes
        if own and self.promised_bytes and own >= FULL_RATIO * self.promised_bytes:
            return True
        if own is None or room is None or self.room_used_bytes is None:
            return False
        return own >= MAIN_RATIO * room and self.room_used_bytes >= FULL_RATIO * room


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
        # By card, then by GPU instance and workload.
        self._known: dict[str, dict[Place, _Known]] = {}
        self._process_owners: dict[int, tuple[Workload, float]] = {}
        self._departures: deque[Departure] = deque(maxlen=1024)
        self._forget_seconds = float("-inf")

    def note(self, uuid: str, stays: Iterable[Stay], now_seconds: float) -> None:
        """Take in everybody on one card."""
        here = {(stay.gpu_instance_id, stay.workload): stay for stay in stays}
        process_ids = frozenset().union(*(stay.process_ids for stay in here.values()))
        with self._lock:
            on_card = self._known.setdefault(uuid, {})
            for place, known in on_card.items():
                self._note_departures(known, process_ids, now_seconds)
                if place not in here and known.stay.process_ids:  # told once
                    known.stay = replace(known.stay, process_ids=frozenset())
            for place, stay in here.items():
                if place not in on_card:
                    on_card[place] = _Known(stay, now_seconds)
                on_card[place].note(stay, now_seconds)
            self._tidy(now_seconds)

    def workload_of(self, process_id: int) -> Workload | None:
        """Say whose a process on a card is, or was: ids are remembered for some minutes."""
        with self._lock:
            for known in self._all():
                if process_id in known.stay.process_ids:
                    return known.stay.workload
            found = self._process_owners.get(process_id)
        return None if found is None else found[0]

    def memory_of(self, workload: Workload, now_seconds: float) -> Memory:
        """Tell what a workload had of its card in the last seconds."""
        with self._lock:
            rows = [
                known
                for known in self._all()
                if known.stay.workload == workload
                and now_seconds - known.seen_seconds <= WINDOW_SECONDS
            ]
            if len(rows) != 1:
                return Memory()
            stay, recent = rows[0].stay, tuple(rows[0].recent)
        used_bytes = max((used for _, used, _ in recent), default=None)
        promised_bytes = stay.room_bytes if stay.promised_bytes is None else stay.promised_bytes
        return Memory(stay.uuid, used_bytes, promised_bytes)

    def measured(self, now_seconds: float) -> frozenset[Workload]:
        """Name the workloads whose memory was told in the last seconds."""
        with self._lock:
            return frozenset(
                known.stay.workload
                for known in self._all()
                if known.recent and now_seconds - known.recent[-1][0] <= WINDOW_SECONDS
            )

    def take_departures(self) -> list[Departure]:
        """Give the processes that left full cards since the last call."""
        with self._lock:
            departures = list(self._departures)
            self._departures.clear()
        return departures

    def _all(self) -> Iterator[_Known]:
        return (known for on_card in self._known.values() for known in on_card.values())

    def _note_departures(
        self, known: _Known, process_ids: frozenset[int], now_seconds: float
    ) -> None:
        """Note who is on the card no more, under this name or another."""
        before = known.stay
        gone = before.process_ids - process_ids
        if not gone:
            return
        self._process_owners |= dict.fromkeys(gone, (before.workload, now_seconds))
        if known.was_full:
            self._departures.append(Departure(before.workload, before.uuid, now_seconds))

    def _tidy(self, now_seconds: float) -> None:
        """Forget what was so long ago that nobody asks for it."""
        if now_seconds < self._forget_seconds:
            return
        self._forget_seconds = now_seconds + FORGET_EVERY_SECONDS
        oldest_seconds = now_seconds - REMEMBERED_SECONDS
        self._known = {
            uuid: {
                place: row for place, row in on_card.items() if row.seen_seconds >= oldest_seconds
            }
            for uuid, on_card in self._known.items()
        }
        self._process_owners = {
            process_id: row
            for process_id, row in self._process_owners.items()
            if row[1] >= oldest_seconds
        }
