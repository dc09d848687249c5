"""The command `check`: verifies a ledger, and says what is wrong and what to do about it."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from rightslice.api.command import Command, Exit, say
from rightslice.api.holder import here_or_there
from rightslice.api.ledger_files import CHECK_PATH
from rightslice.api.output import PIPE_WIDTH
from rightslice.ledger.audit import Audit, Finding, audit
from rightslice.ledger.audit_check import WRONG
from rightslice.ledger.ledger import Ledger

FORMATS = ("table", "json")


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="form of the answer (default %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Verify a ledger; ends with 1 when something in it is wrong."""
    if given.ledger is None:
        say("nothing to check; give --ledger FILE")
        return Exit.BAD_USAGE
    found = here_or_there(lambda: _audit(given.ledger), CHECK_PATH, {}, _read)
    if given.output == "json":
        body = {"is_sound": found.is_sound, **asdict(found)}
        sys.stdout.write(json.dumps(body, ensure_ascii=False, indent=2) + "\n")
    else:
        _print(found)
    return Exit.OK if found.is_sound else Exit.FAILED


def _audit(file: Path) -> Audit:
    ledger = Ledger.open_to_read(file, migrate=False)
    try:
        return audit(ledger, datetime.now(UTC))
    finally:
        ledger.close()


def _read(told: dict[str, Any]) -> Audit:
    findings = [Finding(**finding) for finding in told.pop("findings")]
    return Audit(**told, findings=findings)


def _print(found: Audit) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    lines = [_summary(found)]
    for finding in found.findings:
        place = f" in {finding.table}" if finding.table else ""
        lines += [
            "",
            f"{finding.severity}: {finding.what} ({finding.code}{place}, {finding.count:,} x)",
        ]
        lines += [f"    {example}" for example in finding.examples]
        lines.append(f"  remedy: {finding.remedy}")
    wrong = sum(finding.severity == WRONG for finding in found.findings)
    lines += ["", f"{wrong} things are wrong, {len(found.findings) - wrong} are doubtful."]
    for line in lines:
        # As text, not as markup: names come from outside.
        console.print(Text(line), soft_wrap=True)


def _summary(found: Audit) -> str:
    size = f"{found.size_bytes:,} bytes" if found.size_bytes is not None else "in memory"
    per_row = f", {found.bytes_per_row} a row" if found.bytes_per_row is not None else ""
    span = f"hours {found.first_hour} to {found.last_hour}" if found.first_hour else "no hour"
    return f"{found.ledger}: {sum(found.row_counts.values()):,} rows, {size}{per_row}; {span}"


COMMAND = Command("check", "Verify a ledger, and say what is wrong.", add_flags, run)
