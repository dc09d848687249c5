"""Says who holds a ledger file: DuckDB lets one process in, the others go through its API."""

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the file; `api_url` is empty where it serves none."""

    process_id: int
    api_url: str


def _lock_file(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.lock")


def write_lock(ledger: Path, api_url: str) -> None:
    """Name this process as the holder."""
    text = json.dumps({"process_id": os.getpid(), "api_url": api_url})
    _lock_file(ledger).write_text(text, encoding="utf-8")


def remove_lock(ledger: Path) -> None:
    """Take this process's name off again."""
    holder = read_lock(ledger)
    if holder and holder.process_id == os.getpid():
        _lock_file(ledger).unlink(missing_ok=True)


def read_lock(ledger: Path) -> Holder | None:
    """Give the holder; None without one, or when the one named is gone."""
    try:
        told = json.loads(_lock_file(ledger).read_text(encoding="utf-8"))
        holder = Holder(int(told["process_id"]), str(told["api_url"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return holder if _is_alive(holder.process_id) else None


def _is_alive(process_id: int) -> bool:
    if process_id <= 0:
        return False  # to the system these are groups of processes
    try:
        os.kill(process_id, 0)
    except PermissionError:
        return True  # somebody else's
    except (OSError, OverflowError):
        return False
    return True
