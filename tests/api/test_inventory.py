"""GET /v1/inventory: where cards were and what changed."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.fleet import END, HAND_WARMER, small_app, small_fleet, small_ledger

from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch

MOVED = END - timedelta(days=2)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    ledger = small_ledger()
    there = CardAttributes(
        HAND_WARMER, MOVED, "node-9", "NVIDIA A100-SXM4-40GB", "", "0000:3b:00.0"
    )
    ledger.replace_hours(Batch(attributes=[there]))
    with TestClient(small_app(small_fleet(ledger)), base_url="http://127.0.0.1") as client:
        yield client


def inventory(client: TestClient, query: str = "") -> Any:
    answer = client.get(f"/v1/inventory{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_card_that_moved_has_two_stays_and_a_change(client: TestClient) -> None:
    body = inventory(client)

    stays = [stay for stay in body["stays"] if stay["uuid"] == HAND_WARMER]
    assert [stay["place"]["node"] for stay in stays] == ["node-1", "node-9"]
    assert body["changes"] == [
        {
            "kind": "moved",
            "at": MOVED.isoformat().replace("+00:00", "Z"),
            "uuid": HAND_WARMER,
            "before": {"cluster": "", "node": "node-1", "slot": ""},
            "after": {"cluster": "", "node": "node-9", "slot": "0000:3b:00.0"},
            "successor_uuid": "",
            "card_count": 1,
        }
    ]


@pytest.mark.parametrize(
    ("query", "stays", "changes"),
    [
        pytest.param("?start=2026-03-29", 3, 0, id="after the change"),
        pytest.param("?end=2026-03-20T00:00:00Z", 3, 0, id="before the change"),
        pytest.param("?node=node-2", 2, 0, id="a node without changes"),
        pytest.param("?node=node-9", 1, 1, id="the node it moved to"),
        pytest.param("?node=node-1", 1, 1, id="the node it left"),
        pytest.param("?start=2020-01-01&end=2020-02-01", 0, 0, id="before all hours"),
    ],
)
def test_a_window_and_a_node_narrow_the_answer(
    client: TestClient, query: str, stays: int, changes: int
) -> None:
    body = inventory(client, query)

    assert (len(body["stays"]), len(body["changes"])) == (stays, changes)


def test_the_beginning_of_the_ledger_is_no_arrival(client: TestClient) -> None:
    assert {change["kind"] for change in inventory(client, "?start=2026-01-01")["changes"]} == {
        "moved"
    }


def test_a_moment_that_is_none_is_refused(client: TestClient) -> None:
    assert client.get("/v1/inventory?start=yesterday").status_code == 422
