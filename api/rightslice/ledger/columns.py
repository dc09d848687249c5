"""What a table of the ledger is made of: columns, the entities they tell of, kinds of tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rightslice.ledger.closure import milliseconds
from rightslice.ledger.levels import LEVELS_TYPE, MILLISECONDS_TYPE, levels_of

SECONDS = "DECIMAL(10, 3)"


def quoted_text(text: str) -> str:
    """Write a text into a statement that takes no parameters, such as ATTACH."""
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """Write a name into a statement, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def naive(moment: datetime) -> datetime:
    """Drop the zone: the file holds UTC throughout."""
    return moment.astimezone(UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Column:
    """A stored column, its SQL type, and its value in a row; seconds are staged as milliseconds."""

    name: str
    kind: str
    value: Callable[[Any], Any]

    @property
    def staged_kind(self) -> str:
        return "BIGINT" if self.kind == SECONDS else self.kind

    @property
    def from_stage(self) -> str:
        """Write the SQL that turns the staged value into the stored one."""
        if self.kind == SECONDS:
            return f"(staged.{self.name} / 1000)::{SECONDS} AS {self.name}"
        return f"staged.{self.name}"


@dataclass(frozen=True, slots=True)
class Entity:
    """What rows are about, under a surrogate id: its table, and the columns that name it.

    `more` columns are stored when it is first seen and never change.
    """

    table: str
    keys: tuple[Column, ...]
    more: tuple[Column, ...] = ()

    @property
    def id_column(self) -> str:
        return f"{self.table}_id"


@dataclass(frozen=True, slots=True)
class HourTable:
    """A table of hours. Hours of one `scope` are told by one source, the most trusted one.

    An optional entity is named by empty keys where there is none, and its id is null then.
    """

    table: str
    scope: Entity
    columns: tuple[Column, ...]
    others: tuple[Entity, ...] = ()
    optional: tuple[Entity, ...] = ()

    @property
    def entities(self) -> tuple[Entity, ...]:
        return (self.scope, *self.others, *self.optional)


@dataclass(frozen=True, slots=True)
class DatedTable:
    """What is told of an entity from an hour on: a row per change."""

    table: str
    entity: Entity
    columns: tuple[Column, ...]


def text(name: str, field: str = "") -> Column:
    return Column(name, "VARCHAR", lambda row: getattr(row, field or name))


def plain(name: str, kind: str) -> Column:
    return Column(name, kind, lambda row: getattr(row, name))


def whole(name: str) -> Column:
    """A count or an amount of bytes, rounded; null where it is not told."""

    def value(row: Any) -> int | None:
        told = getattr(row, name)
        return None if told is None else round(told)

    return Column(name, "BIGINT", value)


def seconds(name: str, most: Callable[[Any], float] | None = None) -> Column:
    """Seconds to the millisecond, none below 0; null where they are not told."""

    def value(row: Any) -> int | None:
        told = getattr(row, name)
        if told is None:
            return None
        return milliseconds(max(min(told, most(row)) if most else told, 0.0))

    return Column(name, SECONDS, value)


def histogram(name: str) -> tuple[Column, Column]:
    """Two columns of a histogram: levels, and milliseconds at each."""

    def value(row: Any, part: int) -> list[int] | None:
        return levels_of(getattr(row, f"{name}_bins"), getattr(row, f"{name}_interval_seconds"))[
            part
        ]

    return (
        Column(f"{name}_levels", LEVELS_TYPE, lambda row: value(row, 0)),
        Column(f"{name}_level_milliseconds", MILLISECONDS_TYPE, lambda row: value(row, 1)),
    )


HOUR = Column("hour", "TIMESTAMP", lambda row: naive(row.hour))
SINCE = Column("since", "TIMESTAMP", lambda row: naive(row.since))
SOURCE = text("source")
QUALITY = Column("quality", "VARCHAR[]", lambda row: list(row.quality))


def columns_of(rows: Sequence[Any], columns: Sequence[Column]) -> list[list[Any]]:
    """Turn rows into columns of values."""
    return [[column.value(row) for row in rows] for column in columns]
