"""The DuckDB file behind the ledger: opens it, replaces hours in one transaction, sums windows."""

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from rightslice.ledger import queries
from rightslice.ledger.lock import Holder, read_lock, remove_lock, write_lock
from rightslice.ledger.rows import (
    MILLISECONDS_PER_SECOND,
    SOURCE_PRECEDENCE,
    CardAttributes,
    CardHour,
    WorkloadHour,
    milliseconds,
    split_hour,
)
from rightslice.ledger.schema import MIGRATIONS, SCHEMA_VERSION
from rightslice.profile.usage import CardUsage

# Else a file of another database makes DuckDB fetch the extension that could read it.
OFFLINE: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

log = logging.getLogger(__name__)


class LedgerError(Exception):
    """The ledger cannot be used; the text says which file, why, and what to do."""


class LedgerHeldError(LedgerError):
    """Another process holds the file; `holder` is None where nobody left a name."""

    def __init__(self, text: str, holder: Holder | None) -> None:
        super().__init__(text)
        self.holder = holder


@dataclass(frozen=True, slots=True)
class FeederState:
    """How far a feeder has come, and the last readings it differences from."""

    complete_until: datetime
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Hours to put in place together with the state that the feeder goes on from."""

    cards: Sequence[CardHour]
    workloads: Sequence[WorkloadHour] = ()
    attributes: Sequence[CardAttributes] = ()


def _naive(moment: datetime) -> datetime:
    """Drop the zone: the file holds UTC throughout."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _seconds(whole_milliseconds: int) -> Decimal:
    return Decimal(whole_milliseconds) / MILLISECONDS_PER_SECOND


class Ledger:
    """One open ledger. Every method may be called from any thread. Raises LedgerError."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, file: Path | None) -> None:
        self._connection = connection
        self._file = file
        self._mutex = threading.RLock()

    @classmethod
    def open_to_read(cls, file: Path) -> "Ledger":
        """Open a ledger file that is there, and write nothing to it."""
        if not file.is_file():
            raise LedgerError(f"there is no ledger {file}; name one that a command has filled")
        try:
            connection = duckdb.connect(str(file), read_only=True, config=OFFLINE)
            row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
        except duckdb.CatalogException as error:
            connection.close()
            raise _not_ours(file) from error
        except duckdb.Error as error:
            raise _open_error(file, error) from error
        version = (row[0] if row else None) or 0
        if version == SCHEMA_VERSION:
            return cls(connection, file)
        connection.close()
        if version > SCHEMA_VERSION:
            raise _too_new(file, version)
        return cls.open(file)  # it has to be brought up to date

    @classmethod
    def open(cls, file: Path | None = None) -> "Ledger":
        """Open or create a ledger file, or one in memory without `file`."""
        if file is not None and file.is_file() and file.stat().st_size == 0:
            file.unlink()  # created and then cut off: there is nothing in it to lose
        try:
            connection = duckdb.connect(str(file) if file else ":memory:", config=OFFLINE)
        except duckdb.Error as error:
            raise _open_error(file, error) from error
        ledger = cls(connection, file)
        try:
            ledger._migrate()
        except BaseException:
            connection.close()
            raise
        return ledger

    def close(self) -> None:
        with self._mutex:
            self._connection.close()
            if self._file is not None:
                remove_lock(self._file)

    def announce(self, api_url: str) -> None:
        """Leave word where others find this ledger while this process holds it."""
        if self._file is not None:
            write_lock(self._file, api_url)

    def _migrate(self) -> None:
        with self._transaction("bring up to date") as run:
            tables = {row[0] for row in run("SELECT table_name FROM duckdb_tables()").fetchall()}
            if tables and "schema_version" not in tables and self._file is not None:
                raise _not_ours(self._file)
            run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            row = run("SELECT max(version) FROM schema_version").fetchone()
            version = (row[0] if row else None) or 0
            if version > SCHEMA_VERSION:
                raise _too_new(self._file, version)
            for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
                run(migration)
                run("INSERT INTO schema_version VALUES (?)", [number])

    @contextmanager
    def _transaction(self, purpose: str) -> Iterator[Any]:
        """Run statements that happen all or not at all."""
        with self._mutex:
            try:
                self._connection.begin()
                yield self._connection.execute
                self._connection.commit()
            except BaseException as error:
                try:
                    self._connection.rollback()
                except duckdb.Error as rollback_error:
                    log.debug("nothing to roll back: %s", rollback_error)
                if isinstance(error, duckdb.Error):
                    raise self._failure(purpose, error) from error
                raise

    def _failure(self, purpose: str, error: duckdb.Error) -> LedgerError:
        return LedgerError(
            f"ledger {self._file or 'in memory'}: cannot {purpose}: {_first_line(error)}; "
            "nothing of it was written. Check the disk's free space and the file's rights"
        )

    def replace_hours(
        self, batch: Batch, feeder: str | None = None, state: FeederState | None = None
    ) -> None:
        """Put hours in place of those of the same source, with the feeder's state, all or nothing.

        An hour that a more trusted source has told of stays as it is.
        """
        with self._transaction("write hours") as run:
            if batch.cards:
                _add_cards(run, {row.uuid for row in batch.cards})
                _replace_card_hours(run, batch.cards)
            if batch.workloads:
                _replace_workload_hours(run, batch.workloads)
            if batch.attributes:
                _replace_attributes(run, batch.attributes)
            if feeder is not None and state is not None:
                run("DELETE FROM feeder_state WHERE feeder = ?", [feeder])
                run(
                    "INSERT INTO feeder_state VALUES (?, ?, ?)",
                    [feeder, _naive(state.complete_until), json.dumps(state.state)],
                )

    def feeder_state(self, feeder: str) -> FeederState | None:
        """Give where a feeder stopped; None for one that never wrote."""
        rows = self._read(
            "read a feeder's state",
            "SELECT complete_until, state FROM feeder_state WHERE feeder = ?",
            [feeder],
        )
        if not rows:
            return None
        return FeederState(rows[0][0].replace(tzinfo=UTC), json.loads(rows[0][1]))

    def span(self) -> tuple[datetime, datetime] | None:
        """Give the first hour, and when a card was last read; None for an empty ledger."""
        rows = self._read("read", queries.SPAN)
        first, end = rows[0]
        return (first.replace(tzinfo=UTC), end.replace(tzinfo=UTC)) if first else None

    def card_usage(self, start: datetime, end: datetime) -> list[CardUsage]:
        """Sum each card's hours in [start, end), cards ordered by node and UUID."""
        window = [_naive(start), _naive(end)]
        with self._mutex:  # the three must tell of the same hours
            holders = queries.holders_by_card(self._read("read workloads", queries.HOLDERS, window))
            shared = dict(self._read("read workloads", queries.SHARED_HOURS, window))
            rows = self._read("read hours", queries.card_usage_sql(), window)
        return [queries.card_usage(row, holders, shared) for row in rows]

    def _read(
        self, purpose: str, statement: str, parameters: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        with self._mutex:
            try:
                return self._connection.execute(statement, list(parameters)).fetchall()
            except duckdb.Error as error:
                raise self._failure(purpose, error) from error


def _too_new(file: Path | None, version: int) -> LedgerError:
    return LedgerError(
        f"ledger {file} was written by a newer rightslice (its version is {version}, this one "
        f"knows {SCHEMA_VERSION}); upgrade rightslice, or name another --ledger"
    )


def _not_ours(file: Path) -> LedgerError:
    return LedgerError(
        f"{file} is no ledger of rightslice but another program's database; name another --ledger"
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).strip().splitlines()[0]


def _open_error(file: Path | None, error: duckdb.Error) -> LedgerError:
    text = _first_line(error)
    if file is not None and "Could not set lock on file" in text:
        holder = read_lock(file)
        who = f"process {holder.process_id}" if holder else "another process"
        remedy = (
            f"ask it through --api {holder.api_url}"
            if holder and holder.api_url
            else "wait for it to end, or name another --ledger"
        )
        return LedgerHeldError(f"ledger {file} is held by {who}; {remedy}", holder)
    return LedgerError(
        f"ledger {file} cannot be opened: {text}; name another --ledger, or restore this one"
    )


def _add_cards(run: Any, uuids: Iterable[str]) -> None:
    run(queries.ADD_CARDS, [sorted(uuids)])


def _replace_card_hours(run: Any, rows: Sequence[CardHour]) -> None:
    columns: list[list[Any]] = [[] for _ in queries.CARD_HOUR_COLUMNS]
    for row in rows:
        for column, value in zip(columns, _card_hour_values(row), strict=True):
            column.append(value)
    run(queries.STAGE_CARD_HOURS, columns)
    run(queries.DELETE_REPLACED_CARD_HOURS)
    run(queries.DELETE_WORKLOADS_OF_STAGED_HOURS)
    run(queries.INSERT_STAGED_CARD_HOURS)
    run("DROP TABLE staged_card_hour")


def _card_hour_values(row: CardHour) -> tuple[Any, ...]:
    split = split_hour(row)
    return (
        row.uuid,
        _naive(row.hour),
        row.source,
        SOURCE_PRECEDENCE.get(row.source, 0),
        _seconds(split.owned),
        _seconds(split.unknown),
        _seconds(split.unallocated),
        _seconds(split.busy),
        _seconds(split.idle),
        _seconds(split.unmeasured),
        _seconds(min(milliseconds(row.observed_seconds), split.owned)),
        # No signal was there for longer than the card.
        *(
            _seconds(min(milliseconds(seconds), split.owned))
            for seconds in (
                row.allocation_observed_seconds,
                row.allocated_seconds,
                row.busy_observed_seconds,
                row.busy_seconds,
                row.unrequested_busy_seconds,
            )
        ),
        row.memory_total_bytes,
        row.memory_used_peak_bytes,
        row.memory_bins,
        row.busy_bins,
        row.sm_active_bins,
        row.busy_signal,
        row.memory_interval_seconds,
        row.busy_interval_seconds,
        row.sm_active_interval_seconds,
        list(row.quality),
        _seen_until(row),
    )


def _replace_attributes(run: Any, rows: Sequence[CardAttributes]) -> None:
    columns = [
        [row.uuid for row in rows],
        [_naive(row.since) for row in rows],
        [row.node for row in rows],
        [row.name for row in rows],
    ]
    run(queries.STAGE_CARD_ATTRIBUTES, columns)
    run(queries.DELETE_REPLACED_CARD_ATTRIBUTES)
    run(queries.INSERT_STAGED_CARD_ATTRIBUTES)
    run("DROP TABLE staged_attribute")


def _seen_until(row: CardHour) -> datetime | None:
    """Give the last reading of an hour; where none is told, what was observed may reach its end."""
    if row.seen_until is not None:
        return _naive(row.seen_until)
    end = row.hour + timedelta(seconds=row.owned_seconds)
    return _naive(end) if row.observed_seconds > 0 else None


def _replace_workload_hours(run: Any, rows: Sequence[WorkloadHour]) -> None:
    columns = [
        [row.kind for row in rows],
        [row.namespace for row in rows],
        [row.pod for row in rows],
        [row.container for row in rows],
        [row.uuid for row in rows],
        [_naive(row.hour) for row in rows],
        [row.source for row in rows],
        [_seconds(milliseconds(row.allocated_seconds)) for row in rows],
    ]
    run(queries.STAGE_WORKLOAD_HOURS, columns)
    run(queries.ADD_WORKLOADS)
    run(queries.DELETE_REPLACED_WORKLOAD_HOURS)
    run(queries.INSERT_STAGED_WORKLOAD_HOURS)
    run("DROP TABLE staged_workload_hour")
