"""Keeps NVML open and its list of cards true, over drivers that come late, go and come back."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from rightslice.contract import metrics
from rightslice.contract.spec import Sample
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.session import NvmlSession
from rightslice.exporter.store import Store
from rightslice.exporter.trouble import Trouble

log = logging.getLogger(__name__)

NAME = "nvml"
# Cards come, go and change order; finding that out costs some eight calls per card.
REFRESH_SECONDS = 60.0
RETRY_SECONDS_FIRST, RETRY_SECONDS_MOST = 1.0, 60.0
# A card that stopped answering is looked for this soon, then half as often each time.
SOONEST_REFRESH_SECONDS = 5.0
# What another process may cure and this one cannot, for so long, ends it: a container whose device
# rules were reset gets them back by a restart, a library older than the driver is loaded anew.
GIVE_UP_SECONDS = 120.0
INCURABLE_REASONS = frozenset((Reason.MISMATCH, Reason.BLOCKED, Reason.UNKNOWN, Reason.STUCK))
# What was opened anew has helped when cards have answered for so long since.
STEADY_SECONDS = 60.0
# A card may miss some rounds; when none answers for so long, the library is opened anew.
SILENT_SECONDS = 5.0
# A release that nobody takes back ends by itself: a hook that failed must not blind the node.
RELEASE_SECONDS = 900.0

Quiesce = Callable[[], AbstractContextManager[bool]]


@dataclass(slots=True)
class Inventory:
    """Opens, lists and closes; `step` is called once per round, by one thread at a time.

    `quiesce` gives a context in which no lane is inside the library, and whether that is so: while
    a call hangs the library cannot be closed. `give_up_text` is why this process should end.
    """

    session: NvmlSession
    store: Store
    clock: Clock
    quiesce: Quiesce
    give_up_text: str = ""
    _trouble: Trouble = field(default_factory=lambda: Trouble("NVML"))
    _release_trouble: Trouble = field(default_factory=lambda: Trouble("releasing NVML"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _card_troubles: dict[str, Trouble] = field(default_factory=dict)
    _due_seconds: float = float("-inf")
    _refreshed_seconds: float = float("-inf")
    _retry_seconds: float = RETRY_SECONDS_FIRST
    _look_seconds: float = SOONEST_REFRESH_SECONDS
    _incurable_since_seconds: float | None = None
    _silent_since_seconds: float | None = None
    _steady_since_seconds: float | None = None
    _reopen_text: str = ""
    _reopen_since_seconds: float = 0.0
    _released_until_seconds: float | None = None

    @property
    def is_released(self) -> bool:
        """Tell whether the library is kept closed on request."""
        return self._released_until_seconds is not None

    @property
    def trouble_text(self) -> str:
        """Say why no card can be read; empty while nothing is known against it."""
        if self.is_released:
            return self._release_trouble.text or "NVML is released on request"
        troubles = (self._trouble, *self._card_troubles.values())
        return next((trouble.text for trouble in troubles if trouble.text), "")

    @contextmanager
    def idle(self, timeout_seconds: float) -> Iterator[bool]:
        """Keep steps from being made; False if the one that goes on does not end in time."""
        is_idle = self._lock.acquire(timeout=timeout_seconds)
        try:
            yield is_idle
        finally:
            if is_idle:
                self._lock.release()

    def step(self) -> None:
        """Do what is due: open, list anew, close on request."""
        with self._lock:
            self._step()

    def _step(self) -> None:
        now_seconds = self.clock.monotonic_seconds()
        until_seconds = self._released_until_seconds  # once: resume() comes from another thread
        if until_seconds is not None and now_seconds < until_seconds:
            self._release(now_seconds)
        else:
            if until_seconds is not None and until_seconds == self._released_until_seconds:
                log.warning("nobody took NVML up again: sampling goes on")
                self.resume()
            self._release_trouble.ended(now_seconds)
            self._open_or_list(now_seconds)
        self._tell()

    def _release(self, now_seconds: float) -> None:
        if not self.session.is_open:
            self._release_trouble.ended(now_seconds)
            return
        if self._close("released on request"):
            self._release_trouble.ended(now_seconds)
            log.info("NVML is released")
        else:
            text = "a call that hangs is inside; stop this service, or restart the node"
            self._release_trouble.failed(text, now_seconds)

    def _open_or_list(self, now_seconds: float) -> None:
        text = self._reopen_text
        # While a call hangs inside it stays open, and what else there is goes on.
        if text and self.session.is_open and self._close(text):
            self._trouble.failed(text, now_seconds)
            self._back_off(now_seconds)
        if now_seconds < self._due_seconds and not self.session.is_list_old:
            return
        try:
            if self.session.is_open:
                self.session.refresh()
            else:
                self.session.open()
        except NvmlError as error:
            self._fail(error, now_seconds)
            return
        self._succeed(now_seconds)

    def look_again(self) -> None:
        """Have the cards listed soon: one of them stopped answering."""
        self._due_seconds = min(self._due_seconds, self._refreshed_seconds + self._look_seconds)

    def hear(self, reasons: Sequence[str | None]) -> None:
        """Take in why each card does not answer, None for one that does.

        When none does, the library is closed and opened again, and in the end given up.
        """
        now_seconds = self.clock.monotonic_seconds()
        if not reasons or not self.session.is_open:
            return
        if reasons.count(None) == len(reasons) and not self.session.unopened:
            self._look_seconds = SOONEST_REFRESH_SECONDS
        if None in reasons:
            self._silent_since_seconds = self._incurable_since_seconds = None
            self._reopen_text = ""
            if self._steady_since_seconds is None:
                self._steady_since_seconds = now_seconds
            elif now_seconds - self._steady_since_seconds >= STEADY_SECONDS:
                self._retry_seconds = RETRY_SECONDS_FIRST
            return
        self._steady_since_seconds = None
        text = f"no card answers ({reasons[0]})"
        self._watch_incurable(INCURABLE_REASONS.issuperset(reasons), text, now_seconds)
        if self._silent_since_seconds is None:
            self._silent_since_seconds = now_seconds
        elif now_seconds - self._silent_since_seconds >= SILENT_SECONDS:
            self._silent_since_seconds = None
            if not self._reopen_text:
                self._reopen_since_seconds = now_seconds
            self._reopen_text = text
        if self._reopen_text and now_seconds - self._reopen_since_seconds >= GIVE_UP_SECONDS:
            self.give_up_text = f"{text}, and NVML cannot be closed: a new process may do better"

    def release(self) -> None:
        """Close the library until `resume`, or for RELEASE_SECONDS at most.

        An open session keeps the driver from resetting a card and from changing its MIG mode.
        """
        self._released_until_seconds = self.clock.monotonic_seconds() + RELEASE_SECONDS
        log.info("asked to release NVML, for %.0f s at most", RELEASE_SECONDS)

    def resume(self) -> None:
        """Take the library up again."""
        if self.is_released:
            log.info("NVML is taken up again")
        self._released_until_seconds = None
        self._due_seconds = float("-inf")

    def _close(self, text: str) -> bool:
        """Close the library; False while a call that hangs is inside it."""
        with self.quiesce() as is_quiet:
            if not is_quiet:
                return False
            log.info("closing NVML: %s", text)
            self._reopen_text = ""
            try:
                self.session.close()
            except NvmlError as error:
                log.warning("closing NVML: %s", error)
        return True

    def _succeed(self, now_seconds: float) -> None:
        self._trouble.ended(now_seconds)
        if now_seconds - self._refreshed_seconds < REFRESH_SECONDS:
            self._look_seconds = min(2 * self._look_seconds, REFRESH_SECONDS)
        self._refreshed_seconds = now_seconds
        if self.session.unopened:
            self._due_seconds = now_seconds + self._look_seconds
        else:
            has_cards = bool(self.session.cards)
            self._due_seconds = now_seconds + (
                REFRESH_SECONDS if has_cards else RETRY_SECONDS_FIRST
            )
        if not self.session.cards:
            reasons = {row.error.reason for row in self.session.unopened}
            is_incurable = bool(reasons) and INCURABLE_REASONS.issuperset(reasons)
            self._watch_incurable(
                is_incurable, f"no card can be opened ({', '.join(sorted(reasons))})", now_seconds
            )
        self._count(
            *(
                Sample(
                    metrics.COLLECTOR_FAILURES_TOTAL, 1, (NAME, row.place, str(row.error.reason))
                )
                for row in self.session.unopened
            ),
            *(
                Sample(metrics.REJECTED_SAMPLES_TOTAL, 1, (NAME, "duplicate_or_placeholder_uuid"))
                for _ in self.session.duplicate_uuids
            ),
        )
        for row in self.session.unopened:
            trouble = self._card_troubles.setdefault(row.place, Trouble(f"card at {row.place}"))
            trouble.failed(row.error, now_seconds)
        for place in set(self._card_troubles) - {row.place for row in self.session.unopened}:
            self._card_troubles.pop(place).ended(now_seconds)

    def _fail(self, error: NvmlError, now_seconds: float) -> None:
        self._trouble.failed(error, now_seconds)
        self._back_off(now_seconds)
        if self.session.is_open:
            self._close(str(error))
        self._watch_incurable(error.reason in INCURABLE_REASONS, str(error), now_seconds)
        self._count(Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, (NAME, "", str(error.reason))))

    def _back_off(self, now_seconds: float) -> None:
        self._due_seconds = now_seconds + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, RETRY_SECONDS_MOST)

    def _watch_incurable(self, is_incurable: bool, text: str, now_seconds: float) -> None:
        if not is_incurable:
            self._incurable_since_seconds = None
        elif self._incurable_since_seconds is None:
            self._incurable_since_seconds = now_seconds
        elif now_seconds - self._incurable_since_seconds >= GIVE_UP_SECONDS:
            self.give_up_text = f"{text} for {GIVE_UP_SECONDS:.0f} s; a new process may do better"

    def _count(self, *samples: Sample) -> None:
        self.store.apply(NAME, samples, keep=True)

    def _tell(self) -> None:
        """Tell how things stand; every round, since who watches for hangs tells it as well."""
        is_open = self.session.is_open
        states = [
            Sample(metrics.COLLECTOR_SUCCESS, is_open, (NAME,)),
            Sample(metrics.NVML_RELEASED, self.is_released and not is_open),
        ]
        if is_open:
            states.append(Sample(metrics.GPUS_VISIBLE, len(self.session.cards)))
        self.store.apply(NAME, states)
