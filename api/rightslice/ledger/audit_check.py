"""What a check of the ledger is: SQL that gives the rows which break what must hold.

A statement gives a text per broken row, which says where it is and what is wrong there. `$now` is
the present, where it is asked for.
"""

from dataclasses import dataclass

from rightslice.ledger.columns import HourTable

WRONG, DOUBTFUL = "wrong", "doubtful"

ASK_AGAIN = "tell those hours anew: `rightslice recommend --prometheus URL --window ...` replaces"
RESTORE = "restore a backup, or report it: the ledger never writes such rows"
CLOCK = "set the clock of the machine that told it, and have those hours told anew"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold of a table, and what to do where it does not."""

    code: str
    table: str
    what: str
    remedy: str
    statement: str
    severity: str = WRONG


def place(table: HourTable, **values: str) -> str:
    """Write the text that names a row of hours: its subject, its hour, and some named values."""
    keys = ", ".join(f"{table.scope.table}.{column.name}" for column in table.scope.keys)
    shown = "".join(
        f", ', {name} ', coalesce(({value})::VARCHAR, 'null')" for name, value in values.items()
    )
    return f"concat(concat_ws('/', {keys}), ' ', strftime(hour, '%Y-%m-%d %H:%M'){shown})"


def broken(table: HourTable, condition: str, **values: str) -> str:
    scope = table.scope
    return (
        f"SELECT {place(table, **values)} FROM {table.table} "
        f"LEFT JOIN {scope.table} USING ({scope.id_column}) WHERE {condition}"
    )
