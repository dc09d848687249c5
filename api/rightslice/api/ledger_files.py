"""What a running service does with its ledger file: backup, Parquet and check, one at a time.

Files are written below one folder only, which a flag names: whoever reaches the service must not
write anywhere else with its rights.
"""

import argparse
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from rightslice.api.command import file_path
from rightslice.api.months import month_end, month_start
from rightslice.ledger.audit import Audit, audit
from rightslice.ledger.backup import Backup, back_up
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.parquet import Export, export_parquet

BACKUP_PATH, EXPORT_PATH, CHECK_PATH = "/v1/ledger/backup", "/v1/ledger/export", "/v1/ledger/check"
MONTH = r"^\d{4}-(0[1-9]|1[0-2])$"
Month = Annotated[str | None, Field(pattern=MONTH, description="YYYY-MM")]
Place = Annotated[
    str, Field(min_length=1, max_length=4096, description="below the folder of --ledger.backup-dir")
]


class BackupRequest(BaseModel):
    """Where the copy goes."""

    model_config = ConfigDict(extra="forbid")

    to: Place
    compact: bool = False


class ExportRequest(BaseModel):
    """Which folder the files go to, and which months are looked at; null: all."""

    model_config = ConfigDict(extra="forbid")

    to: Place
    since: Month = None
    until: Month = None


class CheckRequest(BaseModel):
    """Nothing is to be told; being JSON, it cannot come from a page elsewhere."""

    model_config = ConfigDict(extra="forbid")


def add_folder_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ledger.backup-dir",
        dest="ledger_backup_dir",
        type=file_path,
        metavar="DIR",
        help="folder below which this service writes backups and Parquet when it is asked to "
        "(default: it writes none)",
    )


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Lets one piece of work in at a time, and writes nowhere but below its folder."""

    folder: Path | None
    busy: threading.Lock

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        if not self.busy.acquire(blocking=False):
            raise HTTPException(
                HTTPStatus.CONFLICT, "a backup, export or check is under way; ask again later"
            )
        try:
            yield
        finally:
            self.busy.release()

    def place(self, told: str) -> Path:
        """Give the place that is meant. Raises HTTPException where it is not below the folder."""
        if self.folder is None:
            raise HTTPException(
                HTTPStatus.FORBIDDEN,
                "the service that holds the ledger writes no files; start it with "
                "--ledger.backup-dir DIR, or end it and try again",
            )
        folder = self.folder.resolve()
        try:
            place = (folder / told).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, f"{told!r} is no path: {error}") from error
        if folder not in place.parents:
            raise HTTPException(
                HTTPStatus.FORBIDDEN,
                f"{place} is not below {folder}, the service's --ledger.backup-dir",
            )
        return place


def add_ledger_routes(
    app: FastAPI,
    ledger: Ledger,
    folder: Path | None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Add the operations on the ledger's file."""
    door = Doorkeeper(folder, threading.Lock())

    @app.post(BACKUP_PATH, tags=["ledger"])
    def backup(request: BackupRequest) -> Backup:
        """Copy the ledger into a file, in place of an older copy."""
        target = door.place(request.to)
        with door.one_at_a_time():
            return back_up(ledger, target, compact=request.compact)

    @app.post(EXPORT_PATH, tags=["ledger"])
    def export(request: ExportRequest) -> Export:
        """Write the ledger as Parquet, what changed of it."""
        target = door.place(request.to)
        start = month_start(request.since) if request.since else None
        end = month_end(request.until) if request.until else None
        with door.one_at_a_time():
            return export_parquet(ledger, target, start, end)

    @app.post(CHECK_PATH, tags=["ledger"])
    def check(request: CheckRequest) -> Audit:
        """Verify the ledger: what is wrong, where, and what to do about it."""
        with door.one_at_a_time():
            return audit(ledger, now())
