"""Our own exporter's series."""

import json

import pytest

from rightslice.contract.histogram import RATIO_EDGES, bin_index
from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.readings import Reading

START = 1_000 * 3600.0
HOUR = 1_000
INFO = {"uuid": "GPU-1", "name": "NVIDIA A30"}


def page(
    seconds: float, *, start: float = START - 5000, peak: float = 7.0, minutes_at: float = 0.04
) -> list[Reading]:
    """An exporter that has watched a busy card for some seconds."""
    minutes = seconds // 60
    buckets = [
        Reading(
            "rightslice_gpu_busy_ratio_bucket",
            {"uuid": "GPU-1", "le": edge},
            minutes if edge == "+Inf" or minutes_at <= float(edge) else 0.0,
        )
        for edge in (*map(repr, RATIO_EDGES), "+Inf")
    ]
    return [
        Reading("process_start_time_seconds", {}, start),
        Reading("rightslice_node_info", {"node": "node-1"}, 1.0),
        Reading("rightslice_gpu_info", INFO, 1.0),
        Reading("rightslice_signal_interval_seconds", {"signal": "compute"}, 60.0),
        Reading(
            "rightslice_gpu_observed_seconds_total", {"uuid": "GPU-1", "signal": "busy"}, seconds
        ),
        Reading("rightslice_gpu_busy_seconds_total", {"uuid": "GPU-1"}, seconds / 2),
        Reading("rightslice_gpu_memory_total_bytes", {"uuid": "GPU-1"}, 1000.0),
        Reading("rightslice_gpu_memory_used_peak_bytes", {"uuid": "GPU-1"}, peak),
        *buckets,
    ]


def test_hours_telescope_whatever_the_scrapes_fall_on() -> None:
    mapper = RightsliceMapper()
    for offset in range(0, 7201, 45):
        mapper.feed("t", START + 10 + offset, page(100.0 + offset))

    hours = [mapper.table.card("GPU-1", HOUR + number) for number in range(3)]

    assert [hour.busy_observed_seconds for hour in hours] == pytest.approx([3590, 3600, 10])
    assert sum(hour.busy_seconds for hour in hours) == pytest.approx(3600)


def test_cumulative_buckets_become_bins() -> None:
    mapper = RightsliceMapper()
    mapper.feed("t", START + 60, page(600.0))
    mapper.feed("t", START + 660, page(1200.0))

    bins = mapper.table.card("GPU-1", HOUR).busy_bins

    assert bins[bin_index(0.04)] == pytest.approx(10.0)
    assert sum(bins) == pytest.approx(10.0)


def test_a_restart_loses_nothing_that_was_counted_since() -> None:
    mapper = RightsliceMapper()
    mapper.feed("t", START + 60, page(600.0))
    mapper.feed("t", START + 360, page(120.0, start=START + 240))

    assert mapper.table.card("GPU-1", HOUR).busy_observed_seconds == pytest.approx(120.0)


def test_the_peak_is_the_highest_of_the_hours_readings() -> None:
    mapper = RightsliceMapper()
    for number, peak in enumerate((5.0, 9.0, 6.0)):
        mapper.feed("t", START + 60 + 60 * number, page(60.0 * number, peak=peak))

    assert mapper.table.card("GPU-1", HOUR).memory_used_peak_bytes == 9.0


def test_a_card_told_by_two_scrape_jobs_is_counted_once() -> None:
    mapper = RightsliceMapper()
    for number in range(11):
        mapper.feed("job-a", START + 60 + 60 * number, page(60.0 * number))
        mapper.feed("job-b", START + 61 + 60 * number, page(60.0 * number))

    assert mapper.table.card("GPU-1", HOUR).busy_observed_seconds == pytest.approx(600.0)


def test_a_card_that_moved_to_another_target_goes_on_there() -> None:
    mapper = RightsliceMapper()
    mapper.feed("job-a", START + 60, page(0.0))
    mapper.feed("job-a", START + 120, page(60.0))
    for number in range(20):
        mapper.feed("job-b", START + 180 + 60 * number, page(60.0 * number))

    observed = mapper.table.card("GPU-1", HOUR).busy_observed_seconds

    assert 60.0 + 9 * 60.0 <= observed <= 60.0 + 19 * 60.0


def test_an_exporter_restarted_at_another_address_goes_on_at_once() -> None:
    mapper = RightsliceMapper()
    mapper.feed("old", START + 60, page(0.0))
    mapper.feed("old", START + 120, page(60.0))
    for number in range(4):
        mapper.feed("new", START + 180 + 60 * number, page(30 + 60.0 * number, start=START + 150))
    mapper.feed("old", START + 400, page(340.0))

    assert mapper.table.card("GPU-1", HOUR).busy_observed_seconds == pytest.approx(60 + 3 * 60)


def test_another_versions_edges_are_refused_and_counted() -> None:
    mapper = RightsliceMapper()
    strange = Reading("rightslice_gpu_busy_ratio_bucket", {"uuid": "GPU-1", "le": "0.33"}, 5.0)

    mapper.feed("t", START + 60, [*page(0.0), strange])

    assert mapper.rejected_count == 1


@pytest.mark.parametrize("edge", ["abc", "", "nan"])
def test_an_edge_that_is_no_number_costs_its_bucket_only(edge: str) -> None:
    mapper = RightsliceMapper()
    broken = Reading("rightslice_gpu_busy_ratio_bucket", {"uuid": "GPU-1", "le": edge}, 5.0)

    mapper.feed("t", START + 60, [*page(0.0), broken])
    mapper.feed("t", START + 120, [*page(60.0), broken])

    assert mapper.table.card("GPU-1", HOUR).busy_observed_seconds == 60.0


def test_a_card_in_mig_mode_is_marked() -> None:
    mapper = RightsliceMapper()
    info = Reading("rightslice_gpu_info", {**INFO, "mig": "enabled"}, 1.0)

    mapper.feed("t", START + 60, [*page(0.0), info])

    assert mapper.table.card("GPU-1", HOUR).quality == ["mig"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e30])
def test_what_is_no_number_is_counted_and_never_used(value: float) -> None:
    mapper = RightsliceMapper()
    broken = Reading("rightslice_gpu_allocated_seconds_total", {"uuid": "GPU-1"}, value)

    mapper.feed("t", START + 60, [*page(0.0), broken])

    assert mapper.rejected_count == 1
    assert mapper.table.card("GPU-1", HOUR).allocated_seconds == 0.0


def test_after_a_restart_of_the_service_nothing_is_counted_twice_or_lost() -> None:
    through, first = RightsliceMapper(), RightsliceMapper()
    pages = [(START + 60 + 60 * n, page(60.0 * n)) for n in range(41)]
    for now, readings in pages:
        through.feed("t", now, readings)
    for now, readings in pages[:20]:
        first.feed("t", now, readings)

    second = RightsliceMapper()
    second.restore(json.loads(json.dumps(first.state())))
    for now, readings in pages[20:]:
        second.feed("t", now, readings)

    assert second.table == through.table


def activity(count: float, gpu_instance_id: str) -> list[Reading]:
    """The whole of a histogram whose observations all lie in the bin of 0.02."""
    labels = {"uuid": "GPU-1", "gpu_instance_id": gpu_instance_id}
    return [
        Reading(
            "rightslice_gpu_sm_active_ratio_bucket",
            {**labels, "le": edge},
            count if edge == "+Inf" or float(edge) >= 0.02 else 0.0,
        )
        for edge in (*map(repr, RATIO_EDGES), "+Inf")
    ]


@pytest.mark.parametrize(
    ("gpu_instance_id", "minutes"),
    [
        pytest.param("", 10.0, id="the card's own activity"),
        pytest.param("3", 0.0, id="that of an instance is not the card's"),
    ],
)
def test_activity_of_the_multiprocessors_counts_for_the_card_it_was_measured_on(
    gpu_instance_id: str, minutes: float
) -> None:
    mapper = RightsliceMapper()
    mapper.feed("t", START + 60, [*page(600.0), *activity(10.0, gpu_instance_id)])
    mapper.feed("t", START + 660, [*page(1200.0), *activity(20.0, gpu_instance_id)])

    bins = mapper.table.card("GPU-1", HOUR).sm_active_bins

    assert sum(bins) == pytest.approx(minutes)
    assert sum(bins[bin_index(0.02) :]) == pytest.approx(minutes)


@pytest.mark.parametrize(
    ("labels", "name", "told", "column"),
    [
        pytest.param(
            {"uuid": "GPU-1"},
            "gpu_memory_used_peak_bytes",
            "cards",
            "memory_used_peak_bytes",
            id="a card",
        ),
        pytest.param(
            {"netdev": "eth0", "priority": "3"},
            "pfc_pause_received_peak_ratio",
            "ports",
            "pause_received_peak_ratio",
            id="a port",
        ),
        pytest.param(
            {"uuid": "GPU-1", "workload_kind": "pod", "pod": "a"},
            "workload_memory_used_peak_bytes",
            "workloads",
            "memory_used_peak_bytes",
            id="a workload",
        ),
    ],
)
def test_a_peak_that_was_found_elsewhere_is_taken_in(
    labels: dict[str, str], name: str, told: str, column: str
) -> None:
    mapper = RightsliceMapper()
    mapper.feed("t", START + 60, page(0.0, peak=1.0))
    mapper.take_peak(Reading(f"rightslice_{name}", labels, 9.0), HOUR, "node-1")

    (row,) = getattr(mapper.rows([HOUR], START + 3600), told)

    assert getattr(row, column) == 9.0


def test_what_an_older_version_remembered_is_left() -> None:
    mapper = RightsliceMapper()

    mapper.restore({"table": {}, "targets": {}})

    assert mapper == RightsliceMapper()
