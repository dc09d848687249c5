"""The DuckDB file behind the ledger: opens it, replaces hours in one transaction, sums windows."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from rightslice.ledger.batch import Batch, FeederState
from rightslice.ledger.columns import naive
from rightslice.ledger.connection import Connection
from rightslice.ledger.errors import (
    LedgerError,
    LedgerHeldError,
    cannot_open,
    no_file,
    not_ours,
    too_new,
    too_old,
)
from rightslice.ledger.lock import remove_lock, write_lock
from rightslice.ledger.replace import replace_batch
from rightslice.ledger.rollup import DAYS_TO_ROLL, roll_up_statements
from rightslice.ledger.schema import MIGRATIONS, SCHEMA_VERSION
from rightslice.ledger.usage import read_card_usage
from rightslice.profile.usage import CardUsage

SPAN = "SELECT min(hour), coalesce(max(seen_until), max(hour)) FROM card_hour"

log = logging.getLogger(__name__)


class Ledger:
    """One open ledger. Every method may be called from any thread. Raises LedgerError."""

    def __init__(self, connection: Connection, file: Path | None) -> None:
        self._connection = connection
        self.file = file
        self._mutex = threading.RLock()
        # When hours were last put in place by this process; None before.
        self.last_write: datetime | None = None

    @classmethod
    def open_to_read(cls, file: Path, *, migrate: bool = True) -> "Ledger":
        """Open a ledger file that is there, and write nothing to it but what an older one lacks."""
        if not file.is_file():
            raise no_file(file)
        ledger = cls(Connection(file, read_only=True), file)
        try:
            version = ledger._version()
            if version > SCHEMA_VERSION:
                raise too_new(file, version)
            if version < SCHEMA_VERSION and not migrate:
                raise too_old(file, version)
        except BaseException:
            ledger._connection.close()
            raise
        if version == SCHEMA_VERSION:
            return ledger
        ledger._connection.close()
        return cls.open(file)

    @classmethod
    def open(cls, file: Path | None = None) -> "Ledger":
        """Open or create a ledger file, or one in memory without `file`."""
        ledger = cls(Connection(file), file)
        try:
            ledger._migrate()
        except BaseException:
            ledger._connection.close()
            raise
        return ledger

    @classmethod
    def open_as_it_is(cls, file: Path, *, to_write: bool = False) -> "Ledger":
        """Open a ledger file of whichever version, to copy it."""
        if not file.is_file():
            raise no_file(file)
        ledger = cls(Connection(file, read_only=not to_write), file)
        try:
            ledger._version()
        except BaseException:
            ledger._connection.close()
            raise
        return ledger

    def _version(self) -> int:
        """Give the number of the file's last migration. Raises LedgerError for no ledger."""
        try:
            row = self._connection.get().execute("SELECT max(version) FROM schema_version")
            return int((row.fetchone() or (0,))[0] or 0)
        except duckdb.CatalogException as error:
            raise not_ours(self.file) from error
        except duckdb.Error as error:
            raise cannot_open(self.file, error) from error

    def close(self) -> None:
        with self._mutex:
            self._connection.close()
            if self.file is not None:
                remove_lock(self.file)

    def announce(self, api_url: str) -> None:
        """Leave word where others find this ledger while this process holds it."""
        if self.file is not None:
            write_lock(self.file, api_url)

    def _migrate(self) -> None:
        with self.transaction("bring up to date") as run:
            tables = {row[0] for row in run("SELECT table_name FROM duckdb_tables()").fetchall()}
            if tables and "schema_version" not in tables and self.file is not None:
                raise not_ours(self.file)
            run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            row = run("SELECT max(version) FROM schema_version").fetchone()
            version = (row[0] if row else None) or 0
            if version > SCHEMA_VERSION:
                raise too_new(self.file, version)
            for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
                run(migration)
                run("INSERT INTO schema_version VALUES (?)", [number])

    @contextmanager
    def transaction(self, purpose: str) -> Iterator[Any]:
        """Run statements that happen all or not at all."""
        with self._mutex:
            connection = self._connection.get()
            try:
                connection.begin()
                yield connection.execute
                connection.commit()
            except BaseException as error:
                try:
                    connection.rollback()
                except duckdb.Error as rollback_error:
                    log.debug("nothing to roll back: %s", rollback_error)
                if isinstance(error, duckdb.Error):
                    raise self._connection.failure(purpose, error) from error
                raise

    @contextmanager
    def snapshot(self, purpose: str) -> Iterator[Any]:
        """Run statements that all see the ledger as it is now, while others go on writing."""
        with self._mutex:
            connection = self._connection.get().cursor()
        try:
            connection.begin()
            yield connection.execute
        except duckdb.Error as error:
            raise self._connection.failure(purpose, error) from error
        finally:
            connection.close()

    @contextmanager
    def standing_still(self, purpose: str) -> Iterator[Any]:
        """Keep everybody out while the file alone holds everything, with no log beside it."""
        with self._mutex:
            connection = self._connection.get()
            try:
                connection.execute("CHECKPOINT")
                yield connection.execute
            except duckdb.Error as error:
                raise self._connection.failure(purpose, error) from error

    def read(
        self, purpose: str, statement: str, parameters: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Give the rows of a statement that changes nothing."""
        with self._mutex:
            try:
                rows: list[tuple[Any, ...]] = (
                    self._connection.get().execute(statement, list(parameters)).fetchall()
                )
                return rows
            except duckdb.Error as error:
                raise self._connection.failure(purpose, error) from error

    def replace_hours(
        self, batch: Batch, feeder: str | None = None, state: FeederState | None = None
    ) -> None:
        """Put hours in place of those of the same source, with the feeder's state, all or nothing.

        An hour that a more trusted source has told of stays as it is.
        """
        with self.transaction("write hours") as run:
            replace_batch(run, batch)
            if feeder is not None and state is not None:
                run("DELETE FROM feeder_state WHERE feeder = ?", [feeder])
                run(
                    "INSERT INTO feeder_state VALUES (?, ?, ?)",
                    [feeder, naive(state.complete_until), json.dumps(state.state)],
                )
        self.last_write = datetime.now(UTC)

    def roll_up(self, before: datetime) -> int:
        """Sum the days that ended by `before` and are not summed yet; gives their count.

        A day that is told anew is taken back and summed again by the next call.
        """
        days = self.read("sum days", DAYS_TO_ROLL, [naive(before)])
        for (day,) in days:
            with self.transaction("sum a day") as run:
                for statement in roll_up_statements():
                    run(statement, [day])
        return len(days)

    def feeder_state(self, feeder: str) -> FeederState | None:
        """Give where a feeder stopped; None for one that never wrote."""
        rows = self.read(
            "read a feeder's state",
            "SELECT complete_until, state FROM feeder_state WHERE feeder = ?",
            [feeder],
        )
        if not rows:
            return None
        return FeederState(rows[0][0].replace(tzinfo=UTC), json.loads(rows[0][1]))

    def progress(self) -> dict[str, datetime]:
        """Give until when the hours of each feeder are complete."""
        rows = self.read(
            "read the feeders' progress",
            "SELECT feeder, complete_until FROM feeder_state ORDER BY feeder",
        )
        return {feeder: until.replace(tzinfo=UTC) for feeder, until in rows}

    def span(self) -> tuple[datetime, datetime] | None:
        """Give the first hour, and when a card was last read; None for an empty ledger."""
        first, end = self.read("read", SPAN)[0]
        return (first.replace(tzinfo=UTC), end.replace(tzinfo=UTC)) if first else None

    def card_usage(self, start: datetime, end: datetime) -> list[CardUsage]:
        """Sum each card's hours in [start, end), cards ordered by node and UUID."""

        def read(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
            return self.read("read hours", statement, parameters)

        with self._mutex:  # all parts must tell of the same hours
            return read_card_usage(read, naive(start), naive(end))


__all__ = ["Batch", "FeederState", "Ledger", "LedgerError", "LedgerHeldError"]
