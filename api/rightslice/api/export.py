"""The command `export`: the ledger as Parquet, for other databases and for years."""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from rightslice.api.command import Command, Exit, file_path, say
from rightslice.api.holder import here_or_there
from rightslice.api.ledger_files import EXPORT_PATH
from rightslice.api.months import month, month_end, month_start
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.parquet import Export, export_parquet


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("ledger",), help="what to export")
    parser.add_argument(
        "--to",
        type=file_path,
        required=True,
        metavar="DIR",
        help="folder to write to; files that are up to date are left alone; where a service holds "
        "the ledger, below its --ledger.backup-dir",
    )
    parser.add_argument("--month", type=month, metavar="YYYY-MM", help="this month only")
    parser.add_argument("--since", type=month, metavar="YYYY-MM", help="this month and later ones")


def run(given: argparse.Namespace) -> int:
    """Export, and list on standard output what was written."""
    if given.ledger is None:
        say("nothing to export; give --ledger FILE")
        return Exit.BAD_USAGE
    if given.month and given.since:
        say("--month and --since exclude each other")
        return Exit.BAD_USAGE
    since, until = given.month or given.since, given.month
    folder = given.to.absolute()
    start = month_start(since) if since else None
    end = month_end(until) if until else None
    done = here_or_there(
        lambda: _export(given.ledger, folder, start, end),
        EXPORT_PATH,
        {"to": str(folder), "since": since, "until": until},
        lambda told: Export(**told),
    )
    for file in done.written:
        sys.stdout.write(f"{file}\n")
    say(f"{done.folder}: {len(done.written)} files written, {done.unchanged_count} as they were")
    return Exit.OK


def _export(file: Path, folder: Path, start: datetime | None, end: datetime | None) -> Export:
    ledger = Ledger.open_to_read(file)
    try:
        return export_parquet(ledger, folder, start, end)
    finally:
        ledger.close()


COMMAND = Command("export", "Write the ledger as Parquet files.", add_flags, run)
