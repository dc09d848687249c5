"""What must hold in every ledger: of its names, its hours, its histograms, its dated attributes."""

from collections.abc import Iterator

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger import tables
from rightslice.ledger.audit_card_checks import CARD_CHECKS
from rightslice.ledger.audit_check import ASK_AGAIN, CLOCK, RESTORE, Check, broken, place
from rightslice.ledger.columns import SECONDS, DatedTable, Entity, HourTable
from rightslice.ledger.rows import SECONDS_PER_HOUR

# What tells the rows of one scope and hour apart, where its entities do not.
MORE_KEYS = {"oom_hour": ("cause",), "engine_hour": ("engine",)}
PARTS = ("unknown", "unallocated", "busy", "idle", "unmeasured")
# Of several contexts or host cores together: they may be more than the hour.
UNBOUND = ("cpu_seconds", "wait_seconds", "wait_bound_seconds")
HISTOGRAMS = {
    "card_hour": ("memory", "busy", "sm_active"),
    "slice_hour": ("sm_active",),
    "workload_hour": ("memory", "busy"),
}


def _all() -> Iterator[Check]:
    for entity in tables.ENTITIES:
        yield from _entity_checks(entity)
    for table in tables.HOUR_TABLES:
        yield from _hour_checks(table)
    for table in (tables.CARD_HOUR, tables.SLICE_HOUR):
        yield _parts_check(table)
    for table in tables.HOUR_TABLES:
        for histogram in HISTOGRAMS.get(table.table, ()):
            yield from _histogram_checks(table, histogram)
    for dated in tables.DATED_TABLES:
        yield from _dated_checks(dated)
    yield from CARD_CHECKS


def _entity_checks(entity: Entity) -> Iterator[Check]:
    names = ", ".join(column.name for column in entity.keys)
    yield Check(
        "named_twice",
        entity.table,
        "a name stands for two ids",
        RESTORE,
        f"SELECT concat_ws('/', {names}) FROM {entity.table} GROUP BY {names} HAVING count(*) > 1",
    )
    yield Check(
        "id_twice",
        entity.table,
        "an id stands for two names",
        RESTORE,
        f"SELECT concat('id ', {entity.id_column}) FROM {entity.table} "
        f"GROUP BY {entity.id_column} HAVING count(*) > 1",
    )


def _hour_checks(table: HourTable) -> Iterator[Check]:
    name, scope = table.table, table.scope
    yield Check(
        "off_the_hour",
        name,
        "an hour does not begin at a whole hour (UTC)",
        RESTORE,
        broken(table, "hour <> date_trunc('hour', hour)"),
    )
    yield Check(
        "in_the_future", name, "an hour is yet to come", CLOCK, broken(table, "hour > $now")
    )
    numbers = [
        column.name
        for column in table.columns
        if column.kind in (SECONDS, "BIGINT", "INTEGER", "DOUBLE")
    ]
    least = f"least({', '.join(numbers)})"
    yield Check(
        "negative",
        name,
        "a number is negative",
        RESTORE,
        broken(table, f"{least} < 0", least=least),
    )
    bound = [c.name for c in table.columns if c.kind == SECONDS and c.name not in UNBOUND]
    if bound:
        most = f"greatest({', '.join(bound)})"
        yield Check(
            "above_the_hour",
            name,
            "something lasted longer than the hour",
            RESTORE,
            broken(table, f"{most} > {SECONDS_PER_HOUR}", most=most),
        )
    ids = [entity.id_column for entity in table.entities]
    keys = ", ".join([*ids, "hour", *MORE_KEYS.get(name, ())])
    yield Check(
        "told_twice",
        name,
        "an hour is there twice",
        RESTORE,
        _broken_groups(table, keys, "count(*) > 1"),
    )
    yield Check(
        "two_sources",
        name,
        "an hour is of two sources, so that its sums count twice",
        ASK_AGAIN,
        _broken_groups(
            table,
            ", ".join([scope.id_column, "hour", *MORE_KEYS.get(name, ())]),
            "count(DISTINCT source) > 1",
        ),
    )
    optional = {entity.id_column for entity in table.optional}
    for entity in table.entities:
        key = entity.id_column
        present = f"AND {key} IS NOT NULL" if key in optional else ""
        yield Check(
            "orphan",
            name,
            f"a row is of no {entity.table} that has a name",
            RESTORE,
            f"SELECT concat('{key} ', {key}, ' ', hour) FROM {name} "
            f"ANTI JOIN {entity.table} USING ({key}) WHERE true {present}",
        )


def _broken_groups(table: HourTable, keys: str, condition: str) -> str:
    scope = table.scope
    return (
        f"SELECT {place(table)} FROM "
        f"(SELECT {keys} FROM {table.table} GROUP BY {keys} HAVING {condition}) "
        f"LEFT JOIN {scope.table} USING ({scope.id_column})"
    )


def _parts_check(table: HourTable) -> Check:
    parts = " + ".join(f"{part}_seconds" for part in PARTS)
    return Check(
        "parts_do_not_sum",
        table.table,
        "unknown, unallocated, busy, idle and unmeasured do not make up the hour",
        RESTORE,
        broken(table, f"owned_seconds <> {parts}", owned="owned_seconds", parts=parts),
    )


def _histogram_checks(table: HourTable, histogram: str) -> Iterator[Check]:
    levels, amounts = f"{histogram}_levels", f"{histogram}_level_milliseconds"
    yield Check(
        "broken_histogram",
        table.table,
        f"the lists of the {histogram} histogram do not belong together",
        RESTORE,
        broken(
            table,
            f"({levels} IS NULL) <> ({amounts} IS NULL) OR len({levels}) <> len({amounts}) "
            f"OR list_max({levels}) >= {BIN_COUNT} "
            f"OR {levels} <> list_sort(list_distinct({levels}))",
            levels=levels,
            milliseconds=amounts,
        ),
    )
    watched = [c.name for c in table.columns if c.name.endswith("observed_seconds")]
    most = f"greatest({', '.join(watched)}) + {histogram}_interval_seconds"
    yield Check(
        "histogram_too_long",
        table.table,
        f"the {histogram} histogram holds more time than was observed",
        ASK_AGAIN,
        broken(
            table,
            f"list_sum({amounts}) > 1000 * ({most})",
            held=f"list_sum({amounts}) / 1000",
            most=most,
        ),
    )


def _dated_checks(table: DatedTable) -> Iterator[Check]:
    key = table.entity.id_column
    names = ", ".join(column.name for column in table.entity.keys)
    yield Check(
        "told_twice",
        table.table,
        "two rows are of the same moment",
        RESTORE,
        f"SELECT concat(concat_ws('/', {names}), ' ', since) FROM "
        f"(SELECT {key}, since FROM {table.table} GROUP BY ALL HAVING count(*) > 1) "
        f"LEFT JOIN {table.entity.table} USING ({key})",
    )
    yield Check(
        "orphan",
        table.table,
        f"a row is of no {table.entity.table} that has a name",
        RESTORE,
        f"SELECT concat('{key} ', {key}, ' ', since) FROM {table.table} "
        f"ANTI JOIN {table.entity.table} USING ({key})",
    )
    yield Check(
        "in_the_future",
        table.table,
        "something is told of a moment yet to come",
        CLOCK,
        f"SELECT concat('{key} ', {key}, ' ', since) FROM {table.table} "
        "WHERE since > $now + INTERVAL 1 HOUR",
    )


CHECKS = tuple(_all())
