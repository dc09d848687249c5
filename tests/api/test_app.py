"""The HTTP API over a small ledger."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.fleet import (
    END,
    HAND_WARMER,
    PRE_ALLOCATED,
    STRANGE,
    small_app,
    small_fleet,
    small_ledger,
)

from rightslice.api.app import CACHE_SECONDS
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import CardHour


def client_of(app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(small_app()) as client:
        yield client


def test_every_card_is_answered_the_largest_saving_first(client: TestClient) -> None:
    body = client.get("/v1/recommendations").json()

    assert [row["uuid"] for row in body["recommendations"]] == [
        HAND_WARMER,
        PRE_ALLOCATED,
        STRANGE,
    ]
    assert body["recommendations"][0]["headline"]["name"] == "A100 1/20"
    assert body["summary"]["card_count"] == 3
    assert body["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "uuids"),
    [
        pytest.param("saving=true", [HAND_WARMER], id="something to do"),
        pytest.param("saving=false", [PRE_ALLOCATED, STRANGE], id="nothing to do"),
        pytest.param("node=node-2", [PRE_ALLOCATED, STRANGE], id="node"),
        pytest.param("namespace=chat", [HAND_WARMER], id="namespace"),
        pytest.param("node=nowhere", [], id="no such node"),
    ],
)
def test_filters_narrow_rows_and_summary(client: TestClient, query: str, uuids: list[str]) -> None:
    body = client.get(f"/v1/recommendations?{query}").json()

    assert [row["uuid"] for row in body["recommendations"]] == uuids
    assert body["summary"]["card_count"] == len(uuids)


def test_pages_cover_every_row_once(client: TestClient) -> None:
    first = client.get("/v1/recommendations?limit=2").json()
    second = client.get(f"/v1/recommendations?limit=2&cursor={first['next_cursor']}").json()

    rows = first["recommendations"] + second["recommendations"]

    assert [row["uuid"] for row in rows] == [HAND_WARMER, PRE_ALLOCATED, STRANGE]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        pytest.param("/v1/gpus/GPU-none", 404, "no card 'GPU-none'", id="unknown card"),
        pytest.param("/v1/recommendations?limit=0", 422, "query.limit", id="limit"),
        pytest.param("/v1/recommendations?saving=maybe", 422, "query.saving", id="flag"),
        pytest.param("/v1/recommendations?cursor=x", 400, "start without one", id="cursor"),
        pytest.param("/v2/nothing", 404, "Not Found", id="path"),
    ],
)
def test_an_error_is_a_problem_document(
    client: TestClient, path: str, status: int, words: str
) -> None:
    answer = client.get(path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert words in answer.json()["detail"]


def test_a_card_that_is_in_no_fact_file_says_so(client: TestClient) -> None:
    answer = client.get(f"/v1/gpus/{STRANGE}").json()

    assert answer["headline"] is None
    assert answer["reason"]["code"] == "unknown_card"
    assert "11.00 GiB" in answer["reason"]["text"]


def test_cards_are_listed_with_their_use(client: TestClient) -> None:
    rows = {row["uuid"]: row for row in client.get("/v1/gpus").json()}

    assert rows[HAND_WARMER]["usage"]["observed_hours"] == 28 * 24
    assert rows[HAND_WARMER]["workloads"] == ["chat/assistant-0"]


def test_tiers_carry_their_price_at_each_term_and_unknown_stays_unknown(
    client: TestClient,
) -> None:
    tiers = {(row["name"], row["channel"]): row for row in client.get("/v1/tiers").json()}

    assert tiers["A100 1/20", ""]["prices"]["year"]["low"] == "720.00"
    assert tiers["A100 1/10", ""]["prices"] == {}
    h100 = tiers["8 x H100 80GB SXM + 2 x NDR400", "cloud"]
    assert (h100["prices"]["year"]["low"], h100["prices"]["year"]["high"]) == (
        "8500.00",
        "12750.00",
    )
    assert h100["released_with_cards"] == 8


def test_health_needs_no_ledger_and_readiness_does() -> None:
    empty = small_fleet(Ledger.open())
    with client_of(small_app(empty)) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert "no hour yet" in client.get("/readyz").json()["detail"]


def test_readiness_lapses_when_nothing_is_told_any_more() -> None:
    late = replace(small_fleet(), now=lambda: END + timedelta(hours=4))
    with client_of(small_app()) as fresh, client_of(small_app(late)) as stale:
        assert fresh.get("/readyz").status_code == 200
        assert "told nothing since 2026-03-30 00:00" in stale.get("/readyz").json()["detail"]


def test_a_ledger_that_fails_is_said_and_the_process_lives(client: TestClient) -> None:
    ledger = small_ledger()
    with client_of(small_app(small_fleet(ledger))) as broken:
        ledger.close()

        answer = broken.get("/v1/recommendations")

        assert answer.status_code == 503
        assert "cannot read" in answer.json()["detail"]
        assert broken.get("/healthz").status_code == 200


def test_answers_are_kept_for_a_moment_and_then_made_anew() -> None:
    ledger, clock = Ledger.open(), [0.0]
    with client_of(small_app(small_fleet(ledger), lambda: clock[0])) as client:
        assert client.get("/v1/gpus").json() == []
        hour = END - timedelta(hours=1)
        ledger.replace_hours(Batch([CardHour("GPU-new", hour, "dcgm", observed_seconds=60)]))

        assert client.get("/v1/gpus").json() == []
        clock[0] += CACHE_SECONDS

        assert [row["uuid"] for row in client.get("/v1/gpus").json()] == ["GPU-new"]


def test_another_sites_name_for_loopback_is_refused(client: TestClient) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400


def test_the_schema_describes_every_path_with_words(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()

    described = {
        path: [method["description"] for method in methods.values()]
        for path, methods in schema["paths"].items()
    }

    assert set(described) == {
        "/healthz",
        "/readyz",
        "/v1/recommendations",
        "/v1/gpus",
        "/v1/gpus/{uuid}",
        "/v1/inventory",
        "/v1/ledger/backup",
        "/v1/ledger/check",
        "/v1/ledger/export",
        "/v1/tiers",
        "/v1/targets",
        "/metrics",
    }
    assert all(all(words) for words in described.values())


def test_the_documentation_lists_every_path_and_loads_nothing_from_elsewhere(
    client: TestClient,
) -> None:
    page = client.get("/docs").text

    assert "GET /v1/recommendations" in page
    assert "http://" not in page
    assert "https://" not in page


def test_names_from_outside_are_text_on_the_page() -> None:
    ledger = small_ledger(namespace="<script>alert(1)</script>")
    with client_of(small_app(small_fleet(ledger))) as client:
        page = client.get("/").text

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_forbids_everything_but_its_own_style(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]

    assert policy.startswith("default-src 'none'; style-src 'self'")


def test_an_empty_ledger_has_a_page_that_says_what_to_wait_for() -> None:
    with client_of(small_app(small_fleet(Ledger.open()))) as client:
        assert "No card has been seen yet" in client.get("/").text


def test_every_answer_is_plain_json(client: TestClient) -> None:
    text = client.get("/v1/recommendations").text

    assert "NaN" not in text
    json.loads(text)
