"""Reads where each card was, and until when: one stay per card and place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rightslice.ledger.columns import naive

Read = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

# A card that is not seen for so many hours in which others were is gone. Feeders own it as long.
DEPARTED_HOURS = 24


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a card sits; each part is empty where nobody tells. `slot` is its PCI bus id."""

    cluster: str
    node: str
    slot: str

    @property
    def host(self) -> tuple[str, str]:
        """Name the node among those of all clusters."""
        return self.cluster, self.node

    def differs(self, other: "Place") -> bool:
        """Tell whether these are surely two places: a part told of both is not the same."""
        pairs = zip((*self.host, self.slot), (*other.host, other.slot), strict=True)
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)

    def filled_from(self, other: "Place") -> "Place":
        """Take parts that are not told here from what was told before of the same place."""
        return Place(
            self.cluster or other.cluster, self.node or other.node, self.slot or other.slot
        )


@dataclass(frozen=True, slots=True)
class Stay:
    """A card in one place, from the first hour in which it was seen there to its last reading.

    Unseen hours are those in which other cards were seen and this one was not: up to its stay
    before or after, or else to the ends of what was read. `name` is what NVML called it at last.
    """

    uuid: str
    name: str
    place: Place
    since: datetime
    until: datetime
    unseen_before_count: int
    unseen_after_count: int


# Hours in which any card was seen count on; so an outage of the service makes no card depart. Hours
# of one day are taken together first: within it nobody can be away for as long as it takes.
# $1 is a day before the window [$3, $2): of a card not seen in that day, the last stay before it is
# read by its end alone.
STAYS = f"""
    WITH seen AS (
        SELECT card_id, hour, seen_until FROM card_hour
        WHERE hour >= $1 AND hour < $2 AND observed_seconds > 0
    ), clock AS (
        SELECT hour, row_number() OVER (ORDER BY hour) AS tick
        FROM (SELECT DISTINCT hour FROM seen)
    ), before AS (
        SELECT card_id, max(hour) AS hour, max(seen_until) AS seen_until FROM card_hour
        WHERE hour < $1 AND observed_seconds > 0 AND card_id IN (
            SELECT card_id FROM seen GROUP BY card_id HAVING min(hour) >= $3
        ) GROUP BY card_id
    ), told AS (
        SELECT * FROM seen JOIN clock USING (hour)
        UNION ALL BY NAME SELECT *, 0 AS tick FROM before
    ), place AS (
        SELECT *, lead(since, 1, TIMESTAMP 'infinity') OVER (
            PARTITION BY card_id ORDER BY since
        ) AS ended
        FROM card_attribute
    ), days AS (
        SELECT told.card_id, coalesce(cluster, '') AS cluster, coalesce(node, '') AS node,
            coalesce(slot, '') AS slot, coalesce(any_value(name), '') AS name,
            min(hour) AS hour, max(coalesce(seen_until, hour + INTERVAL 1 HOUR)) AS seen_until,
            min(tick) AS first_tick, max(tick) AS last_tick
        FROM told LEFT JOIN place
            ON place.card_id = told.card_id AND hour >= since AND hour < ended
        GROUP BY told.card_id, date_trunc('day', hour), cluster, node, slot, since
    ), marked AS (
        SELECT *,
            first_tick - lag(last_tick) OVER card > {DEPARTED_HOURS}  -- as many lie between
            OR (cluster, node, slot) IS DISTINCT FROM lag((cluster, node, slot)) OVER card
                AS is_start
        FROM days WINDOW card AS (PARTITION BY card_id ORDER BY hour)
    ), numbered AS (
        SELECT *, count(*) FILTER (is_start) OVER (
            PARTITION BY card_id ORDER BY hour
        ) AS stay
        FROM marked
    ), stays AS (
        SELECT card_id, cluster, node, slot, last(name ORDER BY hour) AS name,
            min(hour) AS since, max(seen_until) AS until,
            min(first_tick) AS first_tick, max(last_tick) AS last_tick
        FROM numbered GROUP BY card_id, cluster, node, slot, stay
    )
    SELECT uuid, name, cluster, node, slot, since, until,
        greatest(first_tick - coalesce(lag(last_tick) OVER card, 0) - 1, 0),
        coalesce(lead(first_tick) OVER card, (SELECT max(tick) + 1 FROM clock)) - last_tick - 1
    FROM stays JOIN card USING (card_id)
    WINDOW card AS (PARTITION BY card_id ORDER BY since)
    ORDER BY uuid, since
"""
# The day before a window, as far as cards were seen in it: who is not seen in it arrives.
DAY_BEFORE = f"""
    SELECT min(hour) FROM (
        SELECT DISTINCT hour FROM card_hour WHERE hour < $1 AND observed_seconds > 0
        ORDER BY hour DESC LIMIT {DEPARTED_HOURS}
    )
"""


def card_stays(read: Read, start: datetime, end: datetime) -> list[Stay]:
    """Give the stays that reach into [start, end) or the day before it, by card and time.

    Only hours in which a card was seen count.
    """
    [(begin,)] = read(DAY_BEFORE, [naive(start)])
    stays: list[Stay] = []
    for row in read(STAYS, [begin or naive(start), naive(end), naive(start)]):
        stay = _stay(row)
        if stays and _goes_on(stays[-1], stay):
            stays[-1] = _joined(stays[-1], stay)
        else:
            stays.append(stay)
    return stays


def _stay(row: tuple[Any, ...]) -> Stay:
    uuid, name, cluster, node, slot, since, until, before, after = row
    place = Place(cluster, node, slot)
    return Stay(
        uuid, name, place, since.replace(tzinfo=UTC), until.replace(tzinfo=UTC), before, after
    )


def _goes_on(stay: Stay, following: Stay) -> bool:
    """Tell whether the next stay is the same one, of which more or less was told."""
    return (
        stay.uuid == following.uuid
        and not stay.place.differs(following.place)
        and following.unseen_before_count < DEPARTED_HOURS
    )


def _joined(stay: Stay, following: Stay) -> Stay:
    return replace(
        stay,
        name=following.name or stay.name,
        place=following.place.filled_from(stay.place),
        until=following.until,
        unseen_after_count=following.unseen_after_count,
    )
