"""One card's hour while it is being told."""

import json

import pytest

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.hours.card_builder import STATE_FIELDS, CardHourBuilder


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        pytest.param({}, ("", None), id="nobody tells"),
        pytest.param({"hw_thermal": 0.0, "sw_thermal": 0.0}, ("", 0.0), id="none held"),
        pytest.param({"hw_thermal": 5.0, "sw_power_cap": 9.0}, ("sw_power_cap", 9.0), id="two"),
        pytest.param({"sw_thermal": 5.0, "hw_thermal": 5.0}, ("hw_thermal", 5.0), id="equals"),
    ],
)
def test_throttling_is_that_of_the_reason_that_held_longest(
    reasons: dict[str, float], told: tuple[str, float | None]
) -> None:
    builder = CardHourBuilder()
    for reason, seconds in reasons.items():
        builder.add(f"throttled_seconds/{reason}", seconds)

    row = builder.row("GPU-1", 1_000, "rightslice", 3600.0)

    assert (row.throttle_reason, row.throttled_seconds) == told


def test_what_nobody_told_is_none_and_what_was_told_as_0_is_0() -> None:
    builder = CardHourBuilder()
    builder.add("xid_count", 0.0)

    row = builder.row("GPU-1", 1_000, "rightslice", 3600.0)

    assert (row.xid_count, row.ecc_uncorrected_count, row.energy_joules) == (0, None, None)


def test_an_hour_survives_json() -> None:
    builder = CardHourBuilder(observed_seconds=5.0, quality=["mig"], workloads={"a": 1.0})
    builder.add("throttled_seconds/hw_thermal", 3.0)
    builder.add_to_bin("busy_bins", BIN_COUNT - 1, 2.0)

    told = json.loads(json.dumps([STATE_FIELDS, builder.state()]))

    assert CardHourBuilder.restored(*told) == builder


def test_a_field_that_is_no_more_is_left_out() -> None:
    assert CardHourBuilder.restored(["was"], [5.0]) == CardHourBuilder()
