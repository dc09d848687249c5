"""Owners, teams and engines come into the ledger beside the cards that they use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engine_pages import vllm
from support.kube_page import page, served

from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.owners.teams import load_team_rules
from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger

START = 490_000 * 3600.0
EXPORTER, KUBE, ENGINE = "http://node:19400/metrics", "http://kube:8080/metrics", "http://10.0.0.9"
PLACE = {"namespace": "chat", "pod": "chat-7f9-x1", "container": "vllm"}
LABELS = (
    'uuid="GPU-1",gpu_instance_id="",workload_kind="pod",namespace="chat",pod="chat-7f9-x1",'
    'container="vllm"'
)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    opened = Ledger.open()
    yield opened
    opened.close()


def exporter_page(seconds: float) -> str:
    """A card that one pod has held for so many seconds."""
    return "\n".join(
        (
            f"process_start_time_seconds {START - 10}",
            'rightslice_node_info{node="node-1"} 1',
            'rightslice_gpu_info{uuid="GPU-1",name="NVIDIA L40S",mig="",pci_bus_id="1"} 1',
            f'rightslice_gpu_observed_seconds_total{{uuid="GPU-1",signal="memory"}} {seconds}',
            f'rightslice_gpu_observed_seconds_total{{uuid="GPU-1",signal="allocation"}} {seconds}',
            f'rightslice_gpu_allocated_seconds_total{{uuid="GPU-1"}} {seconds}',
            f"rightslice_workload_allocated_seconds_total{{{LABELS}}} {seconds}",
            f'rightslice_workload_info{{{LABELS},class="",owner_kind="",owner="",team="",'
            'protected=""} 1',
            "",
        )
    )


def scraped(scraper: Scraper, *minutes: int, replicas: int = 2) -> None:
    """Read all three pages at some minutes of the hour, writing each time."""
    for minute in minutes:
        now_seconds = START + 60 * minute
        scraper.ingest(EXPORTER, exporter_page(60 * minute), now_seconds, 60)
        scraper.ingest(KUBE, page(served(replicas)), now_seconds, 60)
        scraper.ingest(ENGINE, vllm(waiting=minute, done=10 * minute), now_seconds, 60, PLACE)
        scraper.flush(now_seconds + 1)


def test_owner_engine_and_card_are_told_of_one_workload(ledger: Ledger) -> None:
    scraped(Scraper(ledger, 60), 1, 2, 3)

    assert ledger.read(
        "look",
        "SELECT pod, owner_kind, owner, waiting_peak, request_count, allocated_seconds "
        "FROM workload JOIN workload_attribute USING (workload_id) "
        "JOIN engine_hour USING (workload_id) JOIN workload_hour USING (workload_id)",
    ) == [("chat-7f9-x1", "Deployment", "chat", 3, 20, 120)]


def test_replicas_are_told_of_owners_of_cards(ledger: Ledger) -> None:
    scraper = Scraper(ledger, 60)
    scraped(scraper, 1, 2, 3, 4)
    scraped(scraper, 5, replicas=4)

    assert ledger.read(
        "look",
        "SELECT owner, replicas_min, replicas_max, scale_up_count FROM owner_hour "
        "JOIN owner USING (owner_id)",
    ) == [("chat", 2, 4, 1)]


def test_a_restart_loses_no_request_and_no_owner(ledger: Ledger) -> None:
    scraped(Scraper(ledger, 60), 1, 2)

    scraped(Scraper(ledger, 60), 3, 4)

    assert ledger.read("look", "SELECT request_count FROM engine_hour") == [(30,)]
    assert ledger.read("look", "SELECT DISTINCT owner FROM workload_attribute") == [("chat",)]


def test_teams_follow_the_rules_of_the_user(ledger: Ledger, tmp_path: Path) -> None:
    rules = tmp_path / "teams.yaml"
    rules.write_text("rules:\n  - {team: search, match: {namespace: chat}}\n", encoding="utf-8")
    companions = WorkloadSettings(load_team_rules(rules)).companions()

    scraped(Scraper(ledger, 60, companions=companions), 1, 2)

    assert ledger.read("look", "SELECT team FROM workload_attribute") == [("search",)]


def test_pods_without_a_card_are_nobodys_concern(ledger: Ledger) -> None:
    scraper = Scraper(ledger, 60)

    scraper.ingest(KUBE, page(served(2)), START + 60, 60)
    scraper.flush(START + 61)

    assert ledger.read("look", "SELECT count(*) FROM workload_attribute") == [(0,)]
    assert ledger.read("look", "SELECT count(*) FROM owner_hour") == [(0,)]


def test_an_engine_is_told_of_once_somebody_names_its_workload(ledger: Ledger) -> None:
    scraper = Scraper(ledger, 60)

    nobodys = scraper.ingest(ENGINE, vllm(), START + 60, 60)
    somebodys = scraper.ingest(ENGINE, vllm(), START + 120, 60, PLACE)
    scraper.flush(START + 121)

    assert ledger.read("look", "SELECT count(*) FROM engine_hour") == [(1,)]
    assert (nobodys.unattached, somebodys.unattached) == (("vllm",), ())


def test_what_our_exporter_tells_before_a_card_has_rows_is_not_lost(ledger: Ledger) -> None:
    scraper = Scraper(ledger, 60)
    scraped(scraper, 1)  # no interval yet, so no row of a workload

    assert ledger.read("look", "SELECT count(*) FROM workload_hour") == [(0,)]
    scraped(scraper, *range(2, 62))
    assert ledger.read("look", "SELECT DISTINCT owner FROM workload_attribute") == [("chat",)]


def test_a_restart_does_not_rewrite_whose_a_workload_was(ledger: Ledger) -> None:
    scraped(Scraper(ledger, 60), *range(1, 130))

    scraped(Scraper(ledger, 60), *range(130, 135))

    since = ledger.read("look", "SELECT DISTINCT since FROM workload_attribute WHERE owner <> ''")
    assert len(since) == 1
