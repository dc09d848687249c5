"""The processes that use a card, with what they were started with."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.host.owners.environment import read_variables
from rightslice.exporter.host.owners.owners import Owner
from rightslice.exporter.host.owners.process_files import read_stat
from rightslice.exporter.host.owners.small_files import read_start

UPTIME_BYTES = 256


@dataclass(slots=True)
class CardProcess:
    """A process. `variables` is None while nothing was read of them, or where that is forbidden."""

    owner: Owner
    first_seen_seconds: float
    age_seconds: float = 0.0
    variables: Mapping[str, str] | None = None
    is_hidden: bool = False

    @property
    def id(self) -> int:
        return self.owner.process_id


class CardProcesses:
    """Reads some variables of each process once. That may wait for one that hangs."""

    def __init__(
        self, procfs: Path, names: Collection[str], now_seconds: Callable[[], float]
    ) -> None:
        self._procfs = procfs
        self._names = names
        self._now_seconds = now_seconds
        self._known: dict[tuple[int, int], CardProcess] = {}

    def refresh(self, owners: Iterable[Owner]) -> list[CardProcess]:
        """Give those of these processes that still run, in order."""
        up_seconds, now_seconds = self._up_seconds(), self._now_seconds()
        found: dict[tuple[int, int], CardProcess] = {}
        for owner in sorted(owners, key=lambda owner: owner.process_id):
            key = owner.process_id, owner.start_ticks
            process = self._known.get(key) or CardProcess(owner, now_seconds)
            if self._look_at(process):
                process.owner = owner  # it may have got a name
                started_seconds = owner.start_ticks / os.sysconf("SC_CLK_TCK")
                # Some containers are shown an uptime of their own: then what was seen counts.
                seen_seconds = now_seconds - process.first_seen_seconds
                process.age_seconds = max(up_seconds - started_seconds, seen_seconds)
                found[key] = process
        self._known = found
        return list(found.values())

    def _look_at(self, process: CardProcess) -> bool:
        """Read what is not known yet; False for a process that has ended."""
        stat = read_stat(self._procfs, process.id)
        if stat is None or stat.start_ticks != process.owner.start_ticks:
            return False
        if process.variables is None and not stat.may_hang:  # else some other time
            process.variables = read_variables(self._procfs, process.id, self._names)
            process.is_hidden = process.variables is None
            return not process.is_hidden or read_stat(self._procfs, process.id) is not None
        return True

    def _up_seconds(self) -> float:
        """Tell how long the node runs; 0 where procfs does not tell."""
        text = (read_start(self._procfs / "uptime", UPTIME_BYTES) or b"").partition(b" ")[0]
        try:
            return float(text)
        except ValueError:
            return 0.0
