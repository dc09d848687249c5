"""Hours of workloads, from pages of our exporter."""

import pytest
from support.our_pages import CARD, HOUR, PROCESS_START, START, card, head, told, workload

from rightslice.feeders.ours.mapper import RightsliceMapper
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import OomHour, WorkloadHour

NAMED = {
    "uuid": CARD,
    "gpu_instance_id": "",
    "workload_kind": "pod",
    "namespace": "team",
    "pod": "a",
    "container": "main",
}


def feed(mapper: RightsliceMapper, minute: float, readings: list[Reading]) -> None:
    mapper.feed("t", START + 60 * minute, readings, interval_seconds=60.0, is_whole_page=True)


def workloads(mapper: RightsliceMapper, hour: int = HOUR) -> dict[str, WorkloadHour]:
    rows = mapper.rows([hour], START + 2 * 3600).workloads
    return {row.pod: row for row in rows}


def test_each_workload_of_a_shared_card_has_its_own_seconds() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        seconds = 60.0 * minute
        feed(
            mapper,
            minute,
            [
                *head(),
                *card(seconds, busy=seconds / 2),
                *workload("a", allocated=seconds, busy=seconds / 4),
                *workload("b", allocated=seconds, busy=seconds / 8),
            ],
        )

    found = workloads(mapper)

    assert (found["a"].allocated_seconds, found["a"].busy_seconds) == (600.0, 150.0)
    assert (found["b"].busy_observed_seconds, found["b"].busy_seconds) == (600.0, 75.0)


def test_what_workloads_were_busy_fits_into_the_card() -> None:
    mapper = RightsliceMapper()
    for minute in range(11):
        seconds = 60.0 * minute
        feed(
            mapper,
            minute,
            [
                *head(),
                *card(seconds, busy=seconds / 2),
                *workload("a", allocated=seconds, busy=seconds * 0.4),
                *workload("b", allocated=seconds, busy=seconds * 0.2),
            ],
        )

    found = workloads(mapper)

    assert found["a"].busy_seconds == pytest.approx(200.0)
    assert found["b"].busy_seconds == pytest.approx(100.0)


def test_a_workload_seen_late_counts_from_its_beginning() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(0.0)])
    feed(mapper, 1, [*head(), *card(60.0), *workload("a", allocated=45.0)])

    assert workloads(mapper)["a"].allocated_seconds == 45.0


def test_what_a_workload_counted_before_we_came_is_unknown() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(5000.0), *workload("a", allocated=4000.0)])
    feed(mapper, 1, [*head(), *card(5060.0), *workload("a", allocated=4060.0)])

    assert workloads(mapper)["a"].allocated_seconds == 60.0


def test_a_workload_that_ended_keeps_its_last_seconds_and_has_no_row_afterwards() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 58, [*head(), *card(0.0), *workload("a", allocated=0.0)])
    feed(mapper, 59, [*head(), *card(60.0), *workload("a", allocated=60.0)])
    feed(mapper, 60, [*head(), *card(120.0), *workload("a", allocated=80.0, live=False)])
    for minute in (61, 62):
        ended = workload("a", allocated=80.0, live=False)
        feed(mapper, minute, [*head(), *card(60.0 * (minute - 58)), *ended])

    assert workloads(mapper)["a"].allocated_seconds == 80.0
    assert workloads(mapper, HOUR + 1) == {}


def test_a_workload_that_lived_between_two_scrapes_is_counted() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(0.0)])
    feed(mapper, 1, [*head(), *card(60.0), *workload("a", allocated=20.0, live=False)])

    assert workloads(mapper)["a"].allocated_seconds == 20.0


@pytest.mark.parametrize("again", [pytest.param(30.0, id="less"), pytest.param(55.0, id="more")])
def test_a_pod_that_is_back_under_its_name_counts_from_0(again: float) -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(0.0)])
    feed(mapper, 1, [*head(), *card(60.0), *workload("a", allocated=50.0)])
    feed(mapper, 2, [*head(), *card(120.0)])  # it has left the page
    feed(mapper, 3, [*head(), *card(180.0), *workload("a", allocated=again)])

    assert workloads(mapper)["a"].allocated_seconds == 50.0 + again


def test_the_counters_of_pods_that_left_are_not_kept() -> None:
    mapper = RightsliceMapper()
    for minute in range(100):
        pod = workload(f"pod-{minute}", allocated=0.0)
        feed(mapper, minute, [*head(), *card(60.0 * minute), *pod])

    assert sum("workload" in key[0] for key in mapper.targets["t"].values) == 2


@pytest.mark.parametrize(
    ("growths", "source"),
    [
        pytest.param({"estimate": 5.0, "exclusive": 0.0}, "estimate", id="it had company"),
        pytest.param({"exclusive": 0.0}, "exclusive", id="alone"),
        pytest.param({"estimate": 0.0, "exclusive": 0.0}, "exclusive", id="company, no wait"),
        pytest.param({"vgpu_log": 3.0, "estimate": 2.0}, "estimate", id="the least sure"),
    ],
)
def test_a_wait_is_told_with_how_it_was_found(growths: dict[str, float], source: str) -> None:
    mapper = RightsliceMapper()
    for minute in range(2):
        waits = [
            told("workload_timeslice_wait_seconds_total", value * minute, **NAMED, source=name)
            for name, value in growths.items()
        ]
        feed(mapper, minute, [*head(), *card(60.0), *workload("a", allocated=60.0), *waits])

    row = workloads(mapper)["a"]

    assert (row.wait_source, row.wait_seconds) == (source, sum(growths.values()))


def test_a_wait_that_may_be_low_is_marked() -> None:
    mapper = RightsliceMapper()
    mark = told("workload_timeslice_wait_may_be_low", 1.0, **NAMED)
    feed(mapper, 1, [*head(), *card(0.0), *workload("a", allocated=0.0), mark])

    assert workloads(mapper)["a"].quality == ("wait_may_be_low",)


def test_the_smallest_promise_is_the_limit() -> None:
    mapper = RightsliceMapper()
    limits = [
        told("workload_memory_limit_bytes", value, **NAMED, source=source)
        for source, value in (("hami", 8e9), ("label", 4e9), ("mps", 6e9))
    ]
    feed(mapper, 1, [*head(), *card(0.0), *workload("a", allocated=0.0), *limits])

    row = workloads(mapper)["a"]

    assert (row.memory_limit_bytes, row.memory_limit_source) == (4_000_000_000, "label")


def test_without_a_promise_there_is_no_limit() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 1, [*head(), *card(0.0), *workload("a", allocated=0.0)])

    assert workloads(mapper) == {}
    feed(mapper, 2, [*head(), *card(60.0), *workload("a", allocated=60.0)])
    assert workloads(mapper)["a"].memory_limit_bytes is None


def test_whose_a_workload_is_is_told_once() -> None:
    mapper = RightsliceMapper()
    job = workload("a", allocated=0.0, owner_kind="slurm_account", owner="physics", team="x")
    feed(mapper, 1, [*head(), *card(0.0), *job])
    (row,) = mapper.workloads.rows()
    mapper.written()
    feed(mapper, 2, [*head(), *card(60.0), *job])

    assert (row.account, row.owner, row.team, row.is_protected) == (
        "physics",
        "physics",
        "x",
        False,
    )
    assert mapper.workloads.rows() == []


def test_a_protected_workload_and_its_cluster_are_told() -> None:
    mapper = RightsliceMapper()
    pod = workload("a", allocated=0.0, protected="true", workload_class="inference")
    mapper.feed("t", START + 60, [*head(), *card(0.0), *pod], cluster="east")

    (row,) = mapper.workloads.rows()

    assert (row.is_protected, row.workload_class, row.cluster) == (True, "inference", "east")


def test_an_outage_that_the_counters_bridged_is_marked() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(0.0), *workload("a", allocated=0.0)])
    feed(mapper, 1, [*head(), *card(60.0), *workload("a", allocated=60.0)])
    feed(mapper, 61, [*head(), *card(3660.0), *workload("a", allocated=3660.0)])
    feed(mapper, 62, [*head(), *card(3720.0), *workload("a", allocated=3720.0)])
    feed(mapper, 123, [*head(), *card(7380.0), *workload("a", allocated=7380.0)])

    rows = mapper.rows([HOUR, HOUR + 1], START + 7200)

    assert [row.quality for row in rows.cards] == [("bridged",)] * 2
    assert [row.quality for row in rows.workloads] == [("bridged",)] * 2


def test_a_missed_scrape_is_no_outage() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(0.0)])
    feed(mapper, 2, [*head(), *card(120.0)])

    assert mapper.rows([HOUR], START + 3600).cards[0].quality == ()


def oom(count: float, cause: str = "device_alloc") -> Reading:
    labels = {label: NAMED[label] for label in ("workload_kind", "namespace", "pod", "container")}
    return told("oom_events_total", count, **labels, cause=cause)


def test_failures_are_counted_whole_in_the_hour_that_told_them() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 59, [*head(), *card(0.0), oom(0.0)])
    feed(mapper, 60.5, [*head(), *card(90.0), oom(3.0), oom(0.0, "host_cgroup")])

    rows = mapper.rows([HOUR, HOUR + 1], START + 7200).ooms

    assert [(row.cause, row.count, row.hour.hour) for row in rows] == [("device_alloc", 3, 17)]
    assert isinstance(rows[0], OomHour)


def test_failures_told_by_two_targets_of_a_node_count_once() -> None:
    mapper = RightsliceMapper()
    for minute in range(3):
        for job in ("a", "b"):
            page = [*head(), *card(60.0 * minute), oom(float(minute))]
            mapper.feed(job, START + 60 * minute + (job == "b"), page, is_whole_page=True)

    assert [row.count for row in mapper.rows([HOUR], START + 3600).ooms] == [2]


def test_a_restarted_exporter_counts_from_its_start() -> None:
    mapper = RightsliceMapper()
    feed(mapper, 0, [*head(), *card(5000.0), *workload("a", allocated=5000.0)])
    restarted = head(PROCESS_START + 5030)
    feed(mapper, 1, [*restarted, *card(25.0), *workload("a", allocated=25.0)])

    assert workloads(mapper)["a"].allocated_seconds == 25.0


def test_on_a_page_of_some_metrics_only_those_end() -> None:
    mapper = RightsliceMapper()
    cpu = [told("workload_cpu_seconds_total", value, **NAMED) for value in (10.0, 40.0)]
    pages = [
        [*workload("a", allocated=0.0), cpu[0]],
        workload("a", allocated=30.0),  # without processor time: it was not asked for
        [*workload("a", allocated=60.0), cpu[1]],
    ]
    for minute, page in enumerate(pages):
        mapper.feed("t", START + 60 * minute, [*head(), *card(60.0 * minute), *page])

    assert workloads(mapper)["a"].cpu_seconds == 30.0
