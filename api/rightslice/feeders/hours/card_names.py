"""What cards are called that several sources tell of."""

from collections.abc import Sequence

from rightslice.feeders.hours.builder import CardName, HourTable
from rightslice.feeders.hours.spread import hour_start
from rightslice.ledger.attributes import CardAttributes


def named_anew(tables: Sequence[HourTable]) -> list[CardAttributes]:
    """Give what cards are called that were named anew: each part by the first that tells it."""
    hours: dict[str, int] = {}
    for table in tables:
        for uuid, hour in table.renamed.items():
            hours[uuid] = max(hour, hours.get(uuid, hour))
    rows = []
    for uuid, hour in sorted(hours.items()):
        names = [table.names.get(uuid, CardName()) for table in tables]
        told = (next(filter(None, parts), "") for parts in zip(*names, strict=True))
        rows.append(CardAttributes(uuid, hour_start(hour), *told))
    return rows
