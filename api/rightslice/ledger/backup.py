"""Copies of the ledger, made while it is in use: a whole file, or none."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from rightslice.ledger.columns import quoted_name, quoted_text
from rightslice.ledger.connection import has_log
from rightslice.ledger.errors import LedgerError
from rightslice.ledger.file_copy import copy_file
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.whole_file import put_in_place

TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was opened after it was made, and holds what the ledger held."""

    file: str
    size_bytes: int
    row_count: int
    seconds: float


def back_up(ledger: Ledger, target: Path, *, compact: bool = False) -> Backup:
    """Copy the ledger into a file, in place of an older copy. Raises LedgerError.

    Everybody waits while the file is copied. A compact copy leaves out what was deleted: it takes
    ten times as long, and nobody waits.
    """
    started_seconds = time.monotonic()
    source = _source(ledger, target)
    try:
        with put_in_place(target) as part:
            rows = _write_compact(ledger, part) if compact else _write_copy(ledger, source, part)
            _verify(part, rows)
    except OSError as error:
        raise LedgerError(
            f"cannot back up into {target}: {error.strerror or error}; the ledger is as it was. "
            "Check the disk's free space and the folder's rights"
        ) from error
    seconds = time.monotonic() - started_seconds
    return Backup(str(target), target.stat().st_size, sum(rows.values()), seconds)


def _source(ledger: Ledger, target: Path) -> Path:
    """Give the ledger's file. Raises LedgerError where a copy would do harm or cannot be."""
    if ledger.file is None:
        raise LedgerError("a ledger that is kept in memory has no backup; keep it with --ledger")
    if not target.parent.is_dir():
        raise LedgerError(f"cannot back up into {target}: there is no folder {target.parent}")
    if not target.exists():
        return ledger.file
    if target.is_dir() or target.samefile(ledger.file):
        raise LedgerError(f"cannot back up into {target}: name a file beside the ledger's own")
    try:
        Ledger.open_as_it_is(target).close()
    except LedgerError as error:
        raise LedgerError(
            f"cannot back up into {target}: it is there, and no ledger that may be replaced "
            f"({error})"
        ) from error
    return ledger.file


def _write_copy(ledger: Ledger, source: Path, part: Path) -> dict[str, int]:
    with ledger.standing_still("back up") as run:
        if has_log(source):
            raise LedgerError(
                f"ledger {source}: its log could not be merged into it; back it up again"
            )
        rows = _counts(run)
        copy_file(source, part)
    return rows


def _write_compact(ledger: Ledger, part: Path) -> dict[str, int]:
    with ledger.snapshot("back up") as run:
        rows = _counts(run)
        (name,) = run("SELECT current_database()").fetchone()
        run(f"ATTACH {quoted_text(str(part))} AS copy_of_ledger")
        try:
            run(f"COPY FROM DATABASE {quoted_name(name)} TO copy_of_ledger")
            run("COMMIT")
            run("CHECKPOINT copy_of_ledger")
        except duckdb.Error:
            with suppress(duckdb.Error):
                run("ROLLBACK")
            raise
        finally:
            with suppress(duckdb.Error):
                run("DETACH copy_of_ledger")
            Path(f"{part}.wal").unlink(missing_ok=True)
    return rows


def _counts(run: Callable[[str], Any]) -> dict[str, int]:
    """Count the rows of each table."""
    tables = [row[0] for row in run(TABLES).fetchall()]
    counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in tables)
    return dict(run(counts).fetchall())


def _verify(copy: Path, rows: dict[str, int]) -> None:
    """Open a copy and count what it holds. Raises LedgerError."""
    opened = Ledger.open_as_it_is(copy)
    try:
        with opened.snapshot("verify a backup") as run:
            found = _counts(run)
    finally:
        opened.close()
    if found != rows:
        raise LedgerError(f"the backup {copy} holds {found}, the ledger {rows}; back it up again")
