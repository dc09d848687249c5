"""A ledger file is brought up to date once, and one from the future is left alone."""

from pathlib import Path

import duckdb
import pytest

from rightslice.ledger.ledger import Ledger, LedgerError
from rightslice.ledger.schema import MIGRATIONS, SCHEMA_VERSION

TABLES = {
    "card",
    "card_attribute",
    "card_day",
    "card_hour",
    "engine_hour",
    "feeder_state",
    "nic_hour",
    "oom_hour",
    "owner",
    "owner_hour",
    "port",
    "port_attribute",
    "price",
    "rolled_day",
    "schema_version",
    "slice",
    "slice_hour",
    "workload",
    "workload_attribute",
    "workload_day",
    "workload_hour",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "facts.duckdb"


def asked(file: Path, statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(file)) as connection:
        return connection.execute(statement).fetchall()


def test_the_version_is_the_number_of_the_last_migration() -> None:
    assert len(MIGRATIONS) == SCHEMA_VERSION


def test_a_new_file_gets_every_table_and_its_version(file: Path) -> None:
    Ledger.open(file).close()

    tables = asked(file, "SELECT table_name FROM duckdb_tables()")
    assert {name for (name,) in tables} == TABLES
    assert asked(file, "FROM schema_version") == [
        (number,) for number in range(1, SCHEMA_VERSION + 1)
    ]


def test_opening_again_migrates_nothing(file: Path) -> None:
    Ledger.open(file).close()

    Ledger.open(file).close()

    assert asked(file, "SELECT count(*) FROM schema_version") == [(SCHEMA_VERSION,)]


def test_a_file_of_a_newer_program_is_refused_with_both_versions_and_left_alone(
    file: Path,
) -> None:
    Ledger.open(file).close()
    asked(file, "INSERT INTO schema_version VALUES (99)")

    with pytest.raises(LedgerError) as refusal:
        Ledger.open(file)

    assert str(refusal.value) == (
        f"ledger {file} was written by a newer rightslice (its version is 99, this one knows "
        f"{SCHEMA_VERSION}); upgrade rightslice, or name another --ledger"
    )
    assert asked(file, "SELECT max(version) FROM schema_version") == [(99,)]


def test_a_migration_that_fails_leaves_nothing_behind(file: Path) -> None:
    asked(file, "CREATE TABLE schema_version (version INTEGER NOT NULL)")
    asked(file, "CREATE TABLE card_hour (theirs INTEGER)")

    with pytest.raises(LedgerError, match=r"cannot bring up to date: .*card_hour.*already exists"):
        Ledger.open(file)

    assert asked(file, "SELECT table_name FROM duckdb_tables() ORDER BY 1") == [
        ("card_hour",),
        ("schema_version",),
    ]
