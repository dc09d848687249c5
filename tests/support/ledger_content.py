"""All that a ledger holds, by names rather than by its own numbers, to compare two ledgers."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from rightslice.ledger.ledger import Ledger

# What is spread over the time between two edges may differ by what one interval of it holds.
INTERVAL_SHARE = 60 / 3600
WORKLOAD = "w.kind, w.namespace, w.pod, w.container"
STATEMENTS = {
    "cards": "SELECT c.uuid, h.* EXCLUDE (card_id) FROM card_hour h JOIN card c USING (card_id)",
    "slices": "SELECT c.uuid, s.slice_uuid, s.profile, h.* EXCLUDE (card_id, slice_id) FROM "
    "slice_hour h JOIN card c USING (card_id) JOIN slice s USING (slice_id)",
    "workloads": f"SELECT c.uuid, {WORKLOAD}, s.slice_uuid, "
    "h.* EXCLUDE (card_id, workload_id, slice_id) FROM workload_hour h JOIN card c USING (card_id) "
    "JOIN workload w USING (workload_id) LEFT JOIN slice s USING (slice_id)",
    "ports": "SELECT p.* EXCLUDE (port_id), h.* EXCLUDE (port_id) FROM nic_hour h "
    "JOIN port p USING (port_id)",
    "ooms": f"SELECT {WORKLOAD}, h.* EXCLUDE (workload_id) FROM oom_hour h "
    "JOIN workload w USING (workload_id)",
    "card attributes": "SELECT c.uuid, a.* EXCLUDE (card_id) FROM card_attribute a "
    "JOIN card c USING (card_id)",
    "workload attributes": f"SELECT {WORKLOAD}, a.* EXCLUDE (workload_id) FROM "
    "workload_attribute a JOIN workload w USING (workload_id)",
    "port attributes": "SELECT p.node, p.device, p.port, p.kind, a.* EXCLUDE (port_id) FROM "
    "port_attribute a JOIN port p USING (port_id)",
}


def content(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Give the rows of each table, in an order of their own."""
    return {
        name: ledger.read("read all", f"{statement} ORDER BY ALL")
        for name, statement in STATEMENTS.items()
    }


def hours_between(
    ledger: Ledger, start: datetime, end: datetime
) -> dict[str, list[tuple[Any, ...]]]:
    """Give the rows of the hours in [start, end)."""
    span = [start.replace(tzinfo=None), end.replace(tzinfo=None)]
    return {
        name: ledger.read(
            "read hours", f"{statement} WHERE h.hour >= ? AND h.hour < ? ORDER BY ALL", span
        )
        for name, statement in STATEMENTS.items()
        if " h " in statement
    }


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare ledgers of which the hours were read in other spans.

    Seconds are the same. What is spread over the time between two edges may differ by what one
    interval holds.
    """
    assert found.keys() == wanted.keys()
    for name, rows in wanted.items():
        assert len(found[name]) == len(rows), name
        for row, other in zip(rows, found[name], strict=True):
            for one, two in zip(row, other, strict=True):
                if isinstance(one, Decimal):
                    assert float(two) == pytest.approx(float(one), abs=0.01), (row, other)
                elif isinstance(one, float | int) and not isinstance(one, bool):
                    assert two == pytest.approx(one, rel=INTERVAL_SHARE), (row, other)
                elif not isinstance(one, list):  # levels, and how long each was held
                    assert two == one, (row, other)
