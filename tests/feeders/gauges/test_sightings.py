"""One card is one card, however many tell of it."""

import pytest
from support.gauge_series import Stored, stored
from support.intervals import every

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.hours.card_builder import CardHourBuilder
from rightslice.feeders.readings import Reading

DCGM = shipped_mapping("dcgm")
START = 1_000 * 3600.0
HOUR = 1_000
USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
UTIL, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"
CARD = {"UUID": "GPU-1", "Hostname": "node-1", "modelName": "NVIDIA A30"}
FIELDS = {USED: 500.0, FREE: 23_500.0, UTIL: 50.0, SM: 0.2}


def replica(name: str, moments: list[float], fields: dict[str, float] = FIELDS) -> list[Stored]:
    labels = {**CARD, "prometheus_replica": name}
    return [
        stored(metric, labels, [(START + second, value) for second in moments])
        for metric, value in fields.items()
    ]


def mapped(*series: list[Stored]) -> GaugeMapper:
    mapper = GaugeMapper(DCGM)
    all_series = [one for each in series for one in each]
    mapper.learn(one.labels for one in all_series)
    mapper.take_series(all_series)
    return mapper


def hour(mapper: GaugeMapper) -> CardHourBuilder:
    return mapper.table.card("GPU-1", HOUR)


def moments(start: int, end: int, offset: float = 0.0) -> list[float]:
    return [second + offset for second in range(start, end, 30)]


def test_two_replicas_count_as_one() -> None:
    told = hour(mapped(replica("a", moments(0, 3630)), replica("b", moments(0, 3630, 11.0))))

    assert told.observed_seconds == 3600.0
    assert told.busy_seconds == 1800.0
    assert sum(told.memory_bins) * told.memory_interval_seconds == 3600.0
    assert sum(told.sm_active_bins) * told.sm_active_interval_seconds <= 3600.0


def test_a_gap_of_one_replica_is_filled_from_the_other() -> None:
    with_gap = moments(0, 900) + moments(2700, 3630)

    told = hour(mapped(replica("a", with_gap), replica("b", moments(0, 3630, 11.0))))

    assert told.observed_seconds == 3600.0
    assert sum(told.memory_bins) == 120.0


def test_a_gap_of_both_stays_unknown() -> None:
    with_gap = moments(0, 900) + moments(2700, 3630)

    told = hour(mapped(replica("a", with_gap), replica("b", [one + 11 for one in with_gap])))

    assert told.observed_seconds < 3600 - 1800 + 120


def test_the_replica_that_tells_most_is_believed() -> None:
    often = replica("b", moments(0, 3630, 11.0), {USED: 700.0})
    seldom = replica("a", moments(0, 3630)[::10], {USED: 900.0})

    assert hour(mapped(often, seldom)).memory_used_peak_bytes == 700 * 1024**2


def test_who_took_over_in_a_gap_goes_on() -> None:
    with_gap = moments(0, 900) + moments(2700, 7230)
    mapper = mapped(
        replica("a", with_gap, {USED: 900.0}), replica("b", moments(0, 7230, 11.0), {USED: 700.0})
    )

    peaks = [mapper.table.card("GPU-1", hour).memory_used_peak_bytes for hour in (HOUR, HOUR + 1)]

    assert peaks == [900 * 1024**2, 700 * 1024**2]


def test_the_last_who_told_is_believed_across_spans() -> None:
    first = replica("a", moments(0, 1800), {USED: 900.0})
    mapper = mapped(first, replica("b", moments(0, 900, 11.0), {USED: 700.0}))

    mapper.take_series(
        [
            *replica("a", moments(1800, 7230), {USED: 900.0}),
            *replica("b", moments(1800, 9000, 11.0), {USED: 700.0}),
        ]
    )

    assert mapper.table.card("GPU-1", HOUR + 1).memory_used_peak_bytes == 900 * 1024**2


def test_what_one_exporter_does_not_tell_is_taken_from_another_beside_it() -> None:
    told = hour(
        mapped(
            replica("a", moments(0, 3630), {USED: 500.0, FREE: 23_500.0}),
            replica("b", moments(0, 3630, 11.0), {SM: 0.2}),
        )
    )

    assert told.observed_seconds == 3600.0
    assert told.sm_observed_seconds == 3600.0


def test_a_workload_told_by_two_replicas_holds_its_card_once() -> None:
    pod = {"pod": "p", "namespace": "n", "container": "c"}
    series = [
        stored(USED, {**CARD, **pod, "replica": name}, [(START + s, 9.0) for s in seconds])
        for name, seconds in (("a", moments(0, 3630)), ("b", moments(0, 3630, 11.0)))
    ]

    assert hour(mapped(series)).workloads == {"pod\0n\0p\0c": 3600.0}


def test_two_scraped_exporters_of_one_card_count_once() -> None:
    mapper, readings = GaugeMapper(DCGM), [Reading(USED, CARD, 500.0)]
    again = [Reading(USED, dict(CARD), 500.0)]
    mapper.learn([{**CARD, "instance": "a:1"}, {**CARD, "instance": "b:1"}])

    for number in range(121):
        mapper.feed(START + 30 * number, readings, every(30.0), "a:1")
        mapper.feed(START + 30 * number + 11, again, every(30.0), "b:1")

    told = hour(mapper)
    assert told.observed_seconds == 3600.0
    assert sum(told.workloads.values()) == 0.0


def test_samples_told_before_are_not_told_again() -> None:
    mapper = mapped(replica("a", moments(0, 1830)))

    mapper.take_series(replica("a", moments(1200, 3630)))

    assert hour(mapper).observed_seconds == 3600.0
    assert sum(hour(mapper).memory_bins) == 120.0


def test_blanks_of_overlapping_spans_are_counted_once() -> None:
    mapper = mapped(replica("a", moments(0, 600), {USED: float("nan")}))

    mapper.take_series(replica("a", moments(300, 600), {USED: float("nan")}))

    assert mapper.rejected_count == 20


@pytest.mark.parametrize(
    ("gap", "observed"),
    [
        pytest.param(60, 60.0, id="one missed: bridged"),
        pytest.param(90, 60.0, id="two missed: two intervals"),
    ],
)
def test_a_gap_longer_than_two_intervals_is_unknown(gap: int, observed: float) -> None:
    before = moments(0, 600)
    mapper = mapped(replica("a", before))
    so_far = hour(mapper).observed_seconds

    mapper.take_series(replica("a", [before[-1] + gap]))

    assert hour(mapper).observed_seconds - so_far == observed


def test_energy_is_what_the_counter_grew_by_across_a_gap_too() -> None:
    joules = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    rows = [(START + 30 * n, 1e6 + 3000_000.0 * n) for n in (*range(10), *range(60, 121))]

    told = hour(mapped([stored(joules, CARD, rows), stored(USED, CARD, rows[:1])]))

    assert told.energy_joules == pytest.approx(120 * 3000.0)


def test_a_counter_that_fell_gives_way_to_power() -> None:
    counter = [(START + 30 * n, 5e6 if n < 2 else 1e3) for n in range(3)]
    power = [(START + 30 * n, 100.0) for n in range(3)]

    told = hour(
        mapped(
            [
                stored("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", CARD, counter),
                stored("DCGM_FI_DEV_POWER_USAGE", CARD, power),
            ]
        )
    )

    assert told.energy_joules == 0.0 + 100 * 30
