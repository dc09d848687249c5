"""The command `backup`: a copy of the ledger, also while a service fills it."""

import argparse
from pathlib import Path

from rightslice.api.command import Command, Exit, file_path, say
from rightslice.api.holder import here_or_there
from rightslice.api.ledger_files import BACKUP_PATH
from rightslice.ledger.backup import Backup, back_up
from rightslice.ledger.connection import has_log
from rightslice.ledger.ledger import Ledger


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        type=file_path,
        required=True,
        metavar="FILE",
        help="file to write, in place of an older backup; where a service holds the ledger, below "
        "its --ledger.backup-dir",
    )
    parser.add_argument(
        "--compact",
        action="store_true",
        help="write the rows anew, without the room of what was deleted: ten times slower",
    )


def run(given: argparse.Namespace) -> int:
    """Back up, and say what was written."""
    if given.ledger is None:
        say("nothing to back up; give --ledger FILE")
        return Exit.BAD_USAGE
    target = given.to.absolute()
    done = here_or_there(
        lambda: _back_up(given.ledger, target, compact=given.compact),
        BACKUP_PATH,
        {"to": str(target), "compact": given.compact},
        lambda told: Backup(**told),
    )
    say(
        f"{done.file} holds {done.row_count:,} rows in {done.size_bytes:,} bytes, "
        f"written and verified in {done.seconds:.1f} s"
    )
    return Exit.OK


def _back_up(file: Path, target: Path, *, compact: bool) -> Backup:
    # To write only where a crash left a log, which has to be merged into the file first.
    ledger = Ledger.open_as_it_is(file, to_write=has_log(file))
    try:
        return back_up(ledger, target, compact=compact)
    finally:
        ledger.close()


COMMAND = Command("backup", "Copy the ledger, also while a service fills it.", add_flags, run)
