"""A sound ledger passes, and each way to be unsound is named with its place and its remedy."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.usage import START, UUID, at_hour, card_hour, port_hour, slice_hour, workload_hour

from rightslice.ledger.attributes import CardAttributes, PortAttributes, WorkloadAttributes
from rightslice.ledger.audit import Audit, Finding, audit
from rightslice.ledger.audit_check import DOUBTFUL, WRONG
from rightslice.ledger.audit_checks import CHECKS
from rightslice.ledger.ledger import Batch, FeederState, Ledger
from rightslice.ledger.rows import EngineHour, OomHour, OwnerHour

NOW = START + timedelta(days=10)
WHO = ("pod", "serving", "chat-0", "server")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """Two summed days and an hour, of everything there is."""
    opened = Ledger.open()
    hours = range(49)
    opened.replace_hours(
        Batch(
            [card_hour(index) for index in hours],
            [workload_hour(index=index, source="rightslice") for index in hours],
            [CardAttributes(UUID, START, "node-1", "A30")],
            [slice_hour(index=index) for index in hours],
            [port_hour(index) for index in hours],
            [OomHour(*WHO, at_hour(1), "rightslice", "device_alloc", 1)],
            [EngineHour(*WHO, at_hour(1), "rightslice", "vllm")],
            [OwnerHour("c", "n", "Job", "o", at_hour(1), "kube", 3600, 1, 1, 1, 0, 0)],
            [WorkloadAttributes(*WHO, START)],
            [PortAttributes("node-1", "mlx5_0", "1", "rdma", START)],
        ),
        "scraper",
        FeederState(at_hour(49), {}),
    )
    opened.roll_up(NOW)
    yield opened
    opened.close()


def audited(ledger: Ledger, now: datetime = NOW) -> Audit:
    return audit(ledger, now)


def findings_after(ledger: Ledger, statement: str) -> dict[tuple[str, str], Finding]:
    """Break a ledger; gives what is found by code and table."""
    with ledger.transaction("break") as run:
        run(statement)
    return {(finding.code, finding.table): finding for finding in audited(ledger).findings}


def test_a_sound_ledger_has_no_findings(ledger: Ledger) -> None:
    found = audited(ledger)

    assert found.findings == []
    assert found.is_sound
    assert (found.first_hour, found.last_hour) == ("2026-09-01T00:00Z", "2026-09-03T00:00Z")
    assert found.row_counts["card_hour"] == 49


def test_an_empty_ledger_is_sound() -> None:
    assert audited(Ledger.open()).findings == []


THIS = f"{UUID} 2026-09-03 00:00"
LAST = "WHERE hour = '2026-09-03'"


@pytest.mark.parametrize(
    ("statement", "code", "table", "example"),
    [
        pytest.param(
            f"UPDATE card_hour SET idle_seconds = idle_seconds + 0.001 {LAST}",
            "parts_do_not_sum",
            "card_hour",
            f"{THIS}, owned 3600.000, parts 3600.001",
            id="a millisecond too much",
        ),
        pytest.param(
            f"UPDATE slice_hour SET busy_seconds = 0 {LAST}",
            "parts_do_not_sum",
            "slice_hour",
            f"{THIS}, owned 3600.000, parts 2400.000",
            id="a slice's busy time is gone",
        ),
        pytest.param(
            f"UPDATE card_hour SET energy_joules = -5 {LAST}",
            "negative",
            "card_hour",
            f"{THIS}, least -5.0",
            id="negative",
        ),
        pytest.param(
            f"UPDATE nic_hour SET pause_received_seconds = 3600.5 {LAST}",
            "above_the_hour",
            "nic_hour",
            "node-1/mlx5_0/1/rdma 2026-09-03 00:00, most 3600.500",
            id="longer than the hour",
        ),
        pytest.param(
            f"INSERT INTO card_hour FROM card_hour {LAST}",
            "told_twice",
            "card_hour",
            THIS,
            id="card twice",
        ),
        pytest.param(
            f"INSERT INTO workload_hour FROM workload_hour {LAST}",
            "told_twice",
            "workload_hour",
            THIS,
            id="workload twice",
        ),
        pytest.param(
            "INSERT INTO oom_hour FROM oom_hour",
            "told_twice",
            "oom_hour",
            "pod/serving/chat-0/server 2026-09-01 01:00",
            id="out of memory twice",
        ),
        pytest.param(
            "INSERT INTO port_attribute FROM port_attribute",
            "told_twice",
            "port_attribute",
            "node-1/mlx5_0/1/rdma 2026-09-01 00:00:00",
            id="attribute twice",
        ),
        pytest.param(
            f"INSERT INTO slice_hour SELECT * REPLACE (9 AS slice_id, 'dcgm' AS source) "
            f"FROM slice_hour {LAST}",
            "two_sources",
            "slice_hour",
            THIS,
            id="two sources",
        ),
        pytest.param(
            f"UPDATE workload_hour SET workload_id = 77 {LAST}",
            "orphan",
            "workload_hour",
            "workload_id 77 2026-09-03 00:00:00",
            id="no such workload",
        ),
        pytest.param(
            f"UPDATE workload_hour SET slice_id = 78 {LAST}",
            "orphan",
            "workload_hour",
            "slice_id 78 2026-09-03 00:00:00",
            id="no such slice",
        ),
        pytest.param(
            f"INSERT INTO card (uuid) VALUES ('{UUID}')", "named_twice", "card", UUID, id="name"
        ),
        pytest.param("INSERT INTO card VALUES (1, 'x')", "id_twice", "card", "id 1", id="id"),
        pytest.param(
            f"UPDATE card_hour SET memory_levels = [8, 9] {LAST}",
            "broken_histogram",
            "card_hour",
            f"{THIS}, levels [8, 9], milliseconds [3600000]",
            id="lists of two lengths",
        ),
        pytest.param(
            f"UPDATE card_hour SET memory_levels = [29] {LAST}",
            "broken_histogram",
            "card_hour",
            f"{THIS}, levels [29], milliseconds [3600000]",
            id="no such level",
        ),
        pytest.param(
            f"UPDATE card_hour SET busy_levels = NULL {LAST}",
            "broken_histogram",
            "card_hour",
            f"{THIS}, levels null, milliseconds [3600000]",
            id="half a histogram",
        ),
        pytest.param(
            f"UPDATE card_hour SET busy_level_milliseconds = [3700000] {LAST}",
            "histogram_too_long",
            "card_hour",
            f"{THIS}, held 3700.0, most 3660.0",
            id="more than observed",
        ),
        pytest.param(
            f"UPDATE workload_hour SET allocated_seconds = 3600.001 {LAST}",
            "above_the_hour",
            "workload_hour",
            f"{THIS}, most 3600.001",
            id="held for more than an hour",
        ),
        pytest.param(
            f"UPDATE card_hour SET owned_seconds = 1799, unallocated_seconds = 0, "
            f"idle_seconds = 899 {LAST}",
            "held_longer_than_owned",
            "workload_hour",
            f"{UUID} 2026-09-03 00:00:00, chat-0 1800.000 of 1799.000",
            id="held for longer than it was there",
        ),
        pytest.param(
            "UPDATE slice SET units = 9",
            "slices_larger_than_card",
            "slice_hour",
            f"{UUID} 2026-09-01 00:00:00, 32400.000 unit seconds of 28800.000",
            id="slices of more than a card",
        ),
        pytest.param(
            f"UPDATE card_hour SET seen_until = '2026-09-03 01:00:01' {LAST}",
            "seen_outside_of_hour",
            "card_hour",
            f"{THIS}, seen_until 2026-09-03 01:00:01",
            id="seen later",
        ),
        pytest.param(
            "UPDATE nic_hour SET hour = '2026-09-03 00:30' WHERE hour = '2026-09-03'",
            "off_the_hour",
            "nic_hour",
            "node-1/mlx5_0/1/rdma 2026-09-03 00:30",
            id="half an hour",
        ),
        pytest.param(
            "UPDATE owner_hour SET hour = '2027-01-01'",
            "in_the_future",
            "owner_hour",
            "c/n/Job/o 2027-01-01 00:00",
            id="yet to come",
        ),
        pytest.param(
            "UPDATE card_attribute SET since = '2027-01-01'",
            "in_the_future",
            "card_attribute",
            "card_id 1 2027-01-01 00:00:00",
            id="told of a day yet to come",
        ),
        pytest.param(
            "UPDATE feeder_state SET complete_until = '2027-01-01'",
            "ahead_of_time",
            "feeder_state",
            "scraper 2027-01-01 00:00:00",
            id="a feeder ahead",
        ),
        pytest.param(
            "DELETE FROM card_hour WHERE hour IN ('2026-09-01 05:00', '2026-09-01 06:00')",
            "missing_hours",
            "card_hour",
            f"{UUID} 2026-09-01 04:00, 2 missing after it",
            id="hours that are missing",
        ),
        pytest.param(
            "UPDATE card_day SET busy_seconds = busy_seconds + 1 WHERE day = '2026-09-02'",
            "wrong_sums",
            "card_day",
            "2026-09-02, 1 cards in card_day",
            id="a sum",
        ),
        pytest.param(
            "UPDATE card_day SET busy_level_milliseconds = [1] WHERE day = '2026-09-02'",
            "wrong_sums",
            "card_day",
            "2026-09-02, 1 cards in card_day's busy histogram",
            id="a histogram's sum",
        ),
        pytest.param(
            "DELETE FROM workload_day WHERE day = '2026-09-01'",
            "wrong_sums",
            "card_day",
            "2026-09-01, 1 cards in workload_day",
            id="a sum that is missing",
        ),
        pytest.param(
            "INSERT INTO card_day FROM card_day WHERE day = '2026-09-01'",
            "summed_twice",
            "card_day",
            "1 2026-09-01 00:00:00",
            id="summed twice",
        ),
        pytest.param(
            "DELETE FROM rolled_day WHERE day = '2026-09-01'",
            "sum_of_no_day",
            "workload_day",
            "2026-09-01",
            id="sums that nobody reads",
        ),
    ],
)
def test_what_is_broken_is_named_with_its_place(
    ledger: Ledger, statement: str, code: str, table: str, example: str
) -> None:
    found = findings_after(ledger, statement)

    finding = found[code, table]
    assert example in finding.examples
    assert finding.remedy
    assert finding.count >= 1


def test_many_of_a_kind_are_counted_and_a_few_shown(ledger: Ledger) -> None:
    found = findings_after(ledger, "UPDATE card_hour SET pcie_bytes = -1")

    finding = found["negative", "card_hour"]
    assert (finding.count, len(finding.examples)) == (49, 5)


def test_missing_hours_alone_make_a_ledger_doubtful_and_not_wrong(ledger: Ledger) -> None:
    with ledger.transaction("break") as run:
        run("DELETE FROM card_hour WHERE hour = '2026-09-02 23:00'")
        for table in ("rolled_day", "card_day", "workload_day"):
            run(f"DELETE FROM {table} WHERE day = '2026-09-02'")

    found = audited(ledger)

    assert [(finding.code, finding.severity) for finding in found.findings] == [
        ("missing_hours", DOUBTFUL)
    ]
    assert found.is_sound


def test_a_day_whose_hours_were_dropped_is_not_compared_with_them(ledger: Ledger) -> None:
    with ledger.transaction("drop") as run:
        for table in ("card_hour", "workload_hour", "slice_hour"):
            run(f"DELETE FROM {table} WHERE hour < '2026-09-02'")
        run("UPDATE rolled_day SET has_hours = false WHERE day = '2026-09-01'")

    assert audited(ledger).findings == []


def test_every_check_says_what_is_wrong_and_what_to_do() -> None:
    keys = [(check.code, check.table, check.what) for check in CHECKS]
    assert len(keys) == len(set(keys))
    for check in CHECKS:
        assert check.severity in (WRONG, DOUBTFUL)
        assert check.remedy[0].islower() or check.remedy.startswith("`")
        assert not check.what.endswith(".")


def test_now_is_the_moment_that_is_told(ledger: Ledger) -> None:
    early = audited(ledger, datetime(2026, 9, 2, 12, tzinfo=UTC))

    assert {finding.code for finding in early.findings} == {"in_the_future", "ahead_of_time"}


def test_two_engines_of_one_workload_are_no_double_counting(ledger: Ledger) -> None:
    engines = [EngineHour(*WHO, at_hour(2), name, name) for name in ("vllm", "gateway")]
    ledger.replace_hours(Batch(engines=engines))

    assert audited(ledger).findings == []
