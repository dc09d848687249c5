"""Ours leads, dcgm-exporter's fills in."""

from datetime import UTC, datetime

from rightslice.feeders.hours.merge import flag_of, merge, merge_parts
from rightslice.ledger.rows import CardHour, WorkloadHour

HOUR = datetime(2026, 3, 1, tzinfo=UTC)
BINS = (1.0,) * 29


def ours(observed_seconds: float = 3600.0, sm: tuple[float, ...] | None = None) -> CardHour:
    return CardHour(
        "GPU-1", HOUR, "rightslice", observed_seconds=observed_seconds, sm_active_bins=sm
    )


def theirs(uuid: str = "GPU-1") -> CardHour:
    return CardHour(
        uuid,
        HOUR,
        "dcgm",
        observed_seconds=3000.0,
        sm_active_bins=BINS,
        sm_active_interval_seconds=120.0,
        sm_observed_seconds=3000.0,
        sm_active_seconds=700.0,
    )


def test_sm_activity_comes_from_the_companion_where_we_have_none() -> None:
    (row,) = merge([ours()], [theirs()])

    assert (row.source, row.observed_seconds) == ("rightslice", 3600.0)
    assert (row.sm_active_bins, row.sm_active_interval_seconds) == (BINS, 120.0)
    assert (row.sm_observed_seconds, row.sm_active_seconds) == (3000.0, 700.0)
    assert row.quality == (flag_of("dcgm"),)


def test_our_own_sm_activity_stays() -> None:
    own = (2.0,) * 29

    (row,) = merge([ours(sm=own)], [theirs()])

    assert row.sm_active_bins == own


def test_an_hour_that_we_did_not_see_is_the_companions() -> None:
    (row,) = merge([ours(observed_seconds=0.0)], [theirs()])

    assert row.source == "dcgm"


def test_a_card_that_only_one_of_them_sees_is_kept() -> None:
    rows = merge([ours()], [theirs("GPU-2")])

    assert {row.uuid for row in rows} == {"GPU-1", "GPU-2"}


def workload(pod: str, uuid: str, source: str) -> WorkloadHour:
    return WorkloadHour("pod", "a", pod, "c", uuid, HOUR, source, 60.0)


def test_workloads_of_a_card_hour_come_from_one_source() -> None:
    own = [workload("ours", "GPU-1", "rightslice")]
    companion = [workload("theirs", "GPU-1", "dcgm"), workload("alone", "GPU-2", "dcgm")]

    assert [row.pod for row in merge_parts(own, companion)] == ["ours", "alone"]
