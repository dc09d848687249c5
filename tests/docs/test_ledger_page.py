"""The page of the ledger tells of every table and column."""

import re
from pathlib import Path

from rightslice.ledger.audit_check import DOUBTFUL
from rightslice.ledger.audit_checks import CHECKS
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.retention import LEAST_RETENTION

PAGE = (Path(__file__).resolve().parents[2] / "docs/ledger.md").read_text(encoding="utf-8")


def test_every_table_and_column_is_told() -> None:
    ledger = Ledger.open()
    rows = ledger.read(
        "read", "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
    )
    ledger.close()
    named = set(re.findall(r"`([a-z0-9_]+)`", PAGE))

    assert sorted({name for row in rows for name in row} - named) == []


def test_the_least_retention_is_the_one_that_holds() -> None:
    assert f"Less than {LEAST_RETENTION.days} days is refused" in PAGE


def test_what_is_doubtful_only_is_told() -> None:
    assert {check.code for check in CHECKS if check.severity == DOUBTFUL} == {"missing_hours"}
    assert "hours that are missing between two hours of a card" in PAGE
