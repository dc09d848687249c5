"""A connection to a ledger's file, opened anew after DuckDB has given the file up."""

import logging
from pathlib import Path
from typing import Any

import duckdb

from rightslice.ledger.errors import LedgerError, cannot_open, failed, lost_file

# Else a file of another database makes DuckDB fetch the extension that could read it.
OFFLINE: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

log = logging.getLogger(__name__)


def log_of(file: Path) -> Path:
    """Name the log beside a ledger, of what is not merged into it yet."""
    return file.with_name(f"{file.name}.wal")


def has_log(file: Path) -> bool:
    """Tell whether anything is in the log."""
    log_file = log_of(file)
    return log_file.is_file() and log_file.stat().st_size > 0


def _refuse_lost(file: Path) -> None:
    """Refuse a log without its file: DuckDB would begin anew, and drop the log."""
    is_there = file.is_file() and file.stat().st_size > 0
    if not is_there and has_log(file):
        raise lost_file(file, log_of(file))


class Connection:
    """One connection to a file, or to a ledger in memory without `file`. Raises LedgerError."""

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        self._file = file
        self._read_only = read_only
        self._is_given_up = False
        if file is not None:
            _refuse_lost(file)
            if not read_only and file.is_file() and file.stat().st_size == 0:
                file.unlink()  # created and then cut off: there is nothing in it to lose
        self._connection = self._connected()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        name = str(self._file) if self._file else ":memory:"
        try:
            return duckdb.connect(name, read_only=self._read_only, config=OFFLINE)
        except duckdb.Error as error:
            raise cannot_open(self._file, error) from error

    def get(self) -> duckdb.DuckDBPyConnection:
        """Give a connection that works."""
        if self._is_given_up and self._file is not None:
            self._connection.close()
            self._connection = self._connected()
            self._is_given_up = False
            log.warning("ledger %s is open again; nothing that was written is lost", self._file)
        return self._connection

    def failure(self, purpose: str, error: duckdb.Error) -> LedgerError:
        """Say what failed. After a disk that was full while a log was merged, DuckDB gives up."""
        if isinstance(error, duckdb.FatalException) or "database has been invalidated" in str(
            error
        ):
            self._is_given_up = True
        return failed(self._file, purpose, error)

    def close(self) -> None:
        self._connection.close()
