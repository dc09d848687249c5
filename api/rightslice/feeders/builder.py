"""Collects what readings tell of each card and hour, and gives the ledger's rows."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.hours import SECONDS_PER_HOUR, hour_of, hour_start, moment
from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.rows import CardHour, WorkloadHour

# A clock may run a little ahead of the hour; that much goes to the next one.
CARRIED_SECONDS = 2.0
# A card that nobody has seen for a day has left; until then its hours are unknown, not gone.
DEPARTED_SECONDS = 86_400.0


@dataclass(slots=True)
class CardHourBuilder:
    """One card's hour while it is being told. Bins are lists of BIN_COUNT counts, or empty."""

    observed_seconds: float = 0.0
    allocation_observed_seconds: float = 0.0
    allocated_seconds: float = 0.0
    busy_observed_seconds: float = 0.0
    busy_seconds: float = 0.0
    unrequested_busy_seconds: float = 0.0
    seen_seconds: float = 0.0
    memory_total_bytes: float | None = None
    memory_used_peak_bytes: float | None = None
    memory_bins: list[float] = field(default_factory=list)
    busy_bins: list[float] = field(default_factory=list)
    sm_active_bins: list[float] = field(default_factory=list)
    busy_signal: str = ""
    memory_interval_seconds: float = 0.0
    busy_interval_seconds: float = 0.0
    sm_active_interval_seconds: float = 0.0
    workloads: dict[str, float] = field(default_factory=dict)
    quality: list[str] = field(default_factory=list)

    def add_to_bin(self, histogram: str, index: int, amount: float) -> None:
        """Add to one bin of "memory_bins", "busy_bins" or "sm_active_bins"."""
        bins: list[float] = getattr(self, histogram)
        if not bins:
            bins.extend([0.0] * BIN_COUNT)
        bins[index] += amount

    def note(self, flag: str) -> None:
        """Remember a doubt about this hour."""
        if flag not in self.quality:
            self.quality.append(flag)

    def see_peak(self, used_bytes: float) -> None:
        self.memory_used_peak_bytes = max(self.memory_used_peak_bytes or 0.0, used_bytes)


OBSERVED_FIELDS = (
    "observed_seconds",
    "allocation_observed_seconds",
    "allocated_seconds",
    "busy_observed_seconds",
    "busy_seconds",
    "unrequested_busy_seconds",
)


@dataclass(slots=True)
class HourTable:
    """The open hours of all cards of one source."""

    source: str
    hours: dict[int, dict[str, CardHourBuilder]] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The latest reading of any card: until then this feeder itself was alive.
    alive_seconds: float = 0.0
    # Hours that were told something since they were last written.
    changed_hours: set[int] = field(default_factory=set, compare=False)

    def card(self, uuid: str, hour: int) -> CardHourBuilder:
        """Give the builder of a card's hour, made when first asked for."""
        self.changed_hours.add(hour)
        cards = self.hours.get(hour)
        if cards is None:
            cards = self.hours[hour] = {}
        builder = cards.get(uuid)
        if builder is None:
            builder = cards[uuid] = CardHourBuilder()
        return builder

    def see(self, uuid: str, now_seconds: float, node: str, name: str) -> None:
        """Note that a card is there, where it sits and what it is called."""
        if uuid not in self.first_seen or self._has_departed(uuid, now_seconds):
            self.first_seen[uuid] = now_seconds  # arrived, or come back
        self.last_seen[uuid] = now_seconds
        hour = self.card(uuid, hour_of(now_seconds))
        hour.seen_seconds = max(hour.seen_seconds, now_seconds)
        self.alive_seconds = max(self.alive_seconds, now_seconds)
        known_node, known_name = self.names.get(uuid, ("", ""))
        self.names[uuid] = (node or known_node, name or known_name)

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
        for later in [known for known in self.hours if known >= hour]:
            del self.hours[later]

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
                if excess <= CARRIED_SECONDS:
                    following = self.card(uuid, hour + 1)
                    setattr(following, name, getattr(following, name) + excess)
                else:
                    builder.note("clamped")

    def card_hours(self, hours: Iterable[int], until_seconds: float) -> list[CardHour]:
        """Give the rows of some hours, one for every card that was there, seen or not."""
        rows = []
        for hour in hours:
            cards = self.hours.get(hour, {})
            for uuid in sorted(self.first_seen):
                owned_seconds = self.owned_seconds(uuid, hour, until_seconds)
                if owned_seconds > 0:
                    builder = cards.get(uuid) or CardHourBuilder()
                    rows.append(self._card_hour(uuid, hour, owned_seconds, builder))
        return rows

    def _card_hour(
        self, uuid: str, hour: int, owned_seconds: float, builder: CardHourBuilder
    ) -> CardHour:
        total, peak = builder.memory_total_bytes, builder.memory_used_peak_bytes
        return CardHour(
            uuid=uuid,
            hour=hour_start(hour),
            source=self.source,
            owned_seconds=owned_seconds,
            observed_seconds=builder.observed_seconds,
            allocation_observed_seconds=builder.allocation_observed_seconds,
            allocated_seconds=builder.allocated_seconds,
            busy_observed_seconds=builder.busy_observed_seconds,
            busy_seconds=builder.busy_seconds,
            unrequested_busy_seconds=builder.unrequested_busy_seconds,
            memory_total_bytes=None if total is None else int(total),
            memory_used_peak_bytes=None if peak is None else int(peak),
            memory_bins=_bins(builder.memory_bins),
            busy_bins=_bins(builder.busy_bins),
            sm_active_bins=_bins(builder.sm_active_bins),
            busy_signal=builder.busy_signal,
            memory_interval_seconds=builder.memory_interval_seconds,
            busy_interval_seconds=builder.busy_interval_seconds,
            sm_active_interval_seconds=builder.sm_active_interval_seconds,
            quality=tuple(sorted(builder.quality)),
            seen_until=moment(builder.seen_seconds) if builder.seen_seconds else None,
        )

    def workload_hours(self, hours: Iterable[int]) -> list[WorkloadHour]:
        """Give the workloads of some hours."""
        rows = []
        for hour in hours:
            for uuid, builder in sorted(self.hours.get(hour, {}).items()):
                for key, seconds in sorted(builder.workloads.items()):
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
            CardAttributes(uuid, hour_start(hour), node, name)
            for uuid, (node, name) in sorted(self.names.items())
        ]

    def forget_before(self, hour: int) -> None:
        """Drop hours that are closed."""
        for old in [known for known in self.hours if known < hour]:
            del self.hours[old]

    def state(self, from_hour: int = 0) -> dict[str, Any]:
        """Give everything, hours from `from_hour` on, in a shape that JSON can hold."""
        return {
            "alive_seconds": self.alive_seconds,
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "names": {uuid: list(pair) for uuid, pair in self.names.items()},
            "hours": {
                str(hour): {uuid: asdict(builder) for uuid, builder in cards.items()}
                for hour, cards in self.hours.items()
                if hour >= from_hour
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        known = {entry.name for entry in fields(CardHourBuilder)}
        self.alive_seconds = state["alive_seconds"]
        self.first_seen = dict(state["first_seen"])
        self.last_seen = dict(state["last_seen"])
        self.names = {uuid: (pair[0], pair[1]) for uuid, pair in state["names"].items()}
        self.hours = {
            int(hour): {
                uuid: CardHourBuilder(**{k: v for k, v in row.items() if k in known})
                for uuid, row in cards.items()
            }
            for hour, cards in state["hours"].items()
        }


def _bins(counts: list[float]) -> tuple[float, ...] | None:
    """Give a histogram's counts; differences of floats may leave a trace below zero."""
    return tuple(max(count, 0.0) for count in counts) if any(counts) else None


def workload_key(kind: str, namespace: str, pod: str, container: str) -> str:
    """Name a workload within an hour; NUL cannot occur in a label's parts."""
    return "\0".join(part.replace("\0", "") for part in (kind, namespace, pod, container))
