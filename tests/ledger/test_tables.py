"""What feeders hand over has its place in the tables, with the same types."""

import duckdb
import pytest

from rightslice.ledger import tables
from rightslice.ledger.columns import DatedTable, Entity, HourTable
from rightslice.ledger.schema import MIGRATIONS

ALL_TABLES = (
    tables.CARD_HOUR,
    tables.SLICE_HOUR,
    tables.WORKLOAD_HOUR,
    tables.OOM_HOUR,
    tables.ENGINE_HOUR,
    tables.OWNER_HOUR,
    tables.NIC_HOUR,
    tables.CARD_ATTRIBUTE,
    tables.WORKLOAD_ATTRIBUTE,
    tables.PORT_ATTRIBUTE,
)
ENTITIES = (tables.CARD, tables.SLICE, tables.WORKLOAD, tables.PORT, tables.OWNER)


@pytest.fixture(scope="module")
def schema() -> dict[str, dict[str, str]]:
    """Give the columns of each table and their types, as DuckDB tells them."""
    connection = duckdb.connect()
    for migration in MIGRATIONS:
        connection.execute(migration)
    told: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
    ).fetchall():
        told.setdefault(table, {})[column] = kind
    return told


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.table)
def test_every_column_has_its_place_with_the_same_type(
    table: HourTable | DatedTable, schema: dict[str, dict[str, str]]
) -> None:
    entities = table.entities if isinstance(table, HourTable) else (table.entity,)
    told = {column.name: column.kind.replace(" ", "") for column in table.columns}
    told |= {entity.id_column: "INTEGER" for entity in entities}
    if isinstance(table, DatedTable):
        told["since"] = "TIMESTAMP"

    assert schema[table.table] == told


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda entity: entity.table)
def test_every_part_of_a_name_has_its_place(
    entity: Entity, schema: dict[str, dict[str, str]]
) -> None:
    told = {column.name: column.kind for column in (*entity.keys, *entity.more)}

    assert schema[entity.table] == told | {entity.id_column: "INTEGER"}


def test_every_hour_table_of_the_schema_is_described(schema: dict[str, dict[str, str]]) -> None:
    hour_tables = {name for name, columns in schema.items() if "hour" in columns}

    assert hour_tables == {table.table for table in ALL_TABLES if isinstance(table, HourTable)}
