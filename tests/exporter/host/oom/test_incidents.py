"""Reports become incidents: once each, whoever tells of them and how often."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.oom.incidents import (
    CAUSES,
    DOUBT_SECONDS,
    QUIET_SECONDS,
    SOURCES,
    Incidents,
    Report,
)
from rightslice.exporter.host.owners.workload import Workload

MAIN = Workload("pod", "team", "chat-0", "main")
SIDE = Workload("pod", "team", "chat-0", "side")
POD = Workload("pod", "team", "chat-0")
OTHER = Workload("pod", "team", "chat-1", "main")


def report(
    at_seconds: float, cause: str = "device_alloc", workload: Workload = MAIN, **changes: Any
) -> Report:
    settings: dict[str, Any] = {"source": "log", "wall_seconds": 1_700_000_000 + at_seconds}
    return Report(workload, cause, at_seconds=at_seconds, **(settings | changes))


def counted(*reports: Report) -> list[tuple[str, float]]:
    """Give cause and time of the incidents that these reports are."""
    incidents = Incidents()
    begun = [new for each in reports if (new := incidents.take(each)) is not None]
    begun += incidents.take_due(1e9)
    return [(each.cause, each.at_seconds) for each in begun]


@pytest.mark.parametrize(
    ("gap_seconds", "count"),
    [(0.0, 1), (QUIET_SECONDS, 1), (QUIET_SECONDS + 0.1, 2), (-3600.0, 2)],
)
def test_an_incident_is_over_after_ten_seconds_of_quiet(gap_seconds: float, count: int) -> None:
    assert len(counted(report(100), report(100 + gap_seconds))) == count


def test_whoever_goes_on_failing_has_one_incident() -> None:
    assert counted(*(report(2.0 * number) for number in range(100))) == [("device_alloc", 0)]


def test_containers_and_causes_have_incidents_of_their_own() -> None:
    reports = (report(1), report(1, workload=SIDE), report(1, "startup_capacity"))

    assert len(counted(*reports)) == 3


@pytest.mark.parametrize("causes", [("soft_limit", "device_alloc"), ("device_alloc", "soft_limit")])
def test_a_refusal_and_the_error_about_it_are_one(causes: tuple[str, str]) -> None:
    first, second = causes

    assert counted(report(1, first), report(1.5, second)) == [(first, 1)]


def test_a_kill_is_one_whichever_container_and_source_tells_it() -> None:
    reports = (
        report(1, "host_cgroup", MAIN, source="kernel"),
        report(4, "host_cgroup", POD, source="cgroup"),
        report(9, "host_global", POD, source="cgroup"),
        report(15, "host_cgroup", MAIN, source="program"),
    )

    assert counted(*reports) == [("host_cgroup", 1)]


def test_two_containers_that_are_killed_are_two() -> None:
    reports = (
        report(1, "host_cgroup", MAIN, source="kernel"),
        report(1, "host_cgroup", SIDE, source="kernel"),
        report(1, "host_cgroup", OTHER, source="kernel"),
    )

    assert len(counted(*reports)) == 3


def test_a_kill_and_a_failed_allocation_are_never_one() -> None:
    assert len(counted(report(1), report(1, "host_cgroup", source="kernel"))) == 2


def test_a_detail_adds_its_sizes_and_opens_nothing() -> None:
    incidents = Incidents()
    rounded, exact = {"requested": 10, "free": 3}, {"requested": 12}

    alone = incidents.take(report(1, sizes_bytes=exact, is_detail=True))
    incidents.take(report(2, sizes_bytes=rounded))
    incidents.take(report(2, sizes_bytes=exact, is_detail=True))

    assert alone is None
    assert incidents.last[MAIN, "device_alloc"].report.sizes_bytes == {"requested": 12, "free": 3}


def test_who_knows_more_corrects_who_told_first() -> None:
    incidents = Incidents()
    better: dict[str, Any] = {"source": "kernel", "uuid": "GPU-1", "sizes_bytes": {"limit": 8}}

    incidents.take(report(1, "host_cgroup", source="cgroup", confidence="medium"))
    incidents.take(report(2, "host_cgroup", **better))

    told = incidents.last[MAIN, "host_cgroup"].report
    assert (told.source, told.confidence, told.uuid) == ("kernel", "high", "GPU-1")
    assert (told.sizes_bytes, told.wall_seconds) == ({"limit": 8}, 1_700_000_001)


def test_what_is_suspected_waits_for_who_knows_better() -> None:
    incidents = Incidents()
    incidents.take(report(100, "suspected", source="inferred"))

    assert incidents.take_due(100 + DOUBT_SECONDS - 1) == []
    assert [each.cause for each in incidents.take_due(100 + DOUBT_SECONDS)] == ["suspected"]
    assert incidents.take_due(1000) == []


@pytest.mark.parametrize("at_seconds", [90, 100, 114])
@pytest.mark.parametrize("cause", sorted(set(CAUSES) - {"suspected"}))
def test_what_is_suspected_is_none_where_something_certain_happened(
    cause: str, at_seconds: float
) -> None:
    reports = (
        report(100, "suspected", source="inferred"),
        report(at_seconds, cause, SIDE, source="kernel"),
    )

    assert counted(*reports) == [(cause, at_seconds)]


def test_workloads_that_are_gone_are_forgotten() -> None:
    incidents = Incidents()
    for workload in (MAIN, OTHER):
        incidents.take(report(1, workload=workload))

    incidents.forget_all_but({OTHER})

    assert set(incidents.last) == {(OTHER, "device_alloc")}


@given(
    st.lists(
        st.builds(
            report,
            st.floats(0, 60),
            st.sampled_from(CAUSES),
            st.sampled_from((MAIN, SIDE, POD, OTHER)),
            source=st.sampled_from(SOURCES),
            is_detail=st.booleans(),
        ),
        max_size=30,
    )
)
def test_there_are_never_more_incidents_than_reports_and_one_at_least(
    reports: list[Report],
) -> None:
    opening = [each for each in reports if not each.is_detail]

    incidents = counted(*reports)

    assert len(incidents) <= len(opening)
    assert bool(incidents) == bool(opening)


def test_a_second_kill_is_not_hidden_by_another_container_s() -> None:
    reports = (
        report(0, "host_cgroup", MAIN, source="kernel"),
        report(9, "host_cgroup", SIDE, source="kernel"),
        report(10, "host_cgroup", POD, source="cgroup"),
        report(19, "host_cgroup", MAIN, source="kernel"),
    )

    assert counted(*reports) == [("host_cgroup", 0), ("host_cgroup", 9), ("host_cgroup", 19)]


def test_slurm_tells_of_a_kill_when_its_step_ends() -> None:
    step = Workload("slurm_job", "ada", "4711", "batch")
    reports = (
        report(0, "host_cgroup", step, source="kernel"),
        report(3600, "host_cgroup", step, source="program"),
        report(9000, "host_cgroup", step, source="program"),
    )

    assert counted(*reports) == [("host_cgroup", 0), ("host_cgroup", 9000)]


def test_a_log_full_of_doubts_is_one_doubt() -> None:
    incidents = Incidents()
    for number in range(10_000):
        incidents.take(report(100 + number / 1000, "suspected", confidence="low"))

    assert len(incidents.take_due(1000)) == 1
