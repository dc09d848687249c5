"""Shares of time in which a priority is held, from two readings of counters."""

import math

import pytest

from rightslice.exporter.host.net.pfc_share import (
    MOST_RATIO,
    PauseCounters,
    PauseFollower,
    PauseShare,
    frames_per_second_that_hold,
)

BYTES_PER_GIGABIT = 125_000_000
RATE = 100 * BYTES_PER_GIGABIT
NOTHING = PauseShare()


def counted(
    seconds: float | None = None, frames: float | None = None, transitions: float | None = None
) -> PauseCounters:
    return PauseCounters(seconds, frames, transitions)


def shares(
    *readings: tuple[float, PauseCounters], is_paced: bool = False, rate: float | None = RATE
) -> list[PauseShare]:
    follower = PauseFollower(is_paced)
    return [follower.take(counters, at_seconds, rate) for at_seconds, counters in readings]


def test_of_one_reading_nothing_is_known() -> None:
    assert shares((100, counted(5.0, 10, 3))) == [NOTHING]


def test_a_share_is_of_the_time_between() -> None:
    assert shares((100, counted(5.0)), (102, counted(5.5)))[-1].ratio == pytest.approx(0.25)


def test_not_held_is_zero_not_unknown() -> None:
    assert shares((100, counted(5.0)), (101, counted(5.0)))[-1] == PauseShare(ratio=0.0)


@pytest.mark.parametrize(
    ("held_seconds", "ratio"),
    [
        pytest.param(1.0, 1.0, id="all the time"),
        pytest.param(1.04, 1.0, id="noise of the timing"),
        pytest.param(1.06, None, id="no share"),
        pytest.param(500.0, None, id="nonsense"),
    ],
)
def test_what_is_above_one_is_noise_or_dropped(held_seconds: float, ratio: float | None) -> None:
    assert MOST_RATIO == 1.05
    assert shares((100, counted(0.0)), (101, counted(held_seconds)))[-1].ratio == ratio


def test_after_a_reset_nothing_is_told_once() -> None:
    told = shares((100, counted(50.0, 9, 9)), (101, counted(0.1, 1, 1)), (102, counted(0.2, 2, 2)))

    assert told[1] == NOTHING
    assert told[2].ratio == pytest.approx(0.1)


def test_two_readings_at_one_time_tell_nothing() -> None:
    assert shares((100, counted(1.0)), (100, counted(2.0)))[-1] == NOTHING


def test_the_mean_is_of_pauses_that_ended() -> None:
    told = shares((100, counted(0.0, 0, 0)), (101, counted(0.2, 100, 4)))

    assert told[-1].mean_seconds == pytest.approx(0.05)


def test_a_pause_that_does_not_end_grows_from_reading_to_reading() -> None:
    told = shares(
        (100, counted(0.0, 0, 0)),
        (101, counted(0.5, 0, 0)),
        (102, counted(1.5, 0, 0)),
        (103, counted(1.7, 0, 1)),
        (104, counted(1.7, 0, 1)),
        (105, counted(1.8, 0, 2)),
    )

    lengths = [share.mean_seconds for share in told[1:]]
    assert lengths == pytest.approx([0.5, 1.5, 1.7, 0.0, 0.1])


def test_a_reset_ends_what_had_not_ended() -> None:
    told = shares(
        (100, counted(0.0, 0, 0)),
        (101, counted(0.9, 0, 0)),
        (102, counted(0.0, 0, 0)),
        (103, counted(0.1, 0, 1)),
    )

    assert told[-1].mean_seconds == pytest.approx(0.1)


def test_where_no_ends_are_counted_there_is_no_mean() -> None:
    assert shares((100, counted(0.0, 0)), (101, counted(0.2, 3)))[-1].mean_seconds is None


@pytest.mark.parametrize(
    ("gigabits", "frames_per_second"), [(40, 1_192), (100, 2_980), (200, 5_961), (400, 11_921)]
)
def test_a_link_is_held_by_so_many_frames(gigabits: int, frames_per_second: int) -> None:
    assert frames_per_second_that_hold(gigabits * BYTES_PER_GIGABIT) == pytest.approx(
        frames_per_second, abs=1
    )


@pytest.mark.parametrize(
    ("frames", "bound"), [(0, 0.0), (298, 0.1), (1490, 0.5), (2980, 1.0), (90_000, 1.0)]
)
def test_frames_alone_bound_the_share(frames: int, bound: float) -> None:
    told = shares((100, counted(None, 1000)), (101, counted(None, 1000 + frames)))[-1]

    assert told.bound_ratio == pytest.approx(bound, abs=1e-3)
    assert told.ratio is None
    assert told.mean_seconds is None


@pytest.mark.parametrize(
    ("before", "now", "rate"),
    [
        pytest.param(counted(None, 5), counted(None, 3), RATE, id="reset"),
        pytest.param(counted(None, 5), counted(None, 9), None, id="speed not known"),
        pytest.param(counted(None, 5), counted(None, 9), 0, id="no speed"),
        pytest.param(counted(None, None, 1), counted(None, None, 2), RATE, id="no frames"),
        pytest.param(counted(None, 5), counted(0.0, 9), RATE, id="time is told now"),
    ],
)
def test_without_frames_or_speed_there_is_no_bound(
    before: PauseCounters, now: PauseCounters, rate: float | None
) -> None:
    assert shares((100, before), (101, now), rate=rate)[-1].bound_ratio is None


def test_where_time_is_told_there_is_no_bound() -> None:
    assert shares((100, counted(0.0, 0)), (101, counted(0.1, 9)))[-1].bound_ratio is None


def test_a_reading_of_the_same_values_is_none_where_the_hardware_writes_by_itself() -> None:
    told = shares(
        (100.0, counted(1.0)),
        (101.0, counted(1.5)),
        (102.0, counted(1.5)),
        (103.0, counted(2.5)),
        is_paced=True,
    )

    assert [share.ratio for share in told] == [None, pytest.approx(0.5), None, pytest.approx(0.5)]


def test_two_writes_in_one_reading_are_no_share_above_one() -> None:
    told = shares(
        (100.0, counted(0.0)), (101.0, counted(1.0)), (102.0, counted(3.0)), is_paced=True
    )

    assert told[-1].ratio == 1.0


@pytest.mark.parametrize("interval_seconds", [0.2, 0.5, 1.0, 1.03])
@pytest.mark.parametrize("period_seconds", [1.0, 1.05])
@pytest.mark.parametrize(("held_periods", "least_ratio"), [(2, 0.65), (5, 0.95)])
def test_whenever_paced_hardware_writes_a_hold_shows(
    interval_seconds: float, period_seconds: float, held_periods: int, least_ratio: float
) -> None:
    """Idle, held from 20 s on for some of its periods, idle again; in forty phases."""
    held_seconds = held_periods * period_seconds

    def total(at_seconds: float, offset_seconds: float) -> float:
        writes = math.floor((at_seconds - offset_seconds) / period_seconds)
        written_seconds = writes * period_seconds + offset_seconds
        return min(max(written_seconds - 20, 0.0), held_seconds)

    times = [interval_seconds * number for number in range(int(40 / interval_seconds))]
    for phase in range(40):
        offset_seconds = phase / 40 * period_seconds
        held = [counted(total(at, offset_seconds)) for at in times]
        told = shares(*zip(times, held, strict=True), is_paced=True)

        assert max(share.ratio or 0.0 for share in told) >= least_ratio, phase


@pytest.mark.parametrize("interval_seconds", [0.2, 0.5, 0.9, 1.0])
def test_short_samples_make_no_short_pause_a_long_one(interval_seconds: float) -> None:
    """Held for 0.2 s of 20."""
    times = [interval_seconds * number for number in range(int(20 / interval_seconds))]
    held = [counted(min(max(at - 10.1, 0.0), 0.2)) for at in times]

    peak = max(share.ratio or 0.0 for share in shares(*zip(times, held, strict=True)))

    assert 0.19 <= peak <= 0.26


def test_what_the_calls_took_is_no_reason_to_drop_a_share() -> None:
    follower = PauseFollower()
    follower.take(counted(0.0), 100.0, RATE)

    assert follower.take(counted(1.2), 101.0, RATE, slack_seconds=0.3).ratio == 1.0
    assert follower.take(counted(2.6), 102.0, RATE, slack_seconds=0.1).ratio is None


def test_values_that_stay_for_long_are_values() -> None:
    told = shares(*((at, counted(1.0)) for at in (100.0, 101.0, 102.0, 103.0)), is_paced=True)

    assert [share.ratio for share in told] == [None, None, None, 0.0]
