"""Finds our exporters in a Prometheus: which series are of one target, told by which replica."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rightslice.contract.metrics import BUILD_INFO, CONTRACT, GPU_INFO, NODE_INFO
from rightslice.feeders.gauges.labels import EXPORTED
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.selectors import TargetKey, target_key

# What Prometheus' operator, Thanos and Mimir call the label that tells replicas of one Prometheus
# apart, each of which scrapes all targets.
REPLICA_LABELS = ("prometheus_replica", "__replica__", "replica", "receive_replica")
# What our exporter says itself, which names no target. A scrape without honor_labels moves it to
# exported_ labels where the target has labels of these names.
OWN_LABELS = frozenset(label for spec in CONTRACT for label in spec.labels)
NAMING = (BUILD_INFO.name, GPU_INFO.name, NODE_INFO.name)


@dataclass(frozen=True, slots=True)
class OurTarget:
    """One exporter of ours. Of each Prometheus replica that scrapes it there is one stream.

    `node` is empty where it tells none.
    """

    name: str
    cluster: str
    node: str
    streams: tuple[TargetKey, ...]


@dataclass(frozen=True, slots=True)
class OurTargets:
    """All exporters of ours in a span. Targets that tell of one card or node are in one group."""

    label_names: tuple[str, ...] = ()
    groups: tuple[tuple[OurTarget, ...], ...] = ()

    @property
    def count(self) -> int:
        return sum(map(len, self.groups))


def find_targets(client: PrometheusClient, start_seconds: float, end_seconds: float) -> OurTargets:
    """Look up which exporters of ours were scraped in a span. Raises SourceError."""
    selector = f'{{__name__=~"{"|".join(NAMING)}"}}'
    return targets_of(client.label_sets(selector, start_seconds, end_seconds))


def targets_of(label_sets: Iterable[Mapping[str, str]]) -> OurTargets:
    """Tell targets apart by the labels of their series."""
    label_sets = list(label_sets)
    builds = [labels for labels in label_sets if labels.get("__name__") == BUILD_INFO.name]
    own = {"__name__", *OWN_LABELS, *(EXPORTED + label for label in OWN_LABELS)}
    names = tuple(sorted({name for labels in builds for name in labels} - own))
    replicas = [place for place, name in enumerate(names) if name in REPLICA_LABELS]
    streams: dict[TargetKey, set[TargetKey]] = {}
    for labels in builds:
        key = target_key(labels, names)
        streams.setdefault(_without(key, replicas), set()).add(key)
    told = [
        (_without(target_key(labels, names), replicas), _thing(labels))
        for labels in label_sets
        if labels.get("__name__") != BUILD_INFO.name
    ]
    nodes = {key: name for key, (label, name) in told if label == "node"}
    clusters = names.index("cluster") if "cluster" in names else None
    targets = {
        key: OurTarget(
            " ".join(key),
            "" if clusters is None else key[clusters],
            nodes.get(key, ""),
            tuple(sorted(known)),
        )
        for key, known in sorted(streams.items())
    }
    return OurTargets(names, tuple(_groups(targets, told)))


def own_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Give a series' labels as our exporter wrote them.

    Where a scrape moved some of them to exported_ labels, plain ones of these names are the
    target's.
    """
    if not any(name.startswith(EXPORTED) for name in labels):
        return labels
    told = {name: value for name, value in labels.items() if not name.startswith(EXPORTED)}
    moved = {
        name[len(EXPORTED) :]: value
        for name, value in labels.items()
        if name.startswith(EXPORTED) and name[len(EXPORTED) :] in OWN_LABELS
    }
    if moved.keys() & {"namespace", "pod", "container"}:  # an empty one is not there at all
        for name in ("namespace", "pod", "container"):
            told.pop(name, None)
    return {**told, **moved}


def _without(key: TargetKey, places: Sequence[int]) -> TargetKey:
    return tuple("" if place in places else part for place, part in enumerate(key))


def _thing(labels: Mapping[str, str]) -> tuple[str, str]:
    label = "uuid" if labels.get("__name__") == GPU_INFO.name else "node"
    return label, own_labels(labels).get(label, "")


def _groups(
    targets: Mapping[TargetKey, OurTarget], told: Iterable[tuple[TargetKey, tuple[str, str]]]
) -> list[tuple[OurTarget, ...]]:
    """Put targets together that tell of one thing, directly or over others."""
    groups = {key: [key] for key in targets}
    first: dict[tuple[str, str], TargetKey] = {}
    for key, thing in told:
        if key not in groups or not thing[1]:
            continue
        known = groups[first.setdefault(thing, key)]
        if groups[key] is not known:
            known.extend(groups[key])
            for member in groups[key]:
                groups[member] = known
    kept = {id(members): sorted(members) for members in groups.values()}
    return [tuple(targets[key] for key in members) for members in sorted(kept.values())]
