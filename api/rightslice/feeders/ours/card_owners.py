"""Which of several targets tells of a card, or of a node's ports and incidents.

One card told by two targets is one card. The first keeps it until it falls silent, or until a newer
process tells of it: an exporter that was restarted at another address.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

TARGET_SILENT_SECONDS = 600.0
NEWER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Teller:
    """A target at the time of one of its pages."""

    target_name: str
    seen_seconds: float
    process_start_seconds: float


@dataclass(slots=True)
class CardOwners:
    """The teller of each card and node."""

    _tellers: dict[str, Teller] = field(default_factory=dict)

    def claim(self, teller: Teller, name: str) -> bool:
        """Tell whether a card or node is this target's to tell of, and note that it is."""
        owner = self._tellers.get(name, teller)
        is_newer = teller.process_start_seconds > owner.process_start_seconds + NEWER_SECONDS
        is_silent = teller.seen_seconds - owner.seen_seconds >= TARGET_SILENT_SECONDS
        if owner.target_name != teller.target_name and not (is_newer or is_silent):
            return False
        self._tellers[name] = teller
        return True

    def may_tell(self, teller: Teller, name: str) -> bool:
        """Tell whether a card is this target's to tell of, or nobody's so far."""
        owner = self._tellers.get(name)
        return owner is None or owner.target_name == teller.target_name

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._tellers.pop(name, None)

    def release(self, target_name: str) -> None:
        """Let go of all that a target told of: it is read no more."""
        self._tellers = {
            name: teller
            for name, teller in self._tellers.items()
            if teller.target_name != target_name
        }

    def clear(self) -> None:
        self._tellers.clear()
