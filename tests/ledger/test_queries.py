"""The SQL agrees with the schema, the contract and the order of trust."""

from datetime import UTC, datetime

import duckdb
import pytest
from support.usage import START, card_hour, workload_hour

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger import queries
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import SOURCE_PRECEDENCE
from rightslice.ledger.schema import MIGRATIONS
from rightslice.profile.usage import Holder

# Attributes of the card, or needed while staging only.
NOT_STORED = {"uuid", "precedence"}


@pytest.fixture
def tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for migration in MIGRATIONS:
        connection.execute(migration)
    return connection


def test_every_staged_column_has_its_place_in_the_table_with_the_same_type(
    tables: duckdb.DuckDBPyConnection,
) -> None:
    staged = {
        name: kind.replace(" ", "")
        for name, kind in queries.CARD_HOUR_COLUMNS
        if name not in NOT_STORED
    }

    stored = tables.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'card_hour'"
    ).fetchall()

    assert dict(stored) == staged | {"card_id": "INTEGER"}


@pytest.mark.parametrize("source", [*SOURCE_PRECEDENCE, "other"])
def test_sql_trusts_sources_as_the_rows_do(tables: duckdb.DuckDBPyConnection, source: str) -> None:
    statement = f"SELECT {queries._precedence('$1')}"

    assert tables.execute(statement, [source]).fetchall() == [(SOURCE_PRECEDENCE.get(source, 0),)]


@pytest.mark.parametrize("column", ["memory_bins", "busy_bins", "sm_active_bins"])
def test_every_bin_of_a_histogram_is_summed_once(column: str) -> None:
    statement = queries.card_usage_sql()

    assert [statement.count(f"{column}[{number}] ") for number in range(1, BIN_COUNT + 1)] == (
        [1] * BIN_COUNT
    )
    assert f"{column}[{BIN_COUNT + 1}]" not in statement


def test_holders_are_grouped_by_card_in_the_order_they_come() -> None:
    last_hour = datetime(2026, 9, 1)  # noqa: DTZ001 - DuckDB gives UTC without a zone
    rows = [
        (1, "pod", "serving", "new", "server", 3, last_hour, 1),
        (2, "pod", "serving", "ring", "server", 5, last_hour, 8),
        (1, "pod", "serving", "old", "server", 9, last_hour, 1),
    ]

    holders = queries.holders_by_card(rows)

    aware = last_hour.replace(tzinfo=UTC)
    assert holders == {
        1: (
            Holder("pod", "serving", "new", "server", 3, aware, 1),
            Holder("pod", "serving", "old", "server", 9, aware, 1),
        ),
        2: (Holder("pod", "serving", "ring", "server", 5, aware, 8),),
    }


@pytest.mark.parametrize(
    ("pods", "shared_hours"),
    [
        pytest.param((("serving", "chat"),), 0, id="one pod"),
        pytest.param((("serving", "chat"), ("serving", "ocr")), 1, id="two pods"),
        pytest.param((("a", "chat"), ("b", "chat")), 1, id="one name in two namespaces"),
        pytest.param((("a/b", "c"), ("a", "b/c")), 1, id="names that join to the same text"),
    ],
)
def test_an_hour_is_shared_when_two_workloads_are_in_it(
    pods: tuple[tuple[str, str], ...], shared_hours: int
) -> None:
    ledger = Ledger.open()
    workloads = [workload_hour(pod, namespace=namespace) for namespace, pod in pods]

    ledger.replace_hours(Batch([card_hour()], workloads))

    usage = ledger.card_usage(START, START.replace(month=10))[0]
    assert usage.shared_hour_count == shared_hours
