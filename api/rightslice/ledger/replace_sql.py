"""The SQL that puts told rows in place of those of the same source; values are parameters."""

from collections.abc import Iterable

from rightslice.ledger.columns import SINCE, Column, DatedTable, Entity, HourTable
from rightslice.ledger.rows import SOURCE_PRECEDENCE


def precedence(source: str) -> str:
    """Write how far a source is trusted, as SOURCE_PRECEDENCE tells it."""
    cases = " ".join(f"WHEN '{name}' THEN {rank}" for name, rank in SOURCE_PRECEDENCE.items())
    return f"CASE {source} {cases} ELSE 0 END"


def staged_columns(table: HourTable | DatedTable) -> list[Column]:
    """Give the columns in which rows of a table are told: those that name them, then theirs.

    No name comes twice: entities may share a part of theirs.
    """
    entities = table.entities if isinstance(table, HourTable) else (table.entity,)
    columns = [one for entity in entities for one in (*entity.keys, *entity.more)]
    columns += table.columns if isinstance(table, HourTable) else (SINCE, *table.columns)
    named = {column.name: column for column in columns}
    return list(named.values())


def stage(columns: Iterable[Column]) -> str:
    """Write the statement that takes in columns of values; `told` is a row's place."""
    unnested = ", ".join(
        f"unnest(${number}::{column.staged_kind}[]) AS {column.name}"
        for number, column in enumerate(columns, start=1)
    )
    return (
        f"CREATE OR REPLACE TEMP TABLE staged AS SELECT {unnested}, "
        "generate_subscripts($1, 1) AS told"
    )


def add_entities(entity: Entity) -> str:
    """Write the statement that gives an id to each staged entity that has none yet."""
    keys = ", ".join(column.name for column in entity.keys)
    more = "".join(f", any_value({column.name})" for column in entity.more)
    names = ", ".join(column.name for column in (*entity.keys, *entity.more))
    return f"""
        INSERT INTO {entity.table} ({names})
        SELECT {keys}{more} FROM staged ANTI JOIN {entity.table} USING ({keys}) GROUP BY {keys}
    """


def _join(entity: Entity, *, optional: bool = False) -> str:
    keys = " AND ".join(
        f"{entity.table}.{column.name} = staged.{column.name}" for column in entity.keys
    )
    return f"{'LEFT ' if optional else ''}JOIN {entity.table} ON {keys}"


def _joins(table: HourTable) -> str:
    required = [_join(entity) for entity in (table.scope, *table.others)]
    return " ".join([*required, *(_join(entity, optional=True) for entity in table.optional)])


def delete_replaced(table: HourTable) -> str:
    """Write the statement that takes out what a source that is trusted as much tells anew."""
    scope = table.scope
    return f"""
        DELETE FROM {table.table} USING (
            SELECT {scope.id_column}, hour, max({precedence("staged.source")}) AS precedence
            FROM staged {_join(scope)} GROUP BY ALL
        ) AS told
        WHERE {table.table}.{scope.id_column} = told.{scope.id_column}
          AND {table.table}.hour = told.hour
          AND {precedence(f"{table.table}.source")} <= told.precedence
    """


def insert(table: HourTable) -> str:
    """Write the statement that puts staged rows in, of each scope those of its best source."""
    scope = table.scope.id_column
    ids = ", ".join(f"{entity.table}.{entity.id_column}" for entity in table.entities)
    names = ", ".join(
        [*(entity.id_column for entity in table.entities), *(one.name for one in table.columns)]
    )
    values = ", ".join(column.from_stage for column in table.columns)
    trust = precedence("staged.source")
    return f"""
        INSERT INTO {table.table} ({names})
        SELECT {ids}, {values} FROM staged {_joins(table)}
        WHERE NOT EXISTS (
            SELECT 1 FROM {table.table} AS kept
            WHERE kept.{scope} = {table.scope.table}.{scope} AND kept.hour = staged.hour
        )
        QUALIFY rank() OVER (
            PARTITION BY {table.scope.table}.{scope}, staged.hour ORDER BY {trust} DESC
        ) = 1
    """


DELETE_REPLACED_CARD_HOURS = f"""
    DELETE FROM card_hour USING staged JOIN card ON card.uuid = staged.uuid
    WHERE card_hour.card_id = card.card_id AND card_hour.hour = staged.hour
      AND (
        -- What nothing was seen of yields to anybody, and replaces nothing that was seen.
        (card_hour.observed_seconds = 0 AND staged.observed_seconds > 0)
        OR ({precedence("card_hour.source")} <= {precedence("staged.source")}
            AND (staged.observed_seconds > 0 OR card_hour.observed_seconds = 0))
      )
"""
# A card's hour is told anew as a whole: what was on it and is not told any more is gone from it. Of
# an hour that stays, since the staged one saw nothing, its parts stay too.
DELETE_PARTS_OF_STAGED_CARD_HOURS = tuple(
    f"""
    DELETE FROM {table} USING staged JOIN card ON card.uuid = staged.uuid
    WHERE {table}.card_id = card.card_id AND {table}.hour = staged.hour
      AND {table}.source = staged.source
      AND NOT EXISTS (
        SELECT 1 FROM card_hour AS kept
        WHERE kept.card_id = {table}.card_id AND kept.hour = {table}.hour
          AND kept.source = {table}.source
      )
    """
    for table in ("workload_hour", "slice_hour")
)
# Hours that were dropped for their age cannot be told anew: the day's sum would be of those alone.
IGNORE_DROPPED_DAYS = """
    DELETE FROM staged
    WHERE date_trunc('day', hour) IN (SELECT day FROM rolled_day WHERE NOT has_hours)
"""
FORGET_ROLLED_DAYS = (
    "DELETE FROM {table} WHERE day IN (SELECT DISTINCT date_trunc('day', hour) FROM staged)"
)


def delete_replaced_attributes(table: DatedTable) -> str:
    """Write the statement that takes out what was told of the same moment before."""
    entity = table.entity
    return f"""
        DELETE FROM {table.table} USING staged {_join(entity)}
        WHERE {table.table}.{entity.id_column} = {entity.table}.{entity.id_column}
          AND {table.table}.since = staged.since
    """


def insert_attributes(table: DatedTable) -> str:
    """Write the statement that adds a dated row where something changed, and nowhere else.

    Of two tellers at one moment the last one counts.
    """
    entity, key = table.entity, table.entity.id_column
    names = ", ".join(column.name for column in table.columns)
    same = " AND ".join(
        f"known.{column.name} IS NOT DISTINCT FROM told.{column.name}" for column in table.columns
    )
    values = ", ".join(column.from_stage for column in table.columns)
    return f"""
        WITH told AS (
            SELECT {entity.table}.{key}, staged.since, {values} FROM staged {_join(entity)}
            QUALIFY row_number() OVER (
                PARTITION BY {entity.table}.{key}, staged.since ORDER BY staged.told DESC
            ) = 1
        ), last AS (
            SELECT told.{key}, told.since, max(old.since) AS known_since
            FROM told JOIN {table.table} AS old
              ON old.{key} = told.{key} AND old.since <= told.since
            GROUP BY ALL
        )
        INSERT INTO {table.table} ({key}, since, {names})
        SELECT told.{key}, told.since, {", ".join(f"told.{one.name}" for one in table.columns)}
        FROM told LEFT JOIN last ON last.{key} = told.{key} AND last.since = told.since
        LEFT JOIN {table.table} AS known
          ON known.{key} = told.{key} AND known.since = last.known_since
        WHERE known.{key} IS NULL OR NOT ({same})
    """
