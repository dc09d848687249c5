"""Reads other exporters' gauges out of a Prometheus, sample by sample, some cards at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rightslice.feeders.gauges.labels import read_labels
from rightslice.feeders.gauges.mapping import GaugeMapping, first_label
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.parts import QuerySize, ask_in_parts
from rightslice.feeders.prometheus.selectors import of_names, target_matchers

# 20 cards with six fields at 15 s are 700,000 samples a day; answers tell it better.
CARDS_PER_QUERY = 20
# Readings before the window's start give the first hour its first difference; beyond its end lies
# the reading that straddles it.
LEAD_SECONDS = 600.0

# Labels that name a card, and their values.
Names = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GaugeCards:
    """The series that a Prometheus holds of one exporter's mapping; cards by the labels' values."""

    mapping: GaugeMapping
    metric_names: tuple[str, ...] = ()
    label_sets: Sequence[Mapping[str, str]] = ()
    cards: Mapping[str, frozenset[Names]] = field(default_factory=dict)

    @property
    def told_name(self) -> str:
        """Name the metric that tells whether cards were read; empty where there is none."""
        told = {name.upper(): name for name in self.metric_names}
        wanted = (
            spelling.upper()
            for metric in self.mapping.metrics
            for spelling in self.mapping.spellings(metric.name)
        )
        return next((told[name] for name in wanted if name in told), "")


def find_cards(
    client: PrometheusClient,
    mappings: Sequence[GaugeMapping],
    start_seconds: float,
    end_seconds: float,
) -> list[GaugeCards]:
    """Look up which cards exporters told of in a span; of those that told. Raises SourceError."""
    if not mappings:
        return []
    names = dict.fromkeys(name for mapping in mappings for name in mapping.series_names)
    selector = f'{{__name__=~"{"|".join(names)}"}}'
    label_sets = client.label_sets(selector, start_seconds, end_seconds)
    found = (cards_of(mapping, label_sets) for mapping in mappings)
    return [told for told in found if told.label_sets]


def cards_of(mapping: GaugeMapping, label_sets: Iterable[Mapping[str, str]]) -> GaugeCards:
    """Tell which of some series a mapping knows, and of which cards they are."""
    names = frozenset(mapping.series_names)
    own = [labels for labels in label_sets if labels.get("__name__") in names]
    cards: dict[str, set[Names]] = {}
    for labels in own:
        uuid = read_labels(mapping, labels).uuid
        if uuid:
            cards.setdefault(uuid, set()).add(_names(mapping, labels))
    return GaugeCards(
        mapping,
        tuple(sorted({labels["__name__"] for labels in own})),
        own,
        {uuid: frozenset(names) for uuid, names in sorted(cards.items())},
    )


def _names(mapping: GaugeMapping, labels: Mapping[str, str]) -> Names:
    card = mapping.card
    uuid = first_label(labels, card.uuid)
    if uuid and uuid not in card.uuid_blanks:
        return (next(name for name in card.uuid if labels.get(name)),), (uuid,)
    return card.composed_of, tuple(labels.get(name, "") for name in card.composed_of)


@dataclass(slots=True)
class GaugeReader:
    """Reads all cards of one exporter's mapping."""

    client: PrometheusClient
    found: GaugeCards
    size: QuerySize = field(default_factory=lambda: QuerySize(CARDS_PER_QUERY))

    def read(self, begin_hour: int, until_hour: int) -> Iterator[list[Samples]]:
        """Give all series of some cards at a time, in [begin, until) and around it."""
        start_seconds = begin_hour * SECONDS_PER_HOUR - LEAD_SECONDS
        end_seconds = until_hour * SECONDS_PER_HOUR + LEAD_SECONDS
        for uuids in self.size.batches(list(self.found.cards)):
            if uuids:
                series = ask_in_parts(self._ask, uuids, start_seconds, end_seconds, self.size)
                self.size.saw(len(uuids), sum(len(one.stamps) for one in series))
                yield series

    def _ask(self, uuids: Sequence[str], start_seconds: float, end_seconds: float) -> list[Samples]:
        mapping, wanted = self.found.mapping, frozenset(uuids)
        by_labels: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for uuid in uuids:
            for names, values in sorted(self.found.cards[uuid]):
                by_labels.setdefault(names, []).append(values)
        return [
            one
            for names, values in by_labels.items()
            for one in self.client.raw(
                of_names(self.found.metric_names, target_matchers(names, values)),
                start_seconds,
                end_seconds,
            )
            if _is_one_of(mapping, one.labels, names, wanted)
        ]


def _is_one_of(
    mapping: GaugeMapping,
    labels: Mapping[str, str],
    names: Iterable[str],
    wanted: frozenset[str],
) -> bool:
    """Tell whether a series is of a wanted card, and one that these labels name."""
    return read_labels(mapping, labels).uuid in wanted and _names(mapping, labels)[0] == names
