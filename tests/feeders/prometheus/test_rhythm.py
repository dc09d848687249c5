"""When a target was read around the edges of hours, and which hours edges do not tell."""

from collections.abc import Sequence

import numpy as np
import pytest

from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.rhythm import Rhythm, rhythms, take_after

NAMES = ("instance",)
KEY = ("a",)
EDGE = 491_000
HOUR = 3600.0


def series(offsets: Sequence[float], values: Sequence[float], **labels: str) -> Samples:
    stamps = EDGE * HOUR + np.array(offsets, dtype=float)
    return Samples({"instance": "a", **labels}, stamps, np.array(values, dtype=float))


def rhythm_of(phase_seconds: float, interval_seconds: float = 60.0, hours: int = 3) -> Rhythm:
    """A target that is read `phase_seconds` after each edge, and each interval from there on."""
    ends = [HOUR * number for number in range(hours + 1)]
    counts = series(ends[1:], [HOUR / interval_seconds] * hours)
    before = series(ends, [EDGE * HOUR + end + phase_seconds - interval_seconds for end in ends])
    (found,) = rhythms(NAMES, [KEY], [counts], [before])
    window = found.window_seconds
    after = series(
        [end + window for end in ends], [EDGE * HOUR + end + phase_seconds for end in ends]
    )
    take_after(found, NAMES, [after])
    return found


@pytest.mark.parametrize("interval_seconds", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("phase_ratio", [0.001, 0.3, 0.5, 0.7, 1.0])
def test_the_window_holds_one_reading_whenever_in_the_interval_it_comes(
    phase_ratio: float, interval_seconds: float
) -> None:
    phase_seconds = phase_ratio * interval_seconds

    found = rhythm_of(phase_seconds, interval_seconds)

    assert phase_seconds + 0.1 * interval_seconds < found.window_seconds
    assert found.window_seconds < phase_seconds + 0.9 * interval_seconds


def test_a_steady_target_has_no_uneven_hours() -> None:
    found = rhythm_of(7.0)

    found.note_gaps(range(EDGE, EDGE + 3))

    assert found.interval_seconds == 60.0
    assert found.uneven_hours == set()


def test_an_hour_that_misses_scrapes_is_uneven() -> None:
    found = rhythm_of(7.0)
    found.counts = {**found.counts, EDGE + 1: 57.0}

    found.note_gaps(range(EDGE, EDGE + 3))

    assert found.uneven_hours == {EDGE + 1}


def test_a_reading_that_came_late_makes_both_hours_of_its_edge_uneven() -> None:
    found = rhythm_of(7.0)
    found.after = {**found.after, EDGE + 1: found.after[EDGE + 1] + 40}

    found.note_gaps(range(EDGE, EDGE + 3))

    assert found.uneven_hours == {EDGE, EDGE + 1}


def test_an_hour_without_a_target_is_not_uneven_and_those_where_it_comes_and_goes_are() -> None:
    found = rhythm_of(7.0, hours=5)
    found.counts = {EDGE + 1: 31.0, EDGE + 2: 60.0, EDGE + 3: 12.0}
    found.before = {edge: at for edge, at in found.before.items() if EDGE + 2 <= edge <= EDGE + 3}

    found.note_gaps(range(EDGE, EDGE + 5))

    assert found.uneven_hours == {EDGE + 1, EDGE + 3}


def test_two_versions_of_an_exporter_are_one_stream() -> None:
    old, new = series([HOUR], [20], version="1"), series([HOUR], [40], version="2")

    (found,) = rhythms(NAMES, [KEY], [old, new], [])

    assert found.counts == {EDGE: 60.0}
