"""Owners and replicas out of a real Prometheus are those of the pages that it scraped."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.kube_page import line, owner, page, pod, replica_set, served
from support.prometheus import running_prometheus, write_blocks

from rightslice.feeders.exposition import PageParser
from rightslice.feeders.owners.mapper import OwnerMapper, WorkloadKey
from rightslice.feeders.owners.teams import TeamRule
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.owners import read_owners
from rightslice.ledger.attributes import WorkloadAttributes
from rightslice.ledger.rows import OwnerHour

pytestmark = pytest.mark.integration

HOUR = 490_000
START = HOUR * 3600
STEP = 30
CHAT: WorkloadKey = ("pod", "chat", "chat-7f9-x1", "vllm")
OTHER = page(
    pod("mail-0", owner("StatefulSet", "mail"), namespace="mail", container="smtp"),
    [line("kube_statefulset_replicas", 2, namespace="mail", statefulset="mail")],
)
ROLLOUT = page(
    replica_set("seer-1", 2, owner("Rollout", "seer")),
    replica_set("seer-2", 1, owner("Rollout", "seer")),
    pod("seer-1-a", owner("ReplicaSet", "seer-1")),
)


def text_at(seconds: int) -> str:
    """Give the page: scaled up at 0:30, down at 1:00, and a new image at 1:15."""
    replicas = 4 if 1800 <= seconds < 3600 else 2
    image_id = "vllm@sha256:aaa" if seconds < 4500 else "vllm@sha256:bbb"
    return page(served(replicas, image_id=image_id)) + OTHER + ROLLOUT


def scraped(*targets: str) -> Iterator[str]:
    series: dict[str, list[tuple[float, float]]] = {}
    for seconds in range(-600, 3 * 3600 + 600, STEP):
        for offset, target in enumerate(targets):
            for text in text_at(seconds).splitlines():
                name, _, value = text.rpartition(" ")
                named = name.replace("{", f"{{{target},", 1)
                at = START + seconds + 7 + offset
                series.setdefault(named, []).append((at, float(value)))
    for name, samples in series.items():
        yield from (f"{name} {value:g} {at}" for at, value in samples)


def read(
    tmp_path: Path, lines: Iterable[str], **told: object
) -> tuple[list[OwnerHour], list[WorkloadAttributes]]:
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        client = PrometheusClient(url)
        try:
            return read_owners(client, HOUR, HOUR + 3, **told)  # type: ignore[arg-type]
        finally:
            client.close()


def from_pages() -> list[OwnerHour]:
    mapper = OwnerMapper()
    mapper.want([CHAT], HOUR)
    mapper.feed("first", START - 700.0, PageParser().parse(text_at(-600)))
    mapper.attributes(HOUR)
    for seconds in range(-600, 3 * 3600 + 600, STEP):
        mapper.feed(
            "kube",
            START + seconds + 7.0,
            PageParser().parse(text_at(seconds)),
            interval_seconds=STEP,
        )
    return mapper.rows(range(HOUR, HOUR + 3))


def test_the_hours_are_those_of_the_pages(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, scraped('instance="kube:8080",job="kube"'), workloads=[CHAT])

    assert rows == from_pages()
    assert [row.observed_seconds for row in rows] == [3600] * 3
    assert [(row.scale_up_count, row.scale_down_count) for row in rows] == [(1, 0), (0, 1), (0, 0)]
    assert rows[0].replicas_mean == pytest.approx(3, abs=0.01)


def test_two_replicas_of_a_prometheus_tell_the_same_once(tmp_path: Path) -> None:
    replicas = [f'instance="kube:8080",prometheus_replica="{name}"' for name in ("a", "b")]

    rows, _ = read(tmp_path, scraped(*replicas), workloads=[CHAT])

    assert [row.observed_seconds for row in rows] == [3600] * 3
    assert [(row.scale_up_count, row.scale_down_count) for row in rows] == [(1, 0), (0, 1), (0, 0)]
    assert rows[0].replicas_mean == pytest.approx(3, abs=0.01)


def test_attributes_change_from_the_hour_of_the_change_on(tmp_path: Path) -> None:
    ours = WorkloadAttributes(*CHAT, since=datetime.fromtimestamp(START, UTC), team="nlp")

    _, attributes = read(tmp_path, scraped('instance="kube:8080"'), workloads=[CHAT], ours=[ours])

    filled = replace(ours, owner_kind="Deployment", owner="chat", image="sha256:aaa")
    later = datetime.fromtimestamp(START + 3600, UTC)
    assert attributes == [filled, replace(filled, since=later, image="sha256:bbb")]


def test_all_workloads_are_told_where_none_is_named(tmp_path: Path) -> None:
    rules = [TeamRule("post", "", {"namespace": ("mail",)})]

    rows, attributes = read(tmp_path, scraped('instance="kube:8080"'), rules=rules)

    owners = {(row.owner_kind, row.owner): row.replicas_max for row in rows[:3]}
    assert owners == {("Deployment", "chat"): 4, ("StatefulSet", "mail"): 2, ("Rollout", "seer"): 3}
    assert {row.pod: row.team for row in attributes} == {
        "chat-7f9-x1": "",
        "mail-0": "post",
        "seer-1-a": "",
    }


def test_labels_that_a_scrape_moved_away_are_read(tmp_path: Path) -> None:
    lines = (
        text.replace(",namespace=", ',namespace="monitoring",exported_namespace=')
        .replace(",pod=", ',pod="ksm-0",exported_pod=')
        .replace(",container=", ',container="ksm",exported_container=')
        for text in scraped('instance="kube:8080"')
    )

    rows, attributes = read(tmp_path, lines, workloads=[CHAT])

    assert [row.owner for row in rows] == ["chat"] * 3
    assert attributes[0].image == "sha256:aaa"


def test_without_kube_state_metrics_ours_is_what_there_is(tmp_path: Path) -> None:
    ours = WorkloadAttributes(*CHAT, since=datetime.fromtimestamp(START, UTC), team="nlp")

    rows, attributes = read(tmp_path, [f'up{{job="x"}} 1 {START}'], ours=[ours])

    assert (rows, attributes) == ([], [ours])
