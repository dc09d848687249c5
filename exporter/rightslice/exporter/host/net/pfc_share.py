"""How much of the time a priority is held by pause frames, between two readings of its counters."""

from dataclasses import dataclass

# A pause frame asks for at most so many times 512 bits (IEEE 802.1Q, priority-based flow control).
MOST_QUANTA, BITS_PER_QUANTUM = 65_535, 512
BITS_PER_BYTE = 8
# Above 1 by so much is noise of the timing; by more, it is no share (research, section 3.1).
MOST_RATIO = 1.05
# The hardware of these writes its counters once a second, whenever it likes: a reading may see the
# same values again, and the next one those of two seconds.
PACED_DRIVERS = frozenset(("bnxt",))
LONGEST_PACE_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class PauseCounters:
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


@dataclass(slots=True)
class PauseFollower:
    """Follows one direction of one priority. `is_paced` is for hardware that writes by itself."""

    is_paced: bool = False
    _before: PauseCounters | None = None
    _before_seconds: float = 0.0
    _unended_seconds: float = 0.0

    def take(
        self, now: PauseCounters, now_seconds: float, bytes_per_second: float | None
    ) -> PauseShare:
        """Compare with the reading before; nothing can be told of the first, or after a reset."""
        before, elapsed_seconds = self._before, now_seconds - self._before_seconds
        if self.is_paced and now == before and elapsed_seconds < LONGEST_PACE_SECONDS:
            return PauseShare()
        self._before, self._before_seconds = now, now_seconds
        if before is None or elapsed_seconds <= 0:
            return PauseShare()
        held_seconds = _growth(before.seconds, now.seconds)
        if held_seconds is None:
            self._unended_seconds = 0.0
            return PauseShare(bound_ratio=_bound(before, now, elapsed_seconds, bytes_per_second))
        ratio = held_seconds / elapsed_seconds
        return PauseShare(
            ratio=min(ratio, 1.0) if ratio <= MOST_RATIO else None,
            mean_seconds=self._mean_seconds(
                held_seconds, _growth(before.transitions, now.transitions)
            ),
        )

    def _mean_seconds(self, held_seconds: float, ended_count: float | None) -> float | None:
        if ended_count is None:
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


def _growth(before: float | None, now: float | None) -> float | None:
    """Tell how much a total grew; None where it is not told, or began anew."""
    if before is None or now is None or now < before:
        return None
    return now - before
