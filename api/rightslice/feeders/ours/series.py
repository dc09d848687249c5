"""What the table of our metrics makes of one series: found once, kept while the series comes again.

Who reads series gives each the same labels again and again, not only equal ones: that is what a
series is known by here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rightslice.contract.histogram import BIN_COUNT, RATIO_EDGES
from rightslice.feeders.counters import Key
from rightslice.feeders.hours.facts import Entity
from rightslice.feeders.ours.metrics import RULES_BY_NAME
from rightslice.feeders.ours.rules import GROWING, How, Rule
from rightslice.feeders.ours.tables import OF_NODES
from rightslice.feeders.readings import Reading

# Of more than so many of one metric all are found anew.
MOST_REMEMBERED = 20_000
# As our exporter writes them, and as OpenMetrics spells whole numbers.
_BIN_OF_EDGE = {repr(edge): index for index, edge in enumerate(RATIO_EDGES)}
_BIN_OF_EDGE |= {"1": _BIN_OF_EDGE["1.0"], "+Inf": BIN_COUNT - 1}


class Step(NamedTuple):
    """What one rule makes of a series: of which thing it tells, and where in the thing's hour.

    `key` names its counter. Rules' properties that each reading asks for stand here.
    """

    rule: Rule
    named: Entity
    key: Key
    slot: str
    seconds_per_unit: float
    is_growing: bool
    is_of_node: bool


class Bucket(NamedTuple):
    """Where a histogram's series belongs; `bin_index` is None for an edge that is not ours."""

    labels: tuple[str, ...]
    bin_index: int | None


@dataclass(slots=True)
class SeriesBook:
    """All series that came lately. Their labels are kept with them, so that no others stand there.

    Metrics may share labels: each has its own.
    """

    _steps: dict[str, dict[int, tuple[Mapping[str, str], tuple[Step, ...]]]] = field(
        default_factory=dict
    )
    _buckets: dict[str, dict[int, tuple[Mapping[str, str], Bucket]]] = field(default_factory=dict)

    def steps(
        self, name: str, readings: Iterable[Reading]
    ) -> Iterator[tuple[tuple[Step, ...], float]]:
        """Give what is to be done with a metric's values, other than a histogram's."""
        steps = self._steps.setdefault(name, {})
        for _, labels, value in readings:
            known = steps.get(id(labels))
            if known is None:
                if len(steps) >= MOST_REMEMBERED:
                    steps.clear()
                known = steps[id(labels)] = (labels, tuple(_steps(name, labels)))
            yield known[1], value

    def buckets(self, rule: Rule, readings: Iterable[Reading]) -> Iterator[tuple[Reading, Bucket]]:
        """Give the series of a rule's histogram their places; rules of one metric agree on them."""
        places = self._buckets.setdefault(rule.name, {})
        for reading in readings:
            labels = reading[1]
            known = places.get(id(labels))
            if known is None:
                if len(places) >= MOST_REMEMBERED:
                    places.clear()
                found = Bucket(_told(rule, labels), _BIN_OF_EDGE.get(labels.get("le", "")))
                known = places[id(labels)] = (labels, found)
            yield reading, known[1]

    def forget(self) -> None:
        """Drop all: these series do not come again with these labels."""
        self._steps.clear()
        self._buckets.clear()


def _steps(name: str, labels: Mapping[str, str]) -> list[Step]:
    return [
        Step(
            rule,
            named,
            (rule.spec.name, *_told(rule, labels)),
            rule.slot(labels),
            1 / rule.most_per_second,
            rule.how in GROWING,
            rule.thing in OF_NODES,
        )
        for rule in RULES_BY_NAME.get(name, ())
        if rule.how is not How.BINS and (named := rule.entity(labels)) is not None
    ]


def _told(rule: Rule, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple([labels.get(label, "") for label in rule.spec.labels])
