"""What a feeder of a Prometheus keeps in the ledger: how far it has come, and what is to come."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.ledger.batch import FeederState

STATE_VERSION = 3
# A pull asks for so many hours at once.
SPAN_HOURS = 24


@dataclass(slots=True)
class PullState:
    """Hours from `from_hour` on were asked for, up to `until_hour`.

    `missing_hours` of them could not be read. `counts` are how many samples each source held of
    recent hours when they were read. `kept` is what mapping goes on from: which cards are known.
    """

    from_hour: int
    until_hour: int
    missing_hours: set[int] = field(default_factory=set)
    counts: dict[str, dict[int, float]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def written(self, hours: range, counts: Mapping[str, Mapping[int, float]]) -> None:
        """Note that hours are in the ledger, as they stood when the source held so many samples."""
        self.missing_hours.difference_update(hours)
        self.until_hour = max(self.until_hour, hours.stop)
        for source, told in counts.items():
            known = self.counts.setdefault(source, {})
            known.update({hour: told[hour] for hour in hours if hour in told})

    def failed(self, hours: range) -> None:
        """Note that hours could not be read: they stay to be done, and those after them go on."""
        self.missing_hours.update(hours)
        self.until_hour = max(self.until_hour, hours.stop)

    def due(
        self, window: range, counts: Mapping[str, Mapping[int, float]], final_before_hour: int
    ) -> list[range]:
        """Give the hours to read, in order: new ones, missing ones, those with more samples.

        An hour before `final_before_hour` is not looked at again, unless it is missing. Those next
        to an hour with more samples are read, too: the interval across their edge is split anew.
        """
        late = {
            hour
            for source, told in counts.items()
            for hour, count in told.items()
            if hour < self.until_hour
            and hour >= max(final_before_hour, self.from_hour)
            and count > self.counts.get(source, {}).get(hour, 0.0)
        }
        around = {hour + off for hour in late for off in (-1, 0, 1)}
        known = range(max(window.start, self.from_hour), self.until_hour)
        again = {hour for hour in self.missing_hours | around if hour in known}
        return spans([*again, *range(self.until_hour, window.stop)])

    def forget_before(self, hour: int, final_before_hour: int) -> None:
        """Drop what is needed no more."""
        self.missing_hours = {missing for missing in self.missing_hours if missing >= hour}
        for source, told in self.counts.items():
            self.counts[source] = {
                known: count for known, count in told.items() if known >= final_before_hour
            }

    def stored(self) -> FeederState:
        return FeederState(
            datetime.fromtimestamp(self.until_hour * SECONDS_PER_HOUR, UTC),
            {
                "version": STATE_VERSION,
                "from_hour": self.from_hour,
                "until_hour": self.until_hour,
                "missing_hours": sorted(self.missing_hours),
                "counts": {
                    source: {str(hour): count for hour, count in sorted(told.items())}
                    for source, told in self.counts.items()
                },
                "kept": self.kept,
            },
        )


def restored(known: FeederState | None, start_hour: int) -> PullState:
    """Take up what was stored, if it goes on to `start_hour` without a gap; else begin anew."""
    state = known.state if known is not None else {}
    if (
        state.get("version") != STATE_VERSION
        or not state["from_hour"] <= start_hour <= state["until_hour"]
    ):
        return PullState(start_hour, start_hour)
    return PullState(
        state["from_hour"],
        state["until_hour"],
        set(state["missing_hours"]),
        {
            source: {int(hour): count for hour, count in told.items()}
            for source, told in state["counts"].items()
        },
        state["kept"],
    )


def spans(hours: Iterable[int]) -> list[range]:
    """Put hours together that follow each other, a day of them at most."""
    found: list[range] = []
    for hour in sorted(set(hours)):
        last = found[-1] if found else range(0)
        if found and last.stop == hour and len(last) < SPAN_HOURS:
            found[-1] = range(last.start, hour + 1)
        else:
            found.append(range(hour, hour + 1))
    return found
