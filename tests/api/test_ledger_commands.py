"""`backup`, `export` and `check` as a user runs them, with and without a service on the ledger."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from support.cli import rightslice
from support.service import running
from support.usage import card_hour
from support.waiting import wait_for

from rightslice.api.maintenance import maintenance, retention
from rightslice.ledger.ledger import Batch, Ledger

pytestmark = pytest.mark.integration


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "facts.duckdb"
    ledger = Ledger.open(path)
    ledger.replace_hours(Batch([card_hour(index) for index in range(30)]))
    ledger.close()
    return path


def test_a_backup_is_made_and_told(file: Path, tmp_path: Path) -> None:
    done = rightslice("backup", "--ledger", str(file), "--to", str(tmp_path / "copy.duckdb"))

    assert done.returncode == 0, done.stderr
    assert "written and verified in" in done.stderr
    assert rightslice("check", "--ledger", str(tmp_path / "copy.duckdb")).returncode == 0


def test_an_export_lists_what_it_wrote(file: Path, tmp_path: Path) -> None:
    flags = ("export", "ledger", "--ledger", str(file), "--to", str(tmp_path / "out"))

    first = rightslice(*flags, "--month", "2026-09")
    second = rightslice(*flags)

    assert "card_hour/month=2026-09/card_hour.parquet" in first.stdout.splitlines()
    assert second.stdout == ""
    assert "0 files written, 10 as they were" in second.stderr


def test_check_ends_with_1_and_names_what_is_wrong(file: Path) -> None:
    with duckdb.connect(str(file)) as connection:
        connection.execute("UPDATE card_hour SET busy_seconds = 7 WHERE hour = '2026-09-01'")

    table = rightslice("check", "--ledger", str(file))
    document = rightslice("check", "--ledger", str(file), "-o", "json")

    assert table.returncode == document.returncode == 1
    assert "wrong: unknown, unallocated, busy, idle and unmeasured do not make up" in table.stdout
    assert "1 things are wrong, 0 are doubtful." in table.stdout
    body = json.loads(document.stdout)
    assert body["is_sound"] is False
    assert body["findings"][0]["code"] == "parts_do_not_sum"


def test_a_service_does_it_for_the_commands_below_its_folder(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    with running(
        *("serve", "--ledger", str(file), "--listen", "127.0.0.1:0"),
        *("--ledger.backup-dir", str(folder)),
    ) as (url, _):
        backup = rightslice("backup", "--ledger", str(file), "--to", str(folder / "copy.duckdb"))
        export = rightslice(
            "export", "ledger", "--ledger", str(file), "--to", str(folder / "parquet")
        )
        check = rightslice("check", "--ledger", str(file))
        outside = rightslice("backup", "--ledger", str(file), "--to", str(tmp_path / "x.duckdb"))

    assert backup.returncode == export.returncode == check.returncode == 0, backup.stderr
    assert f"asking {url}, which holds the ledger" in backup.stderr
    assert (folder / "parquet/card/card.parquet").is_file()
    assert "0 things are wrong" in check.stdout
    assert outside.returncode == 4
    assert f"is not below {folder}, the service's --ledger.backup-dir" in outside.stderr
    Ledger.open_to_read(folder / "copy.duckdb").close()


def test_days_that_are_over_are_summed_while_it_serves(file: Path) -> None:
    with running("serve", "--ledger", str(file), "--listen", "127.0.0.1:0"):

        def is_summed() -> bool:
            told = json.loads(rightslice("check", "--ledger", str(file), "-o", "json").stdout)
            return bool(told["row_counts"]["rolled_day"] == 2)

        assert wait_for(is_summed)

    ledger = Ledger.open_to_read(file)
    assert ledger.read("read", "SELECT count(*) FROM rolled_day") == [(2,)]
    ledger.close()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("backup", "--to", "x"), id="backup without a ledger"),
        pytest.param(("export", "ledger", "--to", "x"), id="export without a ledger"),
        pytest.param(("check",), id="check without a ledger"),
        pytest.param(("backup", "--ledger", "x"), id="backup to nowhere"),
        pytest.param(("export", "money", "--ledger", "x", "--to", "y"), id="no such export"),
        pytest.param(
            ("export", "ledger", "--ledger", "x", "--to", "y", "--month", "2026-13"), id="month"
        ),
        pytest.param(
            ("export", "ledger", "--ledger=x", "--to=y", "--month=2026-01", "--since=2026-01"),
            id="month and since",
        ),
        pytest.param(("serve", "--ledger", "x", "--ledger.retention", "89d"), id="too short"),
        pytest.param(("serve", "--ledger", "x", "--ledger.retention", "long"), id="no duration"),
    ],
)
def test_bad_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert rightslice(*arguments).returncode == 2


@pytest.mark.parametrize("command", [("backup", "--to", "copy"), ("check",)])
def test_a_ledger_that_is_not_there_ends_with_4(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = rightslice(*command, "--ledger", str(tmp_path / "none.duckdb"))

    assert done.returncode == 4
    assert "there is no ledger" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_round_that_fails_is_told_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger.open()
    stop = threading.Event()
    rounds: list[int] = []

    def now() -> datetime:
        rounds.append(1)
        if len(rounds) == 1:
            ledger.close()
        return datetime(2027, 1, 1, tzinfo=UTC)

    job = maintenance(ledger, retention("90d"), now)
    thread = threading.Thread(target=job, args=(stop,))
    thread.start()
    wait_for(lambda: "is tried again" in caplog.text)
    stop.set()
    thread.join(timeout=10)

    assert not thread.is_alive()
    assert retention("90d") == timedelta(days=90)
