"""Minutes of many readings at once are those of the readings one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.contract.sampling import MEAN_SECONDS, SpanMean
from rightslice.feeders.gauges.minute_means import MinuteMeans

readings = st.lists(
    st.tuples(st.sampled_from([5.0, 10.0, 15.0, 30.0, 100.0]), st.floats(0, 1)), max_size=80
)


@given(readings, st.integers(0, 80))
def test_minutes_are_those_that_the_exporter_would_form(
    told: list[tuple[float, float]], cut: int
) -> None:
    waits = np.array([wait for wait, _ in told])
    stamps, values = 1e6 + np.cumsum(waits), np.array([value for _, value in told])
    covered = np.minimum(waits, 30.0)
    one_by_one, means = SpanMean(MEAN_SECONDS), MinuteMeans()
    wanted = [
        finished
        for stamp, value, seconds in zip(stamps, values, covered, strict=True)
        if (finished := one_by_one.add(stamp, value, seconds)) is not None
    ]

    found = []
    for piece in (slice(None, cut), slice(cut, None)):
        owner = np.zeros(len(stamps[piece]), dtype=np.int64)
        _, ends, mean = means.add(["GPU-1"], owner, stamps[piece], values[piece], covered[piece])
        found += list(zip(ends, mean, strict=True))

    assert found == [(one.end_seconds, pytest.approx(one.mean)) for one in wanted]


def test_the_minutes_of_things_are_kept_apart() -> None:
    stamps = 60.0 * 1000 + np.array([15.0, 30, 45, 60, 75] * 2)
    owner = np.array([0] * 5 + [1] * 5)
    values = np.array([0.2] * 5 + [0.4] * 5)

    told_owner, ends, mean = MinuteMeans().add(["a", "b"], owner, stamps, values, np.full(10, 15.0))

    assert told_owner.tolist() == [0, 1]
    assert ends.tolist() == [60_060.0, 60_060.0]
    assert mean.tolist() == pytest.approx([0.2, 0.4])
