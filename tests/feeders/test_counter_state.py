"""Counters' last values as they are written each minute."""

import json

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.counter_state import dense, restore_targets, sparse, targets_state
from rightslice.feeders.counters import Target

BINS = (0.0, 3.0, *[0.0] * (BIN_COUNT - 3), 2.5)


def written(targets: dict[str, Target]) -> dict[str, Target]:
    return restore_targets(json.loads(json.dumps(targets_state(targets))))


def test_values_survive_with_the_time_at_which_they_were_read() -> None:
    target = Target(
        1060.0,
        5.0,
        {("a", "GPU-1", "memory"): (1060.0, 7.5), ("b", "GPU-1"): (1000.0, 3.0)},
        {("c_bucket", "GPU-1", ""): (1060.0, BINS), ("c_bucket", "GPU-2", ""): (940.0, BINS)},
    )

    assert written({"t": target}) == {"t": target}


def test_a_series_that_comes_or_goes_is_written_with_the_next_state() -> None:
    target = Target(1060.0, 5.0, {("a", "x"): (1060.0, 1.0), ("b", "x"): (1060.0, 2.0)})
    written({"t": target})
    del target.values["a", "x"]
    target.values["c", "x"] = (1060.0, 3.0)

    assert written({"t": target})["t"].values == target.values


def test_a_target_without_a_page_survives() -> None:
    assert written({"t": Target()}) == {"t": Target()}


def test_empty_bins_are_left_out() -> None:
    assert sparse(BINS) == [1, BIN_COUNT - 1, 3.0, 2.5]
    assert dense(sparse(BINS)) == BINS
