"""The SQL trusts sources as the rows do."""

import duckdb
import pytest

from rightslice.ledger import tables
from rightslice.ledger.replace_sql import precedence, staged_columns
from rightslice.ledger.rows import SOURCE_PRECEDENCE


@pytest.mark.parametrize("source", [*SOURCE_PRECEDENCE, "nvidia_gpu_exporter", "it's"])
def test_sql_trusts_sources_as_the_rows_do(source: str) -> None:
    asked = duckdb.connect().execute(f"SELECT {precedence('$1')}", [source])

    assert asked.fetchall() == [(SOURCE_PRECEDENCE.get(source, 0),)]


def test_a_part_of_two_names_is_told_once() -> None:
    names = [column.name for column in staged_columns(tables.WORKLOAD_HOUR)]

    assert len(names) == len(set(names))
    assert {"uuid", "slice_uuid", "kind", "namespace", "pod", "container", "hour"} <= set(names)
