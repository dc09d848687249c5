"""Asks a Prometheus for what kube-state-metrics told: who owned what, and how many there were."""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from rightslice.feeders.gauges.labels import EXPORTED
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR
from rightslice.feeders.owners.mapper import DEFAULT_INTERVAL_SECONDS, OwnerMapper, WorkloadKey
from rightslice.feeders.owners.metrics import (
    KIND_POD,
    LINK_METRICS,
    POD_METRICS,
    REPLICA_METRICS,
    Thing,
    thing_of,
)
from rightslice.feeders.owners.teams import TeamRule
from rightslice.feeders.prometheus.answer import Samples
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.parts import Ask, QuerySize, ask_in_parts
from rightslice.feeders.prometheus.selectors import any_of, last_over, of_names
from rightslice.feeders.prometheus.targets import REPLICA_LABELS
from rightslice.feeders.readings import Reading
from rightslice.ledger.attributes import WorkloadAttributes
from rightslice.ledger.rows import OwnerHour

# Of a pod there are some six series, each with a sample an hour.
PODS_PER_QUERY = 500
# At 30 s an owner has 2,880 samples a day.
OWNERS_PER_QUERY = 100
# Readings before a span's start tell of the time before its first, those after of its last.
LEAD_SECONDS = 600.0
TARGET_LABELS = ("cluster", "job", "instance", *REPLICA_LABELS)

Told = tuple[list[OwnerHour], list[WorkloadAttributes]]
Target = tuple[str, ...]


def read_owners(
    client: PrometheusClient,
    start_hour: int,
    end_hour: int,
    workloads: Collection[WorkloadKey] | None = None,
    ours: Iterable[WorkloadAttributes] = (),
    rules: Sequence[TeamRule] = (),
) -> Told:
    """Give owners' hours of [start, end), and whose the workloads were. Raises SourceError.

    Hours count from the Unix epoch. `workloads` are those that held a card: None means all
    containers that are told of. What `ours` leaves empty is filled in. Where there is no
    kube-state-metrics, `ours` comes back, with the teams that the rules name.
    """
    mapper = OwnerMapper(rules)
    mapper.know(ours)
    attributes = _read_attributes(client, mapper, range(start_hour, end_hour), workloads)
    _read_replicas(client, mapper, start_hour * SECONDS_PER_HOUR, end_hour * SECONDS_PER_HOUR)
    return mapper.rows(range(start_hour, end_hour)), attributes


def _read_attributes(
    client: PrometheusClient,
    mapper: OwnerMapper,
    hours: range,
    workloads: Collection[WorkloadKey] | None,
) -> list[WorkloadAttributes]:
    """Give whose workloads were, from each hour on in which that changed."""
    pods = None if workloads is None else {key[2] for key in workloads if key[0] == KIND_POD}
    told: dict[int, list[Reading]] = defaultdict(list)
    for one in _infos(client, hours, pods):
        for seconds, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
            name = one.labels.get("__name__", "")
            told[int(seconds // SECONDS_PER_HOUR) - 1].append(Reading(name, one.labels, value))
    found: list[WorkloadAttributes] = []
    for hour in hours:
        following = {_series(reading) for reading in told.get(hour + 1, ())}
        # Of two images in one hour the one that is still there in the next came later.
        ordered = sorted(told.get(hour, ()), key=lambda one: _series(one) in following)
        mapper.learn((hour + 1) * SECONDS_PER_HOUR, ordered)
        mapper.want(mapper.known() if workloads is None else workloads, hour)
        found.extend(mapper.attributes(hour))
        mapper.written()
    return found


def _series(reading: Reading) -> tuple[str, frozenset[tuple[str, str]]]:
    return reading.name, frozenset(reading.labels.items())


def _infos(
    client: PrometheusClient, hours: range, pods: Collection[str] | None
) -> Iterator[Samples]:
    """Ask hour by hour for what was told of owners and of pods; None is all pods."""
    edges = (hours.start + 1) * SECONDS_PER_HOUR, hours.stop * SECONDS_PER_HOUR

    def ask(selector: str, start_seconds: float, end_seconds: float) -> list[Samples]:
        query = last_over(selector, SECONDS_PER_HOUR)
        return client.steps(query, start_seconds, end_seconds, SECONDS_PER_HOUR)

    def of_metrics(names: Sequence[str], *span: float) -> list[Samples]:
        return ask(f'{{__name__=~"{"|".join(names)}"}}', *span)

    def of_pods(names: Sequence[str], *span: float) -> list[Samples]:
        # Where a scrape moved labels away it is the other one that names the pod.
        labels = ("pod", f"{EXPORTED}pod")
        selectors = [of_names(POD_METRICS, f"{label}=~{any_of(names)}") for label in labels]
        return [one for selector in selectors for one in ask(selector, *span)]

    metrics = LINK_METRICS if pods is not None else (*LINK_METRICS, *POD_METRICS)
    yield from _in_parts(of_metrics, metrics, edges, QuerySize(len(metrics)))
    yield from _in_parts(of_pods, sorted(pods or ()), edges, QuerySize(PODS_PER_QUERY))


def _in_parts(
    ask: Ask, things: Sequence[str], edges: tuple[int, int], size: QuerySize
) -> Iterator[Samples]:
    for batch in size.batches(things):
        yield from ask_in_parts(ask, batch, *edges, size, SECONDS_PER_HOUR)


def _read_replicas(
    client: PrometheusClient, mapper: OwnerMapper, start_seconds: float, end_seconds: float
) -> None:
    """Put the samples of replicas back together into the pages that they came from."""
    span = (start_seconds - LEAD_SECONDS, end_seconds + LEAD_SECONDS)
    pages: dict[Target, dict[float, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    for name, things in _counted(client, mapper, span).items():
        for one in _samples(client, name, things, span):
            target = tuple(one.labels.get(label, "") for label in TARGET_LABELS)
            for seconds, value in zip(one.stamps.tolist(), one.values.tolist(), strict=True):
                pages[target][seconds].append(Reading(name, one.labels, value))
    intervals = {target: _interval(sorted(told)) for target, told in pages.items()}
    ordered = sorted((seconds, target) for target, told in pages.items() for seconds in told)
    for seconds, target in ordered:
        mapper.feed(
            " ".join(target),
            seconds,
            pages[target][seconds],
            interval_seconds=intervals[target],
        )


def _counted(
    client: PrometheusClient, mapper: OwnerMapper, span: tuple[float, float]
) -> dict[str, list[str]]:
    """Give the names of the objects whose replicas matter, by their metric."""
    selector = f'{{__name__=~"{"|".join(REPLICA_METRICS)}"}}'
    found: dict[Thing, str] = {}
    for labels in client.label_sets(selector, *span):
        name = labels.get("__name__", "")
        thing = thing_of(labels, *REPLICA_METRICS[name], labels.get("cluster", ""))
        if thing is not None:
            found[thing] = name
    counted: dict[str, list[str]] = defaultdict(list)
    for thing, name in sorted(found.items()):
        if mapper.is_counted(thing, found):
            counted[name].append(thing.name)
    return counted


def _samples(
    client: PrometheusClient, name: str, things: Sequence[str], span: tuple[float, float]
) -> Iterator[Samples]:
    label, size = REPLICA_METRICS[name][1], QuerySize(OWNERS_PER_QUERY)

    def ask(names: Sequence[str], start_seconds: float, end_seconds: float) -> list[Samples]:
        selector = f"{name}{{{label}=~{any_of(names)}}}"
        return client.raw(selector, start_seconds, end_seconds)

    for batch in size.batches(things):
        yield from ask_in_parts(ask, batch, *span, size)


def _interval(stamps: Sequence[float]) -> float:
    gaps = [after - before for before, after in pairwise(stamps)]
    return statistics.median(gaps) if gaps else DEFAULT_INTERVAL_SECONDS
