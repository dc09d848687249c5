"""How much of the time a priority is held by pause frames, between two readings of its counters."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

# A pause frame asks for at most so many times 512 bits (IEEE 802.1Q, priority-based flow control).
MOST_QUANTA, BITS_PER_QUANTUM = 65_535, 512
BITS_PER_BYTE = 8
# A share is of a second at least, so that short samples do not make a short pause a long one; a
# little less, for no clock ticks evenly.
WINDOW_SECONDS = 0.8
# Above 1 by so much, and by what the calls took, is noise of the timing; by more, it is no share
# (research, section 3.1).
MOST_RATIO = 1.05
# The hardware of these writes its counters once a second, whenever it likes: a reading may see the
# same values again, and the next one those of two seconds.
PACED_DRIVERS = frozenset(("bnxt",))
PACE_SECONDS, LONGEST_PACE_SECONDS = 1.0, 2.5


class PauseCounters(NamedTuple):
    """Running totals of one direction of a priority; None for what the driver does not tell."""

    seconds: float | None
    frames: float | None
    transitions: float | None


@dataclass(frozen=True, slots=True)
class PauseShare:
    """What two readings tell. Shares are of the time between, at most 1.

    `bound_ratio` is what the frames can have held at most, where no time is told. `mean_seconds` is
    the mean length of the pauses that ended; of one that did not end, its length so far.
    """

    ratio: float | None = None
    bound_ratio: float | None = None
    mean_seconds: float | None = None


class _Reading(NamedTuple):
    counters: PauseCounters
    at_seconds: float


@dataclass(slots=True)
class PauseFollower:
    """Follows one direction of one priority. `is_paced` is for hardware that writes by itself."""

    is_paced: bool = False
    # Those of the last second, and the newest that is older; of paced hardware the last ones that
    # brought something new.
    _readings: deque[_Reading] = field(default_factory=deque)
    _before: PauseCounters | None = None
    _before_seconds: float = 0.0
    _unended_seconds: float = 0.0

    def take(
        self,
        now: PauseCounters,
        now_seconds: float,
        bytes_per_second: float | None,
        slack_seconds: float = 0.0,
    ) -> PauseShare:
        """Compare with earlier readings; nothing can be told of the first, or after a reset.

        The readings may be so much nearer to each other, or farther apart, than their times say.
        """
        before, before_seconds = self._before, self._before_seconds
        self._before, self._before_seconds = now, now_seconds
        if before is None or _has_begun_anew(before, now):
            self._unended_seconds = 0.0
            self._readings = deque((_Reading(now, now_seconds),))
            return PauseShare()
        if self.is_paced:
            since_seconds = now_seconds - before_seconds
            share = self._paced_share(now, now_seconds, since_seconds, bytes_per_second)
            if now == before:
                return share
        else:
            share = self._share(now, now_seconds, bytes_per_second, slack_seconds)
        held_seconds = _growth(before.seconds, now.seconds)
        ended_count = _growth(before.transitions, now.transitions)
        mean_seconds = self._mean_seconds(held_seconds, ended_count)
        return PauseShare(share.ratio, share.bound_ratio, mean_seconds)

    def _share(
        self,
        now: PauseCounters,
        now_seconds: float,
        bytes_per_second: float | None,
        slack_seconds: float,
    ) -> PauseShare:
        """Compare with the newest reading that is a second old."""
        readings = self._readings
        readings.append(_Reading(now, now_seconds))
        while now_seconds - readings[1].at_seconds >= WINDOW_SECONDS:
            readings.popleft()
        then, then_seconds = readings[0]
        elapsed_seconds = now_seconds - then_seconds
        if elapsed_seconds < WINDOW_SECONDS:
            return PauseShare()
        held_seconds = _growth(then.seconds, now.seconds)
        if held_seconds is None:
            return PauseShare(bound_ratio=_bound(then, now, elapsed_seconds, bytes_per_second))
        most_seconds = MOST_RATIO * elapsed_seconds + slack_seconds
        is_share = held_seconds <= most_seconds
        return PauseShare(ratio=min(held_seconds / elapsed_seconds, 1.0) if is_share else None)

    def _paced_share(
        self,
        now: PauseCounters,
        now_seconds: float,
        since_seconds: float,
        bytes_per_second: float | None,
    ) -> PauseShare:
        """Tell it when the hardware has written: of what it has counted since it did so before.

        After a time without news that is a second, however long nothing was to be counted.
        """
        then, then_seconds = self._readings[-1]
        elapsed_seconds = now_seconds - then_seconds
        if now == then and elapsed_seconds < LONGEST_PACE_SECONDS:
            return PauseShare()
        if now != then:
            self._readings = deque((_Reading(now, now_seconds),))
            if elapsed_seconds > LONGEST_PACE_SECONDS:
                elapsed_seconds = since_seconds
        elapsed_seconds = max(elapsed_seconds, PACE_SECONDS)
        held_seconds = _growth(then.seconds, now.seconds)
        if held_seconds is None:
            return PauseShare(bound_ratio=_bound(then, now, elapsed_seconds, bytes_per_second))
        return PauseShare(ratio=min(held_seconds / elapsed_seconds, 1.0))

    def _mean_seconds(self, held_seconds: float | None, ended_count: float | None) -> float | None:
        if held_seconds is None or ended_count is None:
            return None
        self._unended_seconds += held_seconds
        if not ended_count:
            return self._unended_seconds if held_seconds else 0.0
        mean_seconds, self._unended_seconds = self._unended_seconds / ended_count, 0.0
        return mean_seconds


def frames_per_second_that_hold(bytes_per_second: float) -> float:
    """Give the rate of pause frames that can hold a link of this speed stopped."""
    return bytes_per_second * BITS_PER_BYTE / (BITS_PER_QUANTUM * MOST_QUANTA)


def _bound(
    before: PauseCounters,
    now: PauseCounters,
    elapsed_seconds: float,
    bytes_per_second: float | None,
) -> float | None:
    frames = _growth(before.frames, now.frames)
    if frames is None or now.seconds is not None or not bytes_per_second:
        return None
    return min(frames / elapsed_seconds / frames_per_second_that_hold(bytes_per_second), 1.0)


def _has_begun_anew(before: PauseCounters, now: PauseCounters) -> bool:
    pairs = zip(before, now, strict=True)
    return any(was is not None and (now is None or now < was) for was, now in pairs)


def _growth(before: float | None, now: float | None) -> float | None:
    """Tell how much a total grew; None where it is not told, or began anew."""
    if before is None or now is None or now < before:
        return None
    return now - before
