"""Whole nodes out of a real Prometheus: all facts are those that the embedded scraper made."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.ledger_content import assert_same, hours_between
from support.node_history import Page, machine_pages, openmetrics
from support.prometheus import running_prometheus, write_blocks

from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
END = START + timedelta(hours=1)


def watch(scenario: str, *, before_minutes: int = 10) -> list[Page]:
    first_seconds = START.timestamp() - 60 * before_minutes + 7
    return list(machine_pages(scenario, first_seconds, before_minutes + 70, 20.0))


def embedded(found: list[Page]) -> Ledger:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for page in found:
        scraper.ingest("node-1", page.text, page.now_seconds)
    scraper.flush(found[-1].now_seconds)
    return ledger


def pulled(folder: Path, lines: list[str]) -> tuple[Ledger, int]:
    """Give the ledger, and how often samples were read one by one."""
    ledger, raw_count = Ledger.open(), 0
    with running_prometheus(write_blocks(folder, lines)) as url:
        client = PrometheusClient(url)
        real = client.raw

        def raw(selector: str, start_seconds: float, end_seconds: float) -> list[object]:
            nonlocal raw_count
            raw_count += 1
            return real(selector, start_seconds, end_seconds)  # type: ignore[return-value]

        client.raw = raw  # type: ignore[assignment,method-assign]
        pull(client, ledger, START, END, choose_sources())
        client.close()
    return ledger, raw_count


@pytest.mark.parametrize(
    ("scenario", "facts"),
    [
        pytest.param("five-tenants", "workloads", id="a time-sliced card"),
        pytest.param("mig-two-ci", "slices", id="a cut card"),
        pytest.param("vgpu-host", "slices", id="a card with virtual machines"),
        pytest.param("pfc-storm-received", "ports", id="a stopped network"),
    ],
)
def test_an_even_hour_is_told_by_its_edges_alone(tmp_path: Path, scenario: str, facts: str) -> None:
    found = watch(scenario)

    ledger, raw_count = pulled(tmp_path, list(openmetrics(found)))

    ours = hours_between(embedded(found), START, END)
    assert ours[facts]
    assert raw_count == 0
    assert_same(hours_between(ledger, START, END), ours)


def test_an_hour_in_which_a_node_came_is_read_sample_by_sample(tmp_path: Path) -> None:
    found = watch("out-of-memory", before_minutes=-10)

    ledger, raw_count = pulled(tmp_path, list(openmetrics(found)))

    ours = hours_between(embedded(found), START, END)
    assert ours["ooms"]
    assert raw_count == 1
    assert_same(hours_between(ledger, START, END), ours)


def replicas(lines: list[str]) -> list[str]:
    """A second Prometheus reads the same targets, half a minute later."""
    found = []
    for line in lines:
        head, stamp = line.rsplit(" ", 1)
        for number, moment in enumerate((stamp, f"{float(stamp) + 29:.3f}")):
            labelled = head.replace("{", f'{{prometheus_replica="p-{number}",', 1)
            found.append(f"{labelled} {moment}")
    return found


def moved_labels(lines: list[str]) -> list[str]:
    """Give what a scrape without honor_labels, of a pod, makes of our labels."""
    target = '{namespace="gpu",pod="exporter",container="exporter",node="by-discovery",'
    moved = []
    for line in lines:
        for name in ("namespace", "pod", "container", "node"):
            line = line.replace(f',{name}="', f',exported_{name}="')
        moved.append(line.replace("{", target, 1).replace(',exported_container=""', ""))
    return moved


@pytest.mark.parametrize(
    "stored", [pytest.param(replicas, id="replicas"), pytest.param(moved_labels, id="moved labels")]
)
def test_what_a_scrape_does_to_labels_changes_no_fact(
    tmp_path: Path, stored: Callable[[list[str]], list[str]]
) -> None:
    found = watch("five-tenants")

    ledger, _ = pulled(tmp_path, stored(list(openmetrics(found))))

    assert_same(hours_between(ledger, START, END), hours_between(embedded(found), START, END))
