"""Hours while they are being told."""

import json

import pytest

from rightslice.feeders.hours.builder import HourTable, age_together, workload_key
from rightslice.feeders.hours.card_names import named_anew

START = 1_000 * 3600.0


def table() -> HourTable:
    made = HourTable("dcgm")
    made.see("GPU-1", START, "node-1", "NVIDIA A30")
    return made


def test_a_card_owns_an_hour_from_its_arrival_on() -> None:
    made = HourTable("dcgm")
    made.see("GPU-1", START + 900, "node-1", "NVIDIA A30")

    (row,) = made.card_hours([1_000], START + 3600)

    assert row.owned_seconds == 2700.0


def test_an_hour_that_is_not_over_is_owned_as_far_as_it_has_come() -> None:
    (row,) = table().card_hours([1_000], START + 600)

    assert row.owned_seconds == 600.0


def test_an_hour_without_any_reading_is_a_row_without_observed_time() -> None:
    rows = table().card_hours([1_000, 1_001], START + 7200)

    assert [row.observed_seconds for row in rows] == [0.0, 0.0]


def test_a_card_unseen_for_a_day_while_others_were_seen_has_left() -> None:
    made = table()
    made.see("GPU-2", START + 100 * 3600, "node-1", "NVIDIA A30")

    rows = made.card_hours(range(1_000, 1_100), START + 100 * 3600)

    assert [row.uuid for row in rows] == ["GPU-1"] * 24
    assert made.forget_departed(START + 100 * 3600) == {"GPU-1"}


def test_while_nothing_at_all_was_read_no_card_has_left() -> None:
    made = table()
    made.see("GPU-1", START + 99 * 3600, "node-1", "NVIDIA A30")

    rows = made.card_hours(range(1_000, 1_100), START + 100 * 3600)

    assert sum(row.owned_seconds for row in rows) == 100 * 3600


def test_a_name_that_is_not_told_again_is_kept() -> None:
    made = table()
    made.see("GPU-1", START + 60, "", "")

    assert made.names["GPU-1"][:2] == ("node-1", "NVIDIA A30")


def test_a_card_that_comes_back_owns_no_hour_of_its_absence() -> None:
    made = table()
    made.see("GPU-2", START + 50 * 3600, "node-1", "NVIDIA A30")
    made.see("GPU-1", START + 50 * 3600 + 1800, "node-2", "NVIDIA A30")

    rows = made.card_hours([1_030, 1_050], START + 51 * 3600)

    assert [row.owned_seconds for row in rows if row.uuid == "GPU-1"] == [1800.0]


def test_a_clock_that_runs_ahead_a_little_gives_its_excess_to_the_next_hour() -> None:
    made = table()
    made.card("GPU-1", 1_000).observed_seconds = 3601.5

    made.carry(1_000)

    assert made.card("GPU-1", 1_000).observed_seconds == 3600.0
    assert made.card("GPU-1", 1_001).observed_seconds == pytest.approx(1.5)


def test_a_larger_excess_is_cut_and_said() -> None:
    made = table()
    made.card("GPU-1", 1_000).busy_seconds = 4000.0

    made.carry(1_000)

    assert made.card("GPU-1", 1_000).busy_seconds == 3600.0
    assert made.card("GPU-1", 1_000).quality == ["clamped"]
    assert made.card("GPU-1", 1_001).busy_seconds == 0.0


def test_state_survives_json() -> None:
    made = table()
    made.card("GPU-1", 1_000).add_to_bin("memory_bins", 3, 5.0)
    made.card("GPU-1", 1_000).workloads[workload_key("pod", "a", "b", "c")] = 7.0

    again = HourTable("dcgm")
    again.restore(json.loads(json.dumps(made.state())))

    assert again == made


def test_a_workloads_parts_come_out_as_they_went_in() -> None:
    made = table()
    key = workload_key("pod", "team a", "p/1", "c\0d")
    made.card("GPU-1", 1_000).workloads[key] = 7.0

    (row,) = made.workload_hours([1_000])

    assert (row.namespace, row.pod, row.container) == ("team a", "p/1", "cd")


def test_only_what_was_told_anew_is_written_again() -> None:
    made = table()
    made.see("GPU-2", START, "node-1", "NVIDIA A30")
    made.written()
    made.card("GPU-2", 1_000).observed_seconds = 5.0

    rows = made.card_hours([1_000], START + 3600, changed_only=True)

    assert [row.uuid for row in rows] == ["GPU-2"]
    assert named_anew([made]) == []


def test_a_card_that_moved_is_named_anew_from_that_hour_on() -> None:
    made = table()
    made.written()
    made.see("GPU-1", START + 7300, "node-2", "", slot="00000000:07:00.0")

    (row,) = named_anew([made])

    assert (row.node, row.name, row.slot) == ("node-2", "NVIDIA A30", "00000000:07:00.0")
    assert row.since.timestamp() == START + 7200


def test_what_an_older_version_remembered_is_left_alone() -> None:
    again = HourTable("dcgm")

    again.restore({"hours": {"1000": {"GPU-1": {"observed_seconds": 5.0}}}})

    assert again == HourTable("dcgm")


def test_cards_leave_a_source_that_was_switched_off() -> None:
    off, on = table(), HourTable("rightslice")
    on.see("GPU-1", START, "node-1", "NVIDIA A30")
    on.see("GPU-1", START + 40 * 3600, "node-1", "NVIDIA A30")

    age_together([off, on])

    assert [row.owned_seconds for row in off.card_hours([1_023, 1_030], START + 40 * 3600)] == [
        3600.0
    ]
