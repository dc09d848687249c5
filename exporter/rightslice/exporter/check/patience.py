"""How long is waited for what is asked: the kernel, a driver or a card's firmware may not answer.

Whoever asks of a network interface waits while somebody else changes any (the rtnl lock).
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

EACH_SECONDS, WHOLE_SECONDS = 5.0, 30.0
T = TypeVar("T")


class Patience:
    """So long for each piece of work, and so long for all of them together."""

    def __init__(
        self, each_seconds: float = EACH_SECONDS, whole_seconds: float = WHOLE_SECONDS
    ) -> None:
        self._each_seconds = each_seconds
        self._whole_seconds = whole_seconds
        self._until_seconds = time.monotonic() + whole_seconds

    def wait_for(self, work: Callable[[], Iterable[T]], name: str) -> tuple[list[T], str]:
        """Give what came of the work in time, and why there is no more; empty if that is all.

        It is done in a thread that does not keep the process from ending.
        """
        left_seconds = self._until_seconds - time.monotonic()
        if left_seconds <= 0:
            return [], f"was not begun: what came before took {self._whole_seconds:g} s"
        seconds = min(self._each_seconds, left_seconds)
        worker = _Worker(work, name)
        worker.start()
        worker.join(seconds)
        is_late = worker.is_alive()
        found = list(worker.found)
        if is_late:
            return found, (
                f"did not come back within {seconds:.3g} s: the kernel, a driver or a card's "
                "firmware does not answer, or somebody is changing the node's network"
            )
        if worker.error is not None:
            raise worker.error
        return found, ""


class _Worker(threading.Thread, Generic[T]):
    """Keeps what its work gives, piece by piece."""

    def __init__(self, work: Callable[[], Iterable[T]], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.found: list[T] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            for each in self._work():
                self.found.append(each)
        except Exception as error:  # raised where it is waited for
            self.error = error
