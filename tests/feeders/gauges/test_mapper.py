"""dcgm-exporter's gauges, in all the shapes in which they arrive."""

from collections.abc import Mapping

import pytest
from support.intervals import every

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.hours.card_builder import CardHourBuilder
from rightslice.feeders.readings import Reading

START = 1_000 * 3600.0
HOUR = 1_000
USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
UTIL, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"
GR_ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def card(**more: str) -> dict[str, str]:
    return {"UUID": "GPU-1", "Hostname": "node-1", "modelName": "NVIDIA A30", **more}


def reading(name: str, value: float, labels: Mapping[str, str] | None = None) -> Reading:
    return Reading(name, labels if labels is not None else card(), value)


def fed(*readings: Reading, interval: float = 60.0, scrapes: int = 2) -> CardHourBuilder:
    """Feed the same page at even intervals; gives the first hour of GPU-1."""
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for number in range(scrapes):
        mapper.feed(START + 60 + number * interval, readings, every(interval))
    return mapper.table.card("GPU-1", HOUR)


def test_the_first_scrape_covers_no_time() -> None:
    hour = fed(reading(USED, 100), reading(FREE, 900), scrapes=1)

    assert hour.observed_seconds == 0.0


def test_a_reading_stands_for_the_time_since_the_one_before() -> None:
    hour = fed(reading(USED, 100), reading(FREE, 900), scrapes=11)

    assert hour.observed_seconds == 600.0
    assert hour.memory_total_bytes == 1000 * 1024**2
    assert hour.memory_used_peak_bytes == 100 * 1024**2


def test_a_gap_beyond_two_intervals_is_not_bridged() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    mapper.feed(START + 60, [reading(USED, 100)], every(60.0))
    mapper.feed(START + 1860, [reading(USED, 100)], every(60.0))

    assert mapper.table.card("GPU-1", HOUR).observed_seconds == 120.0


def test_a_scrape_that_is_not_newer_counts_once() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for _ in range(3):
        mapper.feed(START + 60, [reading(USED, 100)], every(60.0))
        mapper.feed(START + 120, [reading(USED, 100)], every(60.0))

    assert mapper.table.card("GPU-1", HOUR).observed_seconds == 60.0


def test_the_size_of_a_card_is_unknown_without_its_free_memory() -> None:
    assert fed(reading(USED, 100)).memory_total_bytes is None


def test_the_engines_counter_is_believed_over_the_gauge() -> None:
    hour = fed(reading(UTIL, 90), reading(GR_ENGINE, 0.5))

    assert hour.busy_seconds == 30.0
    assert hour.busy_signal == "gr_engine_active"


def test_the_gauge_serves_where_it_is_alone() -> None:
    hour = fed(reading(UTIL, 90))

    assert hour.busy_seconds == 54.0
    assert hour.busy_signal == "busy"


def test_without_a_utilisation_reading_busy_is_not_observed() -> None:
    assert fed(reading(USED, 100)).busy_observed_seconds == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(UTIL, 4294967295.0, id="utilisation of billions of percent"),
        pytest.param(UTIL, 101.0, id="utilisation above 100"),
        pytest.param(SM, 140737488355328.0, id="blank double"),
        pytest.param(USED, 2147483632.0, id="blank 32 bit"),
        pytest.param(USED, 2147483635.0, id="no permission 32 bit"),
        pytest.param(USED, 9223372036854775794.0, id="not supported 64 bit"),
        pytest.param(SM, float("nan"), id="NaN"),
        pytest.param(SM, -0.1, id="below zero"),
        pytest.param(SM, 1.5, id="ratio above 1"),
    ],
)
def test_what_is_no_value_is_counted_and_never_used(name: str, value: float) -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))

    mapper.feed(START + 60, [reading(name, value)], every(60.0))
    mapper.feed(START + 120, [reading(name, value)], every(60.0))

    assert mapper.rejected_count == 2
    assert mapper.table.hours == {}


def test_zero_is_a_value() -> None:
    hour = fed(reading(USED, 0), reading(FREE, 1000))

    assert hour.observed_seconds == 60.0
    assert hour.memory_used_peak_bytes == 0.0


def test_copies_for_sharing_pods_are_one_card_with_several_holders() -> None:
    labels = [card(pod=f"p{n}", namespace="a", container="c") for n in range(3)]

    hour = fed(*(reading(GR_ENGINE, 0.714, one) for one in labels))

    assert hour.busy_seconds == pytest.approx(0.714 * 60)
    assert len(hour.workloads) == 3


def test_the_exporters_own_pod_is_never_a_workload() -> None:
    labels = card(
        pod="dcgm-exporter-x",
        namespace="monitoring",
        container="exporter",
        exported_pod="p1",
        exported_namespace="default",
        exported_container="app",
    )

    hour = fed(reading(USED, 100, labels))

    assert list(hour.workloads) == ["pod\0default\0p1\0app"]


def test_a_free_card_of_a_target_with_exported_labels_does_not_belong_to_the_exporter() -> None:
    held = card(UUID="GPU-2", pod="x", container="agent", exported_pod="p1", instance="n1:9400")
    free = card(pod="x", namespace="monitoring", container="agent", instance="n1:9400")

    hour = fed(reading(USED, 100, held), reading(USED, 4, free))

    assert hour.allocated_seconds == 0.0
    assert hour.workloads == {}


def test_exported_labels_of_one_target_hide_no_plain_pod_of_another() -> None:
    exported = card(UUID="GPU-2", pod="x", exported_pod="p1", instance="n1:9400")
    plain = card(pod="train-0", namespace="ml", container="c", instance="n2:9400")

    hour = fed(reading(USED, 100, exported), reading(USED, 100, plain))

    assert list(hour.workloads) == ["pod\0ml\0train-0\0c"]


def test_lower_case_names_and_old_labels_are_the_same_fields() -> None:
    labels = {"uuid": "GPU-1", "modelName": "x", "pod_name": "p", "pod_namespace": "n"}

    hour = fed(reading("dcgm_fi_prof_gr_engine_active", 0.5, labels))

    assert hour.busy_seconds == 30.0
    assert list(hour.workloads) == ["pod\0n\0p\0"]


def test_memory_of_instances_sums_to_the_card_and_their_activity_does_not() -> None:
    rows = [card(GPU_I_ID=str(number), GPU_I_PROFILE="1g.6gb") for number in (3, 4, 5, 6)]
    readings = [reading(USED, 3, row) for row in rows] + [reading(FREE, 6012, row) for row in rows]
    readings += [reading(GR_ENGINE, 0.9, row) for row in rows]

    hour = fed(*readings)

    assert hour.memory_used_peak_bytes == 12 * 1024**2
    assert hour.memory_total_bytes == (12 + 24048) * 1024**2
    assert hour.busy_observed_seconds == 0.0


@pytest.mark.parametrize(
    ("used", "held_seconds"), [pytest.param(4, 0.0, id="free"), pytest.param(500, 60.0, id="held")]
)
def test_without_an_orchestrator_memory_tells_whether_a_card_is_held(
    used: float, held_seconds: float
) -> None:
    hour = fed(reading(USED, used))

    assert hour.allocation_observed_seconds == 60.0
    assert hour.allocated_seconds == held_seconds


@pytest.mark.parametrize(
    ("used", "util", "watched_seconds"),
    [
        pytest.param(4, 0, 60.0, id="looks free: it is"),
        pytest.param(30000, 0, 0.0, id="memory in use: by somebody who is not named"),
        pytest.param(4, 50, 0.0, id="at work: for somebody who is not named"),
    ],
)
def test_on_a_node_that_names_pods_a_card_without_one_is_free_only_if_it_looks_free(
    used: float, util: float, watched_seconds: float
) -> None:
    other = card(UUID="GPU-2", pod="p", namespace="n", container="c")

    hour = fed(reading(USED, used), reading(UTIL, util), reading(USED, 500, other))

    assert hour.allocated_seconds == 0.0
    assert hour.allocation_observed_seconds == watched_seconds


def test_a_node_without_a_name_says_nothing_of_other_cards() -> None:
    nameless = {"UUID": "GPU-2", "pod": "p", "namespace": "n", "container": "c"}

    hour = fed(reading(USED, 500, {"UUID": "GPU-1"}), reading(USED, 500, nameless))

    assert hour.allocated_seconds == 60.0


def test_a_counter_that_hangs_at_zero_beside_a_busy_card_is_no_reading() -> None:
    hour = fed(reading(SM, 0.0), reading(UTIL, 97))

    assert hour.sm_active_bins == []
    assert hour.quality == ["stuck_counter"]


def test_zero_activity_of_an_idle_card_is_a_reading() -> None:
    hour = fed(reading(SM, 0.0), reading(UTIL, 0))

    assert sum(hour.sm_active_bins) == 1.0
    assert hour.quality == []


def test_a_card_with_instances_is_marked_as_cut() -> None:
    assert fed(reading(USED, 3, card(GPU_I_ID="3"))).quality == ["mig"]


def test_each_card_has_an_interval_of_its_own() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    slow = card(UUID="GPU-2")
    for number in range(13):
        readings = [reading(USED, 5)] + [reading(USED, 5, slow)] * (number % 4 == 0)
        mapper.feed(START + 15 * number, readings, {"GPU-1": 15.0, "GPU-2": 60.0}.__getitem__)

    observed = [mapper.table.card(uuid, HOUR).observed_seconds for uuid in ("GPU-1", "GPU-2")]

    assert observed == [180.0, 180.0]


def test_what_one_node_tells_of_pods_says_nothing_of_another_node() -> None:
    other = card(UUID="GPU-2", Hostname="node-2", pod="p", namespace="n", container="c")

    hour = fed(reading(USED, 500), reading(USED, 500, other))

    assert hour.allocated_seconds == 60.0


def test_readings_of_less_than_a_minute_are_averaged_over_wall_clock_minutes() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for number in range(13):
        value = 0.0 if number % 2 else 0.4
        mapper.feed(START + number * 15, [reading(SM, value)], every(15.0))

    hour = mapper.table.card("GPU-1", HOUR)

    assert sum(hour.sm_active_bins) == 2.0
    assert hour.sm_active_bins[12] == 2.0  # 0.2
    assert hour.sm_active_interval_seconds == 60.0


def test_a_minute_with_a_gap_is_dropped() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for second in (0, 15, 75, 90, 105, 120, 135):
        mapper.feed(START + second, [reading(SM, 0.2)], every(15.0))

    hour = mapper.table.card("GPU-1", HOUR)

    assert sum(hour.sm_active_bins) == 1.0


def test_readings_of_a_minute_and_more_stand_for_themselves() -> None:
    hour = fed(reading(SM, 0.041), interval=120.0, scrapes=6)

    assert hour.sm_active_bins[3] == 5.0
    assert hour.sm_active_interval_seconds == 120.0


def test_an_opaque_uuid_is_kept() -> None:
    mapper = GaugeMapper(shipped_mapping("dcgm"))

    mapper.feed(START, [reading(USED, 5, card(UUID="GPU-dfgfdg5"))], every(60.0))

    assert list(mapper.table.first_seen) == ["GPU-dfgfdg5"]
