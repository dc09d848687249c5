"""Collects what readings tell of each card and hour, and gives the ledger's rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rightslice.feeders.hours.card_builder import STATE_FIELDS, CardHourBuilder
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_of, hour_start
from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.rows import CardHour, WorkloadHour

# A clock may run a little ahead of the hour; that much goes to the next one.
CARRIED_SECONDS = 2.0
# A card that nobody has seen for a day has left; until then its hours are unknown, not gone.
DEPARTED_SECONDS = 86_400.0

OBSERVED_FIELDS = (
    "observed_seconds",
    "allocation_observed_seconds",
    "allocated_seconds",
    "busy_observed_seconds",
    "busy_seconds",
    "unrequested_busy_seconds",
    "sm_observed_seconds",
    "sm_active_seconds",
    "dram_active_seconds",
)
NOTHING_TOLD = CardHourBuilder()


class CardName(NamedTuple):
    """Where a card sits and what it is called; each part is empty where nobody tells."""

    node: str = ""
    name: str = ""
    cluster: str = ""
    slot: str = ""


@dataclass(slots=True)
class HourTable:
    """The open hours of all cards of one source."""

    source: str
    hours: dict[int, dict[str, CardHourBuilder]] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    names: dict[str, CardName] = field(default_factory=dict)
    # The latest reading of any card: until then this feeder itself was alive.
    alive_seconds: float = 0.0
    # What was told something since it was last written: cards by hour, and of cards that were named
    # anew the hour from which on.
    changed: dict[int, set[str]] = field(default_factory=dict, compare=False)
    renamed: dict[str, int] = field(default_factory=dict, compare=False)

    def card(self, uuid: str, hour: int) -> CardHourBuilder:
        """Give the builder of a card's hour, made when first asked for."""
        changed = self.changed.get(hour)
        if changed is None:
            changed = self.changed[hour] = set()
        changed.add(uuid)
        cards = self.hours.get(hour)
        if cards is None:
            cards = self.hours[hour] = {}
        builder = cards.get(uuid)
        if builder is None:
            builder = cards[uuid] = CardHourBuilder()
        return builder

    def see(
        self,
        uuid: str,
        now_seconds: float,
        node: str,
        name: str,
        cluster: str = "",
        slot: str = "",
    ) -> None:
        """Note that a card is there, where it sits and what it is called."""
        if uuid not in self.first_seen or self._has_departed(uuid, now_seconds):
            self.first_seen[uuid] = now_seconds  # arrived, or come back
        self.last_seen[uuid] = now_seconds
        hour = hour_of(now_seconds)
        builder = self.card(uuid, hour)
        builder.seen_seconds = max(builder.seen_seconds, now_seconds)
        self.alive_seconds = max(self.alive_seconds, now_seconds)
        known = self.names.get(uuid, CardName())
        told = CardName(
            *(new or old for new, old in zip((node, name, cluster, slot), known, strict=True))
        )
        if told != known or uuid not in self.names:
            self.names[uuid] = told
            self.renamed[uuid] = hour

    def _has_departed(self, uuid: str, now_seconds: float) -> bool:
        """Tell whether a card has left: unseen for a day while others were seen.

        When nothing at all was read, the feeder was away, not the card.
        """
        until_seconds = min(now_seconds, self.alive_seconds)
        return until_seconds > self.last_seen[uuid] + DEPARTED_SECONDS

    def forget_departed(self, now_seconds: float) -> set[str]:
        """Drop what is kept of cards that have left; gives their UUIDs."""
        departed = {uuid for uuid in self.last_seen if self._has_departed(uuid, now_seconds)}
        for uuid in departed:
            del self.first_seen[uuid], self.last_seen[uuid]
            self.names.pop(uuid, None)
        return departed

    def start_over(self, now_seconds: float) -> None:
        """Take back what was told of the time after now: the clock was set back."""
        self.alive_seconds = min(self.alive_seconds, now_seconds)
        for seen in (self.first_seen, self.last_seen):
            for uuid, seconds in seen.items():
                seen[uuid] = min(seconds, now_seconds)
        self.forget_from(int(now_seconds // SECONDS_PER_HOUR) + 1)

    def forget_from(self, hour: int) -> None:
        """Drop an hour and all after it."""
        self.hours = {known: told for known, told in self.hours.items() if known < hour}
        self.changed = {known: told for known, told in self.changed.items() if known < hour}

    def owned_seconds(self, uuid: str, hour: int, until_seconds: float) -> float:
        """Give how much of an hour the card was there, as far as the hour has come."""
        start = max(hour * SECONDS_PER_HOUR, self.first_seen[uuid])
        end = min((hour + 1) * SECONDS_PER_HOUR, until_seconds)
        return 0.0 if self._has_departed(uuid, end) else max(end - start, 0.0)

    def carry(self, hour: int) -> None:
        """Move what an hour holds above its length, if it is a clock's jitter, to the next.

        A larger excess is cut, and said.
        """
        for uuid, builder in self.hours.get(hour, {}).items():
            for name in OBSERVED_FIELDS:
                excess = getattr(builder, name) - SECONDS_PER_HOUR
                if excess <= 0:
                    continue
                setattr(builder, name, float(SECONDS_PER_HOUR))
                self.changed.setdefault(hour, set()).add(uuid)
                if excess <= CARRIED_SECONDS:
                    following = self.card(uuid, hour + 1)
                    setattr(following, name, getattr(following, name) + excess)
                else:
                    builder.note("clamped")

    def card_hours(
        self, hours: Iterable[int], until_seconds: float, *, changed_only: bool = False
    ) -> list[CardHour]:
        """Give the rows of some hours, one for every card that was there, seen or not.

        With `changed_only`, of those that were told something since they were last written.
        """
        rows = []
        for hour in hours:
            cards = self.hours.get(hour, {})
            changed = self.changed.get(hour, set())
            for uuid in sorted(
                changed & self.first_seen.keys() if changed_only else self.first_seen
            ):
                owned_seconds = self.owned_seconds(uuid, hour, until_seconds)
                if owned_seconds > 0:
                    builder = cards.get(uuid, NOTHING_TOLD)
                    rows.append(builder.row(uuid, hour, self.source, owned_seconds))
        return rows

    def workload_hours(
        self, hours: Iterable[int], *, changed_only: bool = False
    ) -> list[WorkloadHour]:
        """Give the workloads of some hours; with `changed_only`, of cards that were told anew."""
        rows = []
        for hour in hours:
            cards = self.hours.get(hour, {})
            changed = self.changed.get(hour, set())
            for uuid in sorted(changed & cards.keys() if changed_only else cards):
                for key, seconds in sorted(cards[uuid].workloads.items()):
                    kind, namespace, pod, container = key.split("\0")
                    rows.append(
                        WorkloadHour(
                            kind,
                            namespace,
                            pod,
                            container,
                            uuid,
                            hour_start(hour),
                            self.source,
                            seconds,
                        )
                    )
        return rows

    def attributes(self, hour: int) -> list[CardAttributes]:
        """Give where cards sit and what they are called, as known from `hour` on."""
        return [
            CardAttributes(uuid, hour_start(hour), *name)
            for uuid, name in sorted(self.names.items())
        ]

    def written(self) -> None:
        """Note that all there was to write is written."""
        self.changed.clear()
        self.renamed.clear()

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        self.hours = {known: told for known, told in self.hours.items() if known >= hour}
        self.changed = {known: told for known, told in self.changed.items() if known >= hour}

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything, hours from `from_hour` on, in a shape that JSON can hold."""
        return {
            "alive_seconds": self.alive_seconds,
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "names": self.names,
            "fields": STATE_FIELDS,
            "hours": {
                str(hour): {uuid: builder.state() for uuid, builder in cards.items()}
                for hour, cards in self.hours.items()
                if hour >= from_hour
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; what an older version wrote is not taken up."""
        if "fields" not in state:
            return
        self.alive_seconds = state["alive_seconds"]
        self.first_seen = dict(state["first_seen"])
        self.last_seen = dict(state["last_seen"])
        self.names = {uuid: CardName(*parts) for uuid, parts in state["names"].items()}
        self.hours = {
            int(hour): {
                uuid: CardHourBuilder.restored(state["fields"], row) for uuid, row in cards.items()
            }
            for hour, cards in state["hours"].items()
        }


def workload_key(kind: str, namespace: str, pod: str, container: str) -> str:
    """Name a workload within an hour; NUL cannot occur in a label's parts."""
    return "\0".join(part.replace("\0", "") for part in (kind, namespace, pod, container))


def age_together(tables: Sequence[HourTable]) -> None:
    """Tell all tables how long their feeder was alive.

    A source that was switched off must not keep its cards for ever: they leave its table while
    another source tells of them, or of others.
    """
    alive_seconds = max((table.alive_seconds for table in tables), default=0.0)
    for table in tables:
        table.alive_seconds = alive_seconds
