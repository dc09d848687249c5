"""Simulated nodes from their pages to the ledger's rows: what the scenario says is what is kept."""

from dataclasses import dataclass
from typing import Any

import pytest
from support.node_history import machine_pages

from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger

START = 1_000 * 3600.0
MINUTES = 5
SECONDS = 60 * MINUTES
GIB = 1024**3


@dataclass(frozen=True)
class Kept:
    """A ledger that a node was scraped into for some minutes."""

    ledger: Ledger

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self.ledger.read("look", statement)


def keep(scenario: str, minutes: int = MINUTES) -> Kept:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for page in machine_pages(scenario, START, minutes):
        scraper.ingest("http://node-1:19400/metrics", page.text, page.now_seconds)
        scraper.flush(page.now_seconds)
    return Kept(ledger)


WORKLOADS = """
    SELECT pod, allocated_seconds, busy_seconds, wait_source, memory_limit_source
    FROM workload_hour JOIN workload USING (workload_id) ORDER BY pod
"""


def test_five_tenants_share_a_card_and_wait_for_each_other() -> None:
    kept = keep("five-tenants")

    rows = kept.rows(WORKLOADS)
    ((card_busy, card_allocated),) = kept.rows(
        "SELECT kernel_seconds, allocated_seconds FROM card_hour"
    )

    assert [row[0] for row in rows] == ["chat-0", "embed-0", "ocr-0", "rerank-0", "speech-0"]
    assert {row[1] for row in rows} == {card_allocated} == {SECONDS}
    assert 0.9 * float(card_busy) < sum(float(row[2]) for row in rows) <= float(card_busy) + 0.001
    assert {row[3] for row in rows} == {"estimate"}


def test_promises_of_an_oversold_card_are_kept_with_who_made_them() -> None:
    kept = keep("oversold")

    rows = kept.rows("SELECT memory_limit_bytes, memory_limit_source FROM workload_hour")

    assert rows == [(10 * GIB, "hami")] * 3


def test_under_mps_nobody_has_busy_time_or_a_wait() -> None:
    kept = keep("mps")

    rows = kept.rows(
        "SELECT busy_observed_seconds, wait_seconds, memory_limit_source FROM workload_hour "
        "JOIN workload USING (workload_id) WHERE kind = 'pod'"
    )

    assert [tuple(map(str, row)) for row in rows] == [("0.000", "None", "mps")] * 2


def test_slurms_jobs_have_an_account_and_a_free_card_has_nobody() -> None:
    kept = keep("slurm-node")

    accounts = kept.rows(
        "SELECT pod, account FROM workload_attribute JOIN workload USING (workload_id) ORDER BY pod"
    )
    cards = kept.rows("SELECT unallocated_seconds FROM card_hour ORDER BY unallocated_seconds")

    assert accounts == [("4711", "physics"), ("4712", "chemistry")]
    assert [float(row[0]) for row in cards] == [0.0, 0.0, 0.0, SECONDS]


def test_a_container_has_its_class_its_team_and_its_limit() -> None:
    kept = keep("docker-node")

    rows = kept.rows(
        "SELECT workload_class, team, is_protected FROM workload_attribute "
        "JOIN workload USING (workload_id) WHERE pod = 'llm-engine'"
    )

    assert rows == [("inference", "assistants", True)]
    assert ("llm-engine", "label") in [(row[0], row[4]) for row in kept.rows(WORKLOADS)]


def test_pods_that_came_and_went_hold_the_card_for_as_long_as_they_were_there() -> None:
    rows = {row[0]: float(row[1]) for row in keep("pods-come-and-go").rows(WORKLOADS)}

    assert rows["second-7fq4z"] == pytest.approx(SECONDS - 60, abs=12)
    assert rows["third-m5w8c"] == pytest.approx(30, abs=12)
    assert rows["first-x2k9p"] == pytest.approx(40, abs=12)


def test_a_cut_card_has_a_row_for_each_instance_by_its_units() -> None:
    kept = keep("mig-two-ci")

    rows = kept.rows(
        "SELECT profile, units, card_units, memory_used_peak_bytes IS NOT NULL, busy_seconds "
        "FROM slice_hour JOIN slice USING (slice_id) ORDER BY units, slice_uuid"
    )

    assert [row[:4] for row in rows] == [
        ("1g.18gb", 1, 8, False),  # no compute instance: nothing can run on it
        ("1g.18gb", 1, 8, True),
        ("2g.35gb", 2, 8, True),
        ("3g.71gb", 4, 8, True),
    ]


def test_an_empty_cut_card_is_paid_for_and_unallocated() -> None:
    kept = keep("mig-empty")

    ((unallocated, owned),) = kept.rows("SELECT unallocated_seconds, owned_seconds FROM card_hour")

    assert float(unallocated) == float(owned) == SECONDS
    assert kept.rows("SELECT 1 FROM slice_hour") == []


def test_virtual_machines_hold_their_vgpus() -> None:
    kept = keep("vgpu-host")

    rows = kept.rows(
        "SELECT slice.kind, units, card_units, allocated_seconds FROM slice_hour "
        "JOIN slice USING (slice_id)"
    )

    assert [(*row[:3], float(row[3])) for row in rows] == [("vgpu", 1, 20, SECONDS)] * 5
    assert kept.rows(
        "SELECT count(*) FROM workload_hour JOIN slice USING (slice_id) "
        "JOIN workload USING (workload_id) WHERE slice_uuid = container"
    ) == [(5,)]


@pytest.mark.parametrize(
    ("scenario", "reasons"),
    [
        pytest.param("throttling", ["sw_power_cap", "sw_thermal"], id="held down"),
        pytest.param("busy", [""], id="free to run"),
    ],
)
def test_what_held_the_clocks_down_is_kept(scenario: str, reasons: list[str]) -> None:
    rows = keep(scenario).rows("SELECT throttle_reason FROM card_hour ORDER BY 1")

    assert [row[0] for row in rows] == reasons


def test_a_job_over_nvlink_has_bytes_and_energy() -> None:
    rows = keep("nvlink-job").rows("SELECT nvlink_bytes, energy_joules FROM card_hour")

    assert len(rows) == 8
    assert all(bytes_ > 80e9 * 2 * SECONDS * 0.8 for bytes_, _ in rows)


def test_memory_that_ran_out_is_counted_once_by_cause() -> None:
    rows = keep("out-of-memory").rows(
        "SELECT pod, cause, count FROM oom_hour JOIN workload USING (workload_id) ORDER BY pod"
    )

    assert rows == [
        ("engine-0", "device_alloc", 2),
        ("loader-0", "host_cgroup", 1),
        ("tuner-0", "soft_limit", 1),
    ]


PORTS = """
    SELECT kind, loss_count, congestion_count, error_count, link_down_count, transmit_bytes,
        pause_received_seconds, pause_transmitted_seconds
    FROM nic_hour JOIN port USING (port_id) ORDER BY kind
"""


def test_a_storm_holds_a_port_that_sends_nothing_any_more() -> None:
    netdev, rdma = keep("pfc-storm-received").rows(PORTS)

    assert float(netdev[6]) == pytest.approx(SECONDS - 60, abs=2)
    assert float(netdev[7]) == 0.0
    assert rdma[5] == 0


def test_a_storm_that_is_sent_is_told_the_other_way_round() -> None:
    netdev, _ = keep("pfc-storm-sent").rows(PORTS)

    assert float(netdev[7]) > 0.9 * (SECONDS - 60)
    assert netdev[3] > 0


def test_loss_is_no_congestion_and_congestion_no_loss() -> None:
    lossy, marked = keep("loss").rows(PORTS)[1], keep("congestion-without-pause").rows(PORTS)[1]

    assert lossy[1] > 0
    assert lossy[2] == 0
    assert marked[1] == 0
    assert marked[2] > 0


def test_a_link_that_flapped_is_counted_on_its_own_port() -> None:
    rows = keep("link-flap").rows(
        "SELECT device, port, link_down_count FROM nic_hour JOIN port USING (port_id) ORDER BY 1, 2"
    )

    # The first of its two flaps comes before the second page, and is not ours to tell.
    assert rows == [("", "eth0", 0), ("", "eth1", 1), ("mlx5_0", "1", 0), ("mlx5_1", "1", 1)]


def test_registers_that_wrap_go_on_and_those_that_were_reset_begin_anew() -> None:
    for scenario in ("counter-wrap", "counter-reset"):
        for row in keep(scenario).rows(PORTS):
            assert 0 < row[5] < 1e13
