"""Puts a batch of hours and attributes in place of what was there. Runs inside a transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from rightslice.ledger import replace_sql, tables
from rightslice.ledger.batch import Batch
from rightslice.ledger.columns import DatedTable, HourTable, columns_of

Run = Callable[..., Any]
ROLLED_TABLES = ("rolled_day", "card_day", "workload_day")


def replace_batch(run: Run, batch: Batch) -> None:
    """Put all of a batch in place; an hour that a more trusted source has told of stays."""
    if batch.cards:
        _replace_cards(run, batch.cards)
    for table, rows in (
        (tables.SLICE_HOUR, batch.slices),  # before the workloads on them
        (tables.WORKLOAD_HOUR, batch.workloads),
        (tables.OOM_HOUR, batch.ooms),
        (tables.ENGINE_HOUR, batch.engines),
        (tables.OWNER_HOUR, batch.owners),
        (tables.NIC_HOUR, batch.ports),
    ):
        if rows:
            _replace_hours(run, table, rows)
    for dated, told in (
        (tables.CARD_ATTRIBUTE, batch.attributes),
        (tables.WORKLOAD_ATTRIBUTE, batch.workload_attributes),
        (tables.PORT_ATTRIBUTE, batch.port_attributes),
    ):
        if told:
            _replace_attributes(run, dated, told)
    run("DROP TABLE IF EXISTS staged")


def _stage(run: Run, table: HourTable | DatedTable, rows: Sequence[Any]) -> None:
    columns = replace_sql.staged_columns(table)
    run(replace_sql.stage(columns), columns_of(rows, columns))


def _replace_cards(run: Run, rows: Sequence[Any]) -> None:
    _stage(run, tables.CARD_HOUR, rows)
    run(replace_sql.IGNORE_DROPPED_DAYS)
    run(replace_sql.add_entities(tables.CARD))
    _forget_rolled_days(run)
    run(replace_sql.DELETE_REPLACED_CARD_HOURS)
    for statement in replace_sql.DELETE_PARTS_OF_STAGED_CARD_HOURS:
        run(statement)
    run(replace_sql.insert(tables.CARD_HOUR))


def _replace_hours(run: Run, table: HourTable, rows: Sequence[Any]) -> None:
    _stage(run, table, rows)
    run(replace_sql.IGNORE_DROPPED_DAYS)
    for entity in (table.scope, *table.others):
        run(replace_sql.add_entities(entity))
    if table is tables.WORKLOAD_HOUR:
        _forget_rolled_days(run)
    run(replace_sql.delete_replaced(table))
    run(replace_sql.insert(table))


def _forget_rolled_days(run: Run) -> None:
    """Take back the sums of days that are told anew."""
    for table in ROLLED_TABLES:
        run(replace_sql.FORGET_ROLLED_DAYS.format(table=table))


def _replace_attributes(run: Run, table: DatedTable, rows: Sequence[Any]) -> None:
    _stage(run, table, rows)
    run(replace_sql.add_entities(table.entity))
    run(replace_sql.delete_replaced_attributes(table))
    run(replace_sql.insert_attributes(table))
