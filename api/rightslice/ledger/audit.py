"""Verifies a ledger: what is wrong, where, how often, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import duckdb

from rightslice.ledger.audit_check import DOUBTFUL, WRONG, Check
from rightslice.ledger.audit_checks import CHECKS
from rightslice.ledger.audit_sums import wrong_sums
from rightslice.ledger.columns import naive
from rightslice.ledger.errors import first_line
from rightslice.ledger.ledger import Ledger

Run = Callable[..., Any]

MOST_EXAMPLES = 5
FREE_RATIO = 0.5
COLUMNS = """
    SELECT table_name, string_agg(column_name, ', ') FROM duckdb_columns()
    WHERE database_name = current_database() AND NOT internal
    GROUP BY table_name ORDER BY table_name
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong or doubtful in a table, with the first examples of `count`."""

    code: str
    severity: str
    table: str
    what: str
    remedy: str
    count: int
    examples: list[str]


@dataclass(frozen=True, slots=True)
class Audit:
    """What a ledger holds and what was found in it; sizes are None for one in memory.

    `row_counts` leaves out tables that cannot be read.
    """

    ledger: str
    size_bytes: int | None
    bytes_per_row: float | None
    row_counts: dict[str, int]
    first_hour: str | None
    last_hour: str | None
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        return all(finding.severity != WRONG for finding in self.findings)


def audit(ledger: Ledger, now: datetime) -> Audit:
    """Verify everything that must hold, in one state of the ledger. Raises LedgerError."""
    with ledger.snapshot("check") as run:
        rows, found = _read_everything(run)
        if not found:  # else the checks would stumble over what cannot be read
            found = [*_findings(run, now), *_sums(run)]
        found += _free_space(run)
        first, last = _span(run) if "card_hour" in rows else (None, None)
    size = ledger.file.stat().st_size if ledger.file else None
    total = sum(rows.values())
    return Audit(
        ledger=str(ledger.file or "in memory"),
        size_bytes=size,
        bytes_per_row=round(size / total, 1) if size and total else None,
        row_counts=rows,
        first_hour=first,
        last_hour=last,
        findings=found,
    )


def _read_everything(run: Run) -> tuple[dict[str, int], list[Finding]]:
    """Read every column of every table once: each block of the file has a checksum."""
    rows, findings = {}, []
    for name, columns in run(COLUMNS).fetchall():
        try:
            # The sum makes it read the rows, where a count alone is told by the file's index.
            rows[name] = run(f"SELECT count(*), sum(hash({columns})) FROM {name}").fetchone()[0]
        except duckdb.Error as error:
            findings.append(_unreadable(name, error))
            _begin_again(run)
    return rows, findings


def _unreadable(table: str, error: duckdb.Error) -> Finding:
    return Finding(
        "unreadable",
        WRONG,
        table,
        "a part of the table cannot be read",
        "look after the disk, and restore a backup",
        1,
        [first_line(error)],
    )


def _begin_again(run: Run) -> None:
    """Go on after an error, which has ended the transaction."""
    run("ROLLBACK")
    run("BEGIN")


def _findings(run: Run, now: datetime) -> Iterator[Finding]:
    for check in CHECKS:
        found = _finding(run, check, now)
        if found is not None:
            yield found


def _finding(run: Run, check: Check, now: datetime) -> Finding | None:
    statement = (
        f"SELECT broken, count(*) OVER () FROM ({check.statement}) AS found(broken) "
        f"ORDER BY broken LIMIT {MOST_EXAMPLES}"
    )
    broken = run(statement, {"now": naive(now)} if "$now" in statement else {}).fetchall()
    if not broken:
        return None
    examples = [text for text, _ in broken]
    return Finding(
        check.code,
        check.severity,
        check.table,
        check.what,
        check.remedy,
        broken[0][1],
        examples,
    )


def _sums(run: Run) -> Iterator[Finding]:
    wrong = list(wrong_sums(run))
    if wrong:
        yield Finding(
            "wrong_sums",
            WRONG,
            "card_day",
            "a day's sums are not the sums of its hours",
            "have an hour of that day told anew: it is summed again then",
            len(wrong),
            list(islice(wrong, MOST_EXAMPLES)),
        )


def _free_space(run: Run) -> Iterator[Finding]:
    used, free, block_size = run(
        "SELECT used_blocks, free_blocks, block_size FROM pragma_database_size() "
        "WHERE database_name = current_database()"
    ).fetchone()
    if free > FREE_RATIO * (used + free) and free > 64:
        yield Finding(
            "mostly_free",
            DOUBTFUL,
            "",
            "more than half of the file is free; new hours will fill it before it grows",
            "if the space is needed now: end the service, `rightslice backup --compact`, and put "
            "the copy in the file's place",
            1,
            [f"{free * block_size:,} bytes of {(used + free) * block_size:,}"],
        )


def _span(run: Run) -> tuple[str | None, str | None]:
    first, last = run("SELECT min(hour), max(hour) FROM card_hour").fetchone()
    return (f"{first:%Y-%m-%dT%H:%MZ}", f"{last:%Y-%m-%dT%H:%MZ}") if first else (None, None)
