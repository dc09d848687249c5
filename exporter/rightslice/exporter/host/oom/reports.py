"""What readers of logs and of the kernel tell, until it is counted."""

from collections import deque
from dataclasses import dataclass, field

from rightslice.exporter.host.oom.incidents import Report
from rightslice.exporter.host.owners.workload import Workload

# A burst of failures is far below this; beyond it nothing new is learned.
MOST_WAITING = 100_000


@dataclass(slots=True)
class Reports:
    """Filled by the threads that read, emptied by the one that counts.

    `matches` are lines of logs, by workload and framework, whether or not they begin an incident.
    """

    waiting: deque[Report] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    matches: deque[tuple[Workload, str]] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))

    def take(self) -> list[Report]:
        """Give the reports since the last call."""
        return [self.waiting.popleft() for _ in range(len(self.waiting))]

    def take_matches(self) -> list[tuple[Workload, str]]:
        """Give the lines since the last call."""
        return [self.matches.popleft() for _ in range(len(self.matches))]
