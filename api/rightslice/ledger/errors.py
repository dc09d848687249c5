"""Why a ledger cannot be used, in words that name the file and the remedy."""

from pathlib import Path

import duckdb

from rightslice.ledger.lock import Holder, read_lock
from rightslice.ledger.schema import SCHEMA_VERSION


class LedgerError(Exception):
    """The ledger cannot be used; the text says which file, why, and what to do."""


class LedgerHeldError(LedgerError):
    """Another process holds the file; `holder` is None where nobody left a name."""

    def __init__(self, text: str, holder: Holder | None) -> None:
        super().__init__(text)
        self.holder = holder


def no_file(file: Path) -> LedgerError:
    return LedgerError(f"there is no ledger {file}; name one that a command has filled")


def too_new(file: Path | None, version: int) -> LedgerError:
    return LedgerError(
        f"ledger {file} was written by a newer rightslice (its version is {version}, this one "
        f"knows {SCHEMA_VERSION}); upgrade rightslice, or name another --ledger"
    )


def too_old(file: Path, version: int) -> LedgerError:
    return LedgerError(
        f"ledger {file} was written by an older rightslice (its version is {version}, this one "
        f"writes {SCHEMA_VERSION}); any other command, such as `rightslice recommend --ledger "
        f"{file}`, brings it up to date: back it up before"
    )


def lost_file(file: Path, log_file: Path) -> LedgerError:
    return LedgerError(
        f"ledger {file} is missing or empty, but its log {log_file.name} is there: the file was "
        "lost. Restore a backup, and move the log away"
    )


def not_ours(file: Path | None) -> LedgerError:
    return LedgerError(
        f"{file} is no ledger of rightslice but another program's database; name another --ledger"
    )


def first_line(error: duckdb.Error) -> str:
    return str(error).strip().splitlines()[0]


def cannot_open(file: Path | None, error: duckdb.Error) -> LedgerError:
    """Tell why DuckDB does not open a file: mostly another process has it."""
    text = first_line(error)
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


def failed(file: Path | None, purpose: str, error: duckdb.Error) -> LedgerError:
    return LedgerError(
        f"ledger {file or 'in memory'}: cannot {purpose}: {first_line(error)}; "
        "nothing of it was written. Check the disk's free space and the file's rights"
    )
