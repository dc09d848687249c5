"""Backup, Parquet and check through a running service, and nowhere but in its folder."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from support.usage import at_hour, card_hour

from rightslice.api.ledger_files import add_ledger_routes
from rightslice.api.problems import handle_problems
from rightslice.ledger.backup import back_up
from rightslice.ledger.ledger import Batch, Ledger

NOW = at_hour(24)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "backups"
    path.mkdir()
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "facts.duckdb")
    opened.replace_hours(Batch([card_hour(0)]))
    yield opened
    opened.close()


def client_of(ledger: Ledger, folder: Path | None) -> TestClient:
    app = FastAPI()
    handle_problems(app)
    add_ledger_routes(app, ledger, folder, lambda: NOW)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture
def client(ledger: Ledger, folder: Path) -> TestClient:
    return client_of(ledger, folder)


@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_a_backup_is_written_into_the_folder(client: TestClient, folder: Path, named: str) -> None:
    to = str(folder / "copy.duckdb") if named == "absolute" else "copy.duckdb"

    answer = client.post("/v1/ledger/backup", json={"to": to})

    assert answer.status_code == 200, answer.text
    assert answer.json()["file"] == str(folder / "copy.duckdb")
    copy = Ledger.open_to_read(folder / "copy.duckdb")
    assert copy.span() is not None
    copy.close()


def test_parquet_is_written_below_the_folder(client: TestClient, folder: Path) -> None:
    answer = client.post("/v1/ledger/export", json={"to": "parquet", "since": "2026-09"})

    assert answer.status_code == 200, answer.text
    assert "card_hour/month=2026-09/card_hour.parquet" in answer.json()["written"]
    assert (folder / "parquet/card/card.parquet").is_file()


def test_a_check_tells_what_it_found(client: TestClient) -> None:
    body = client.post("/v1/ledger/check", json={}).json()

    assert body["row_counts"]["card_hour"] == 1
    assert body["findings"] == []


@pytest.mark.parametrize("path", ["/v1/ledger/backup", "/v1/ledger/export"])
@pytest.mark.parametrize(
    "to",
    [
        "../facts.duckdb",
        "../other",
        "/etc/cron.d/job",
        "a/../../other",
        ".",
        "",
        "link/other",
        "nul\0byte",
        "x" * 5000,
        7,
        None,
    ],
)
def test_nothing_is_written_outside_of_the_folder(
    client: TestClient, folder: Path, tmp_path: Path, path: str, to: Any
) -> None:
    (folder / "link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    answer = client.post(path, json={"to": to})

    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_folder_nothing_is_written(ledger: Ledger, tmp_path: Path) -> None:
    answer = client_of(ledger, None).post("/v1/ledger/backup", json={"to": str(tmp_path / "copy")})

    assert answer.status_code == 403
    assert "start it with --ledger.backup-dir DIR" in answer.json()["detail"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_what_a_page_elsewhere_may_send_without_asking_is_refused(
    client: TestClient, folder: Path, content_type: str
) -> None:
    for path in ("backup", "export", "check"):
        answer = client.post(
            f"/v1/ledger/{path}",
            content=b'{"to": "copy.duckdb"}' if path != "check" else b"{}",
            headers={"Content-Type": content_type},
        )
        assert answer.status_code == 422
    assert list(folder.iterdir()) == []


def test_one_thing_is_done_at_a_time(
    ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        go_on.wait(20)
        return back_up(*arguments, **options)

    monkeypatch.setattr("rightslice.api.ledger_files.back_up", slow)
    client = client_of(ledger, folder)
    answers: list[int] = []
    first = threading.Thread(
        target=lambda: answers.append(
            client.post("/v1/ledger/backup", json={"to": "copy.duckdb"}).status_code
        )
    )
    first.start()
    assert begun.wait(20)

    second = client.post("/v1/ledger/check", json={})
    go_on.set()
    first.join()

    assert second.status_code == 409
    assert answers == [200]
    assert client.post("/v1/ledger/check", json={}).status_code == 200


@pytest.mark.parametrize("body", [{}, {"to": "x", "since": "2026-13"}, {"to": "x", "more": 1}])
def test_what_cannot_be_understood_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post("/v1/ledger/export", json=body).status_code == 422
