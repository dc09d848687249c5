"""Hours of MIG instances and vGPUs, and of the cards that they are cut from."""

import pytest
from support.our_pages import CARD, HOUR, START, card, head, instance, told, workload

from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.readings import Reading
from rightslice.ledger.batch import Batch
from rightslice.ledger.closure import HourSplit, split_hour
from rightslice.ledger.rows import CardHour, SliceHour


def feed(mapper: RightsliceMapper, minute: float, readings: list[Reading]) -> None:
    mapper.feed("t", START + 60 * minute, readings, interval_seconds=60.0, is_whole_page=True)


def rows_after(mapper: RightsliceMapper, minutes: float, hour: int = HOUR) -> Batch:
    return mapper.rows([hour], START + 60 * minutes)


def seconds(row: CardHour | SliceHour) -> dict[str, float]:
    split: HourSplit = split_hour(row)
    names = ("unknown", "unallocated", "busy", "idle", "unmeasured")
    return {name: getattr(split, name) / 1000 for name in names if getattr(split, name)}


def cut_card(watched: float, *parts: list[Reading], held: float | None = None) -> list[Reading]:
    readings = [*head(), *card(watched, held=held, mig="enabled")]
    return [*readings, *(reading for part in parts for reading in part)]


def test_a_cut_card_closes_by_the_units_of_the_instances_that_are_held() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        page = cut_card(
            watched,
            instance("1", "MIG-a", 4, watched, active=watched / 2),
            instance("2", "MIG-b", 2, watched, active=watched),
            workload("a", allocated=watched, instance="1"),
        )
        feed(mapper, minute, page)

    rows = rows_after(mapper, 10)

    assert seconds(rows.cards[0]) == {"unallocated": 300.0, "busy": 150.0, "idle": 150.0}
    assert [seconds(row) for row in rows.slices] == [
        {"busy": 300.0, "idle": 300.0},
        {"unallocated": 600.0},
    ]
    assert [row.slice_uuid for row in rows.workloads] == ["MIG-a"]


def test_a_held_instance_that_nobody_measures_is_unmeasured_beside_one_that_is() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        page = cut_card(
            watched,
            instance("1", "MIG-a", 4, watched, active=watched / 2),
            instance("2", "MIG-b", 2, watched),
            workload("a", allocated=watched, instance="1"),
            workload("b", allocated=watched, instance="2"),
        )
        feed(mapper, minute, page)

    rows = rows_after(mapper, 10)

    assert seconds(rows.cards[0]) == {
        "unallocated": 150.0,
        "busy": 150.0,
        "idle": 150.0,
        "unmeasured": 150.0,
    }
    assert rows.cards[0].quality == ("mig",)


def test_several_containers_hold_an_instance_for_no_longer_than_it_was_watched() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        pods = [workload(pod, allocated=watched, instance="1") for pod in ("a", "b", "c")]
        feed(mapper, minute, cut_card(watched, instance("1", "MIG-a", 8, watched), *pods))

    assert rows_after(mapper, 10).slices[0].allocated_seconds == 600.0


def test_without_a_word_about_holders_the_card_stays_as_it_is_told() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        part = instance("1", "MIG-a", 4, watched, active=watched / 2)
        feed(mapper, minute, cut_card(watched, part, held=watched / 3))

    rows = rows_after(mapper, 10)

    assert seconds(rows.cards[0]) == {"unallocated": 400.0, "unmeasured": 200.0}
    assert seconds(rows.slices[0]) == {"unknown": 600.0}


def test_a_cut_card_that_nobody_holds_is_unallocated_with_all_its_instances() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        part = instance("1", "MIG-a", 4, watched, active=0.0)
        feed(mapper, minute, cut_card(watched, part, held=0.0))

    rows = rows_after(mapper, 10)

    assert seconds(rows.cards[0]) == seconds(rows.slices[0]) == {"unallocated": 600.0}


def test_an_instance_made_anew_with_the_same_id_is_another_slice() -> None:
    mapper = RightsliceMapper()
    for minute in range(61):
        watched, name = 60.0 * minute, "MIG-a" if minute < 30 else "MIG-b"
        page = cut_card(
            watched,
            instance("1", name, 4, watched, active=watched / 2),
            workload("a", allocated=watched, instance="1"),
        )
        feed(mapper, minute, page)

    rows = rows_after(mapper, 60)

    assert [(row.slice_uuid, row.owned_seconds) for row in rows.slices] == [
        ("MIG-a", 1800.0),
        ("MIG-b", 1800.0),
    ]
    # Of the minute in which it was made anew it is not known whose activity is which.
    assert [row.busy_seconds for row in rows.slices] == [870.0, 900.0]
    assert seconds(rows.cards[0])["unallocated"] == 1800.0


def test_an_instance_keeps_its_name_when_its_first_compute_instance_goes() -> None:
    mapper = RightsliceMapper()
    both = [*instance("1", "MIG-a", 4, 0.0), *instance("1", "MIG-b", 4, 0.0)]
    feed(mapper, 0, cut_card(0.0, instance("1", "MIG-b", 4, 0.0)))
    feed(mapper, 1, cut_card(60.0, both))

    assert [row.slice_uuid for row in rows_after(mapper, 2).slices] == ["MIG-b"]


def test_an_instance_without_a_compute_instance_is_named_by_its_place() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, cut_card(0.0, instance("9", "", 1, 0.0, profile="1g.5gb")))

    assert rows_after(mapper, 1).slices[0].slice_uuid == "GPU-1/gi/9/1g.5gb"


def test_an_instance_that_is_gone_owns_no_more_of_the_hour() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, cut_card(0.0, instance("1", "MIG-a", 4, 0.0)))
    feed(
        mapper, 20, [*cut_card(1200.0), told("mig_instances", 0.0, uuid=CARD, state="with_compute")]
    )

    assert [row.owned_seconds for row in rows_after(mapper, 60).slices] == [1200.0]
    assert rows_after(mapper, 120, HOUR + 1).slices == []


def test_a_layout_that_could_not_be_read_ends_no_instance() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, cut_card(0.0, instance("1", "MIG-a", 4, 0.0)))
    feed(mapper, 20, cut_card(1200.0))

    assert [row.owned_seconds for row in rows_after(mapper, 60).slices] == [3600.0]


@pytest.mark.parametrize(
    ("size", "profile", "name", "units", "card_units"),
    [
        pytest.param("4", "3g.20gb", "NVIDIA A100-SXM4-40GB", 4, 8, id="as told"),
        pytest.param("", "3g.20gb", "NVIDIA A100-SXM4-40GB", 4, 8, id="by its profile"),
        pytest.param("4", "2c.3g.20gb", "NVIDIA A100-SXM4-40GB", 4, 8, id="a compute instance"),
        pytest.param("2", "2g.12gb", "NVIDIA A30", 2, 4, id="four units"),
    ],
)
def test_units_are_told_or_follow_from_the_profile(
    size: str, profile: str, name: str, units: int, card_units: int
) -> None:
    mapper = RightsliceMapper()
    part = instance("1", "MIG-a", size, 0.0, profile=profile)
    feed(mapper, 0, [*head(), *card(0.0, mig="enabled", name=name), *part])

    (row,) = rows_after(mapper, 1).slices

    assert (row.units, row.card_units, row.profile) == (
        units,
        card_units,
        profile.removeprefix("2c."),
    )


def test_units_of_a_card_that_is_not_known_are_those_that_are_free_and_taken() -> None:
    mapper = RightsliceMapper()
    part = instance("1", "MIG-a", 4, 0.0)
    free = told("mig_free_memory_slices", 8.0, uuid=CARD)
    feed(mapper, 0, [*head(), *card(0.0, mig="enabled", name="NVIDIA X1"), *part, free])

    assert rows_after(mapper, 1).slices[0].card_units == 12


def test_a_slice_of_unknown_share_has_no_row_and_its_card_stays_whole() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        watched = 60.0 * minute
        part = instance("1", "MIG-a", "", watched, active=watched)
        whole = card(watched, mig="enabled", name="NVIDIA X1")
        feed(
            mapper,
            minute,
            [*head(), *whole, *part, *workload("a", allocated=watched, instance="1")],
        )

    rows = rows_after(mapper, 10)

    assert rows.slices == []
    assert seconds(rows.cards[0]) == {"unmeasured": 600.0}


def test_vgpus_are_one_of_as_many_as_fit_and_held_by_their_machines() -> None:
    mapper = RightsliceMapper()
    vgpu = {"uuid": CARD, "vgpu_uuid": "V-1", "type": "A100D-20C"}
    machine = {
        "uuid": CARD,
        "gpu_instance_id": "",
        "workload_kind": "vm",
        "namespace": "",
        "pod": "VM-1",
        "container": "V-1",
    }
    for minute in range(11):
        watched = 60.0 * minute
        page = [
            *head(),
            *card(watched, busy=watched / 3),
            told("vgpu_instance_info", 1.0, **vgpu),
            told("vgpu_share_ratio", 1 / 3, **vgpu),
            told("vgpu_memory_total_bytes", 20e9, **vgpu),
            told("vgpu_memory_used_bytes", 5e9 + minute, **vgpu),
            told("workload_info", 1.0, **machine),
            told("workload_allocated_seconds_total", watched, **machine),
            told("workload_observed_seconds_total", watched, **machine, signal="busy"),
            told("workload_busy_seconds_total", watched / 4, **machine),
        ]
        feed(mapper, minute, page)

    rows = rows_after(mapper, 10)
    (row,) = rows.slices

    assert (row.kind, row.units, row.card_units) == ("vgpu", 1, 3)
    assert seconds(row) == {"busy": 150.0, "idle": 450.0}
    assert row.memory_used_peak_bytes == 5_000_000_010
    assert seconds(rows.cards[0]) == {"busy": 200.0, "idle": 400.0}
    assert [each.slice_uuid for each in rows.workloads] == ["V-1"]


def test_a_card_that_was_whole_for_half_of_the_hour_keeps_what_it_did_then() -> None:
    mapper = RightsliceMapper()
    for minute in range(31):
        watched = 60.0 * minute
        feed(mapper, minute, [*head(), *card(watched, busy=watched / 2)])
    for minute in range(31, 61):
        watched = 60.0 * minute
        page = [
            *head(),
            *card(watched, mig="enabled"),
            *instance("1", "MIG-a", 4, watched, active=60.0 * (minute - 31)),
            *workload("a", allocated=watched - 1860, instance="1"),
        ]
        feed(mapper, minute, page)

    closed = seconds(rows_after(mapper, 60).cards[0])

    # A minute passes until the instance is known; then it holds half of 29 minutes.
    assert closed == pytest.approx(
        {"unallocated": 870.0, "busy": 900.0 + 870.0, "idle": 900.0, "unmeasured": 60.0}, abs=0.01
    )
