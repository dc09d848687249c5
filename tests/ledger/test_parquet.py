"""The ledger as Parquet: what others read is what the ledger holds, written once."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.usage import START, at_hour, card_hour, workload_hour

from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, Ledger, LedgerError
from rightslice.ledger.parquet import HOUR_TABLES, LEFT_OUT, MONTHLY, WHOLE, export_parquet
from rightslice.ledger.rollup import ONE_DAY

ROOT = Path(__file__).resolve().parents[2]
OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)


@pytest.fixture
def ledger() -> Ledger:
    """The last two hours of September and the first of October."""
    opened = Ledger.open()
    hours = [718, 719, 720]
    opened.replace_hours(
        Batch(
            [card_hour(index) for index in hours],
            [workload_hour(index=index) for index in hours],
            [CardAttributes("GPU-x", START, "node-1", "A30")],
        )
    )
    return opened


def asked(statement: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(statement).fetchall()


def test_every_table_is_exported_or_left_out_for_a_reason(ledger: Ledger) -> None:
    tables = {name for (name,) in ledger.read("read", "SELECT table_name FROM duckdb_tables()")}

    assert tables == {*MONTHLY, *WHOLE, *LEFT_OUT}
    assert HOUR_TABLES[0] == "card_hour"


def test_facts_lie_in_a_folder_per_month_and_say_what_the_ledger_says(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.roll_up(OCTOBER)
    export_parquet(ledger, tmp_path)

    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("card_*/*/*"))
    assert files == [
        "card_day/month=2026-09/card_day.parquet",
        "card_hour/month=2026-09/card_hour.parquet",
        "card_hour/month=2026-10/card_hour.parquet",
    ]
    for table in ("card_hour", "workload_hour", "card_day", "workload_day"):
        read = f"FROM read_parquet('{tmp_path}/{table}/*/*.parquet', hive_partitioning = true)"
        assert asked(f"SELECT * EXCLUDE month {read} ORDER BY ALL") == ledger.read(
            "read", f"FROM {table} ORDER BY ALL"
        )
    assert asked(f"FROM '{tmp_path}/card/card.parquet' ORDER BY ALL") == ledger.read(
        "read", "FROM card ORDER BY ALL"
    )


def test_seconds_are_decimals_and_histograms_lists(ledger: Ledger, tmp_path: Path) -> None:
    export_parquet(ledger, tmp_path)

    described = asked(f"DESCRIBE FROM '{tmp_path}/card_hour/month=2026-09/card_hour.parquet'")
    kinds = {name: kind for name, kind, *_ in described}
    assert kinds["busy_seconds"] == "DECIMAL(10,3)"
    assert kinds["memory_levels"] == "UTINYINT[]"
    assert kinds["memory_level_milliseconds"] == "UINTEGER[]"
    assert kinds["hour"] == "TIMESTAMP"
    assert kinds["quality"] == "VARCHAR[]"


def test_what_is_the_same_is_not_written_again(ledger: Ledger, tmp_path: Path) -> None:
    first = export_parquet(ledger, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}

    second = export_parquet(ledger, tmp_path)

    assert (second.written, second.unchanged_count) == ([], len(first.written))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == stamps


def test_a_month_that_changed_is_written_and_no_other(ledger: Ledger, tmp_path: Path) -> None:
    export_parquet(ledger, tmp_path)
    ledger.replace_hours(Batch([replace(card_hour(718), busy_seconds=1)]))

    done = export_parquet(ledger, tmp_path)

    assert done.written == ["card_hour/month=2026-09/card_hour.parquet"]


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        pytest.param(OCTOBER, None, ["month=2026-10"], id="since a month"),
        pytest.param(at_hour(0), OCTOBER, ["month=2026-09"], id="one month"),
        pytest.param(at_hour(700), None, ["month=2026-09", "month=2026-10"], id="amid a month"),
    ],
)
def test_months_can_be_chosen(
    ledger: Ledger, tmp_path: Path, start: datetime, end: datetime | None, months: list[str]
) -> None:
    export_parquet(ledger, tmp_path, start, end)

    assert sorted(path.name for path in (tmp_path / "card_hour").iterdir()) == months


def test_months_that_the_ledger_dropped_stay_in_the_folder(ledger: Ledger, tmp_path: Path) -> None:
    export_parquet(ledger, tmp_path)
    with ledger.transaction("drop") as run:
        run(f"DELETE FROM card_hour WHERE {ONE_DAY}", [datetime(2026, 9, 30)])  # noqa: DTZ001

    assert export_parquet(ledger, tmp_path).written == []
    assert (tmp_path / "card_hour/month=2026-09/card_hour.parquet").is_file()


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", None])
def test_a_file_that_is_broken_or_of_somebody_else_is_written_anew(
    ledger: Ledger, tmp_path: Path, content: bytes | None
) -> None:
    export_parquet(ledger, tmp_path)
    file = tmp_path / "card/card.parquet"
    if content is None:
        file.unlink()
        asked(f"COPY (SELECT 1 AS card_id) TO '{file}' (FORMAT parquet)")
    else:
        file.write_bytes(content)

    assert export_parquet(ledger, tmp_path).written == ["card/card.parquet"]
    assert len(asked(f"FROM '{file}'")) == 2


def test_a_folder_with_a_quote_in_its_name_is_written(ledger: Ledger, tmp_path: Path) -> None:
    done = export_parquet(ledger, tmp_path / "o'clock")

    assert done.written
    assert export_parquet(ledger, tmp_path / "o'clock").written == []


def test_a_folder_that_is_a_file_is_told(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")

    with pytest.raises(LedgerError, match=r"cannot export into .*taken: File exists"):
        export_parquet(ledger, tmp_path / "taken")


def test_the_worked_example_for_duckdb_gives_what_the_ledger_gives(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/ledger.md").read_text(encoding="utf-8")
    examples = re.findall(r"```sql\n(-- DuckDB.*?)```", page, re.DOTALL)
    export_parquet(ledger, tmp_path / "parquet")
    monkeypatch.chdir(tmp_path)

    sums, histogram = (asked(example) for example in examples)

    (usage,) = ledger.card_usage(START, OCTOBER)
    assert sums == [(usage.uuid, "2026-09", usage.busy_seconds, usage.idle_seconds)]
    seconds = {level: float(held) for _, level, held in histogram}
    assert seconds == {level: held for level, held in enumerate(usage.memory_seconds) if held}
