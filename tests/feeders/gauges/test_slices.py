"""MIG instances in gauges become hours of slices, and close their card by their units."""

from collections.abc import Mapping

import pytest
from support.intervals import every

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.readings import Reading
from rightslice.ledger.closure import split_hour
from rightslice.ledger.rows import KIND_MIG, SliceHour

START = 1_000 * 3600.0
HOUR = 1_000
MIB = 1024**2
USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
SM = "DCGM_FI_PROF_SM_ACTIVE"


def part(number: int, profile: str = "1g.6gb", **more: str) -> dict[str, str]:
    return {
        "UUID": "GPU-1",
        "Hostname": "node-1",
        "modelName": "NVIDIA A30",
        "GPU_I_ID": str(number),
        "GPU_I_PROFILE": profile,
        **more,
    }


def told(labels: Mapping[str, str], used: float = 3.0, active: float = 0.0) -> list[Reading]:
    rows = ((USED, used), (FREE, 6012.0), (SM, active))
    return [Reading(name, labels, value) for name, value in rows]


POD = {"pod": "p", "namespace": "n", "container": "c"}


def fed(*pages: list[Reading]) -> GaugeMapper:
    """Feed pages a minute apart, from the hour's first second on."""
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for number, page in enumerate(pages):
        mapper.feed(START + 60 * number, page, every(60.0))
    return mapper


def slices(mapper: GaugeMapper, minutes: int = 60) -> dict[str, SliceHour]:
    _, rows, _ = mapper.hours([HOUR], START + 60 * minutes)
    return {row.gpu_instance_id: row for row in rows}


def test_an_instance_has_its_own_memory_activity_and_holder() -> None:
    page = told(part(3, **POD), 2000.0, 0.5) + told(part(4))

    rows = slices(fed(*[page] * 61))

    assert (rows["3"].kind, rows["3"].units, rows["3"].card_units) == (KIND_MIG, 1, 4)
    assert rows["3"].slice_uuid == "GPU-1/gi/3/1g.6gb"
    assert (rows["3"].owned_seconds, rows["3"].observed_seconds) == (3600.0, 3600.0)
    assert (rows["3"].allocated_seconds, rows["4"].allocated_seconds) == (3600.0, 0.0)
    assert (rows["3"].busy_observed_seconds, rows["3"].busy_seconds) == (3600.0, 1800.0)
    assert rows["3"].memory_used_peak_bytes == 2000 * MIB
    assert rows["3"].memory_total_bytes == (2000 + 6012) * MIB
    assert rows["3"].sm_active_interval_seconds == 60.0
    assert sum(rows["3"].sm_active_bins or ()) == 60.0
    assert rows["4"].unrequested_busy_seconds == 0.0


def test_the_card_is_held_by_the_units_of_its_held_instances() -> None:
    page = told(part(3, **POD), 2000.0, 0.5) + told(part(4))

    (card,), _, workloads = fed(*[page] * 61).hours([HOUR], START + 3600)

    split = split_hour(card)
    assert card.allocated_seconds == pytest.approx(900.0)
    assert (split.busy, split.idle, split.unallocated) == (450_000, 450_000, 2_700_000)
    assert split.unmeasured == 0
    assert [(one.pod, one.slice_uuid, one.allocated_seconds) for one in workloads] == [
        ("p", "GPU-1/gi/3/1g.6gb", 3600.0)
    ]


def test_an_instance_owns_the_time_in_which_it_was_there() -> None:
    both, one = told(part(3)) + told(part(4)), told(part(3))

    rows = slices(fed(*[one] * 10, *[both] * 20, *[one] * 31))

    assert rows["4"].owned_seconds == 20 * 60.0
    assert rows["4"].observed_seconds == 19 * 60.0
    assert rows["3"].owned_seconds == 3600.0


def test_an_instance_that_was_missed_once_was_not_observed_meanwhile() -> None:
    both, one = told(part(3)) + told(part(4)), told(part(3))

    rows = slices(fed(*[both] * 30, one, *[both] * 30))

    assert rows["4"].observed_seconds <= rows["4"].owned_seconds


def test_while_the_holder_of_an_instance_is_unknown_so_is_the_cards() -> None:
    page = told(part(3, **POD)) + told(part(4), used=3000.0)

    (card,), _, _ = fed(*[page] * 61).hours([HOUR], START + 3600)

    assert card.allocation_observed_seconds == 0.0


def test_instances_whose_share_is_not_known_leave_the_card_to_its_pods() -> None:
    labels = part(3, "9g.unknown", **POD)

    (card,), rows, workloads = fed(*[told(labels)] * 61).hours([HOUR], START + 3600)

    assert rows == []
    assert card.allocated_seconds == 3600.0
    assert [(one.pod, one.slice_uuid) for one in workloads] == [("p", "")]
    assert split_hour(card).unmeasured == 3_600_000


def test_a_restart_goes_on_where_it_was() -> None:
    page = told(part(3, **POD), 2000.0, 0.5)
    whole, first = fed(*[page] * 61), fed(*[page] * 31)
    second = GaugeMapper(shipped_mapping("dcgm"))

    second.restore(first.state())
    for number in range(31, 61):
        second.feed(START + 60 * number, page, every(60.0))

    assert slices(second) == slices(whole)


def test_a_clock_that_was_set_back_takes_back_what_came_after() -> None:
    page = told(part(3, **POD), 2000.0, 0.5)
    mapper = fed(*[page] * 121)

    mapper.start_over(START + 1800)

    assert [hour for hour in mapper.slices.table.hours if hour > HOUR] == []
    assert max(mapper.table.hours) == HOUR


def test_a_card_that_left_takes_its_instances_along() -> None:
    mapper = fed(told(part(3)), told(part(3)))
    other = [Reading(USED, {"UUID": "GPU-2"}, 5.0)]

    mapper.feed(START + 3 * 86_400, other, every(60.0))
    mapper.forget_departed(START + 3 * 86_400)

    assert list(mapper.table.first_seen) == ["GPU-2"]
    assert mapper.slices.layout.known == {}
