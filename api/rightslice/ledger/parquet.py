"""The ledger as Parquet files: facts in a file per table and month, what they are about in one.

A file keeps, as metadata of its own, a fingerprint of the rows that it was made from. A month whose
rows are the same is not written again.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from rightslice.ledger import tables
from rightslice.ledger.columns import naive, quoted_text
from rightslice.ledger.connection import OFFLINE
from rightslice.ledger.errors import LedgerError
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.whole_file import put_in_place

Run = Callable[..., Any]

HOUR_TABLES = tuple(table.table for table in tables.HOUR_TABLES)
DAY_TABLES = ("card_day", "workload_day")
# Tables by the column that tells a row's month.
MONTHLY = dict.fromkeys(HOUR_TABLES, "hour") | dict.fromkeys(DAY_TABLES, "day")
WHOLE = (
    "card",
    "card_attribute",
    "slice",
    "workload",
    "workload_attribute",
    "owner",
    "port",
    "port_attribute",
    "price",
)
# Notes of the ledger's own, which say nothing of the fleet.
LEFT_OUT = ("feeder_state", "rolled_day", "schema_version")

FINGERPRINT = "rightslice_fingerprint"
# Rows of a row group: readers skip whole groups by their least and largest hour.
GROUP_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Export:
    """What an export wrote, and how many files it found to be the same; paths in the folder."""

    folder: str
    written: list[str]
    unchanged_count: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a table that make up one file."""

    table: str
    file: Path
    where: str


def export_parquet(
    ledger: Ledger, folder: Path, start: datetime | None = None, end: datetime | None = None
) -> Export:
    """Write what changed; of months only those that overlap [start, end). Raises LedgerError.

    Months that the ledger holds no more are left in the folder as they are.
    """
    written, unchanged = [], 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ledger.snapshot("export") as run:
            run("SET TimeZone = 'UTC'")
            for part in _parts(run, folder, start, end):
                if _write(run, part):
                    written.append(str(part.file.relative_to(folder)))
                else:
                    unchanged += 1
    except OSError as error:
        raise LedgerError(
            f"cannot export into {folder}: {error.strerror or error}; files that are there are "
            "whole. Check the disk's free space and the folder's rights"
        ) from error
    return Export(str(folder), written, unchanged)


def _parts(run: Run, folder: Path, start: datetime | None, end: datetime | None) -> Iterator[_Part]:
    for table, moment in MONTHLY.items():
        for month in _months(run, table, moment, start, end):
            begin = f"TIMESTAMP '{month:%Y-%m-%d}'"
            yield _Part(
                table,
                folder / table / f"month={month:%Y-%m}" / f"{table}.parquet",
                f"{moment} >= {begin} AND {moment} < {begin} + INTERVAL 1 MONTH",
            )
    for table in WHOLE:
        yield _Part(table, folder / table / f"{table}.parquet", "true")


def _months(
    run: Run, table: str, moment: str, start: datetime | None, end: datetime | None
) -> list[datetime]:
    conditions, values = ["true"], []
    if start is not None:
        conditions.append(f"date_trunc('month', {moment}) >= date_trunc('month', ?::TIMESTAMP)")
        values.append(naive(start))
    if end is not None:
        conditions.append(f"date_trunc('month', {moment}) < ?::TIMESTAMP")
        values.append(naive(end))
    rows = run(
        f"SELECT DISTINCT date_trunc('month', {moment}) FROM {table} "
        f"WHERE {' AND '.join(conditions)} ORDER BY 1",
        values,
    ).fetchall()
    return [month for (month,) in rows]


def _columns(run: Run, table: str) -> list[str]:
    rows = run(
        "SELECT column_name FROM duckdb_columns() "
        "WHERE database_name = current_database() AND table_name = ? ORDER BY column_index",
        [table],
    ).fetchall()
    return [name for (name,) in rows]


def _write(run: Run, part: _Part) -> bool:
    """Write a file unless it is of these rows already."""
    fingerprint = _fingerprint(run, part)
    if part.file.exists() and _fingerprint_of_file(part.file) == fingerprint:
        return False
    part.file.parent.mkdir(parents=True, exist_ok=True)
    with put_in_place(part.file) as written:
        run(
            f"COPY (SELECT * FROM {part.table} WHERE {part.where}) "
            f"TO {quoted_text(str(written))} (FORMAT parquet, COMPRESSION zstd, "
            f"ROW_GROUP_SIZE {GROUP_ROWS}, KV_METADATA {{{FINGERPRINT}: '{fingerprint}'}})"
        )
    return True


def _fingerprint(run: Run, part: _Part) -> str:
    """Tell rows from any others, in whatever order they lie."""
    columns = ", ".join(_columns(run, part.table))
    count, total = run(
        f"SELECT count(*), sum(hash({columns})) FROM {part.table} WHERE {part.where}"
    ).fetchone()
    return f"{columns}: {count} {total}"


def _fingerprint_of_file(file: Path) -> str | None:
    """Read what a file was made from; None where it does not tell, or cannot be read."""
    # Not through the ledger: an error there would end the snapshot.
    with suppress(duckdb.Error), duckdb.connect(config=OFFLINE) as connection:
        rows = connection.execute(
            "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = ?",
            [str(file), FINGERPRINT],
        ).fetchall()
        return str(rows[0][0]) if rows else None
    return None
