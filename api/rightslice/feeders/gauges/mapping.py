"""What a mapping file says: which metric and label of an exporter tells what of a card."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from rightslice.catalogue.located_yaml import Section, read_document
from rightslice.ledger.rows import SOURCE_RIGHTSLICE

NAME = re.compile(r"[a-z][a-z0-9_]*")
DEFAULT_SIGNAL = "busy"


class Field(StrEnum):
    """What a metric can tell, in base units."""

    MEMORY_USED = "memory_used_bytes"
    MEMORY_FREE = "memory_free_bytes"
    MEMORY_RESERVED = "memory_reserved_bytes"
    MEMORY_TOTAL = "memory_total_bytes"
    BUSY = "busy_ratio"
    SM_ACTIVE = "sm_active_ratio"
    DRAM_ACTIVE = "dram_active_ratio"
    POWER = "power_watts"
    ENERGY = "energy_joules"


MEMORY_FIELDS = frozenset(field for field in Field if field.startswith("memory_"))


@dataclass(frozen=True, slots=True)
class GaugeMetric:
    """One metric. `scale` turns its unit into the base unit; `highest` is in its own unit.

    `signal` names a busy reading in the ledger.
    """

    field: Field
    name: str
    scale: Fraction
    highest: float
    signal: str


@dataclass(frozen=True, slots=True)
class CardLabels:
    """The labels that tell which card a series is of, and what is known of it.

    Of several spellings the first that a series has counts. A card without a UUID is named by the
    values of `composed_of`, all of which must be there.
    """

    uuid: tuple[str, ...]
    uuid_prefix: str
    uuid_blanks: frozenset[str]
    composed_of: tuple[str, ...]
    node: tuple[str, ...]
    model: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstanceLabels:
    """The labels of a part of a card. With one of `whole_card_profiles` a series is of the card."""

    id: tuple[str, ...]
    profile: tuple[str, ...]
    uuid: tuple[str, ...]
    compute_instance_id: tuple[str, ...]
    whole_card_profiles: frozenset[str]
    # Whether the instances' memory sums to the card's.
    memory_adds_up: bool


@dataclass(frozen=True, slots=True)
class WorkloadLabels:
    """The labels of who holds a card; `own_containers` are the exporter's own."""

    namespace: tuple[str, ...]
    pod: tuple[str, ...]
    container: tuple[str, ...]
    own_containers: frozenset[str]


@dataclass(frozen=True, slots=True)
class GaugeMapping:
    """How to read one exporter. `name` is its source in the ledger.

    Metrics of one field stand in the order in which they are believed. Series of `info_metrics`
    tell by their labels only. `own_timestamps`: the exporter dates its samples, each metric on its
    own.
    """

    name: str
    metrics: tuple[GaugeMetric, ...]
    info_metrics: tuple[str, ...]
    prefixes: tuple[str, ...]
    card: CardLabels
    instance: InstanceLabels
    workload: WorkloadLabels
    replica: tuple[str, ...]
    blanks: tuple[float, ...]
    own_timestamps: bool

    def spellings(self, name: str) -> tuple[str, ...]:
        """Give a metric's name in every spelling: pipelines change its case or prefix it."""
        told = (f"{prefix}{name}" for prefix in self.prefixes)
        return tuple(dict.fromkeys(one for n in told for one in (n, n.upper(), n.lower())))

    @property
    def series_names(self) -> tuple[str, ...]:
        """Give the names to ask a Prometheus for."""
        names = (*(metric.name for metric in self.metrics), *self.info_metrics)
        return tuple(spelling for name in names for spelling in self.spellings(name))


def load_mapping(file: Path) -> GaugeMapping:
    """Read a mapping file. Raises DocumentError, which names file, line, key and remedy."""
    document = read_document(file)
    name = document.text("name")
    if not NAME.fullmatch(name) or name == SOURCE_RIGHTSLICE:
        raise document.error(
            "name", f"must be lower-case letters, digits and _, and not ours; got {name!r}"
        )
    metrics = _metrics(document)
    labels = document.section("labels")
    if labels is None:
        raise document.error("labels", "is missing; say which labels name the card")
    mapping = GaugeMapping(
        name=name,
        metrics=metrics,
        info_metrics=_texts(document, "info_metrics"),
        prefixes=_texts(document, "prefixes") or ("",),
        card=_card_labels(labels),
        instance=_instance_labels(labels.section("instance")),
        workload=_workload_labels(labels.section("workload")),
        replica=_texts(labels, "replica"),
        blanks=tuple(_number(document, "blanks", text) for text in _texts(document, "blanks")),
        own_timestamps=document.flag("own_timestamps", default=False),
    )
    labels.finish()
    document.finish()
    return mapping


def _texts(section: Section | None, key: str) -> tuple[str, ...]:
    return section.texts(key) if section is not None and section.has(key) else ()


def _number(section: Section, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise section.error(key, f"must be numbers, got {text!r}") from error


def _metrics(document: Section) -> tuple[GaugeMetric, ...]:
    fields = document.section("metrics")
    if fields is None:
        raise document.error("metrics", "is missing; say which metric tells what")
    metrics = [_metric(field, entry) for field in Field for entry in fields.sections(field)]
    fields.finish()
    if not any(metric.field in (Field.MEMORY_USED, Field.BUSY) for metric in metrics):
        raise document.error(
            "metrics", f"tell neither {Field.MEMORY_USED} nor {Field.BUSY}; give one at least"
        )
    names = [metric.name.upper() for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise document.error("metrics", f"name {twice[0]} twice; a metric tells one thing")
    return tuple(metrics)


def _metric(field: Field, entry: Section) -> GaugeMetric:
    scale, highest = Fraction(entry.number("scale", Decimal(1))), entry.number("highest")
    for key, value in (("scale", scale), ("highest", highest)):
        if value <= 0:
            raise entry.error(key, f"must be above 0, got {value}")
    metric = GaugeMetric(
        field, entry.text("metric"), scale, float(highest), entry.text("signal", DEFAULT_SIGNAL)
    )
    if entry.has("signal") and field is not Field.BUSY:
        raise entry.error("signal", f"is for {Field.BUSY} only; leave it out")
    entry.finish()
    return metric


def _card_labels(labels: Section) -> CardLabels:
    uuid = labels.section("uuid")
    names, composed_of = _texts(uuid, "names"), _texts(uuid, "composed_of")
    if uuid is None or not (names or composed_of):
        raise labels.error("uuid", "needs names or composed_of; a card must have a name")
    prefix, blanks = uuid.text("prefix", ""), _texts(uuid, "blanks")
    uuid.finish()
    return CardLabels(
        uuid=names,
        uuid_prefix=prefix,
        uuid_blanks=frozenset(blanks),
        composed_of=composed_of,
        node=_texts(labels, "node"),
        model=_texts(labels, "model"),
    )


def _instance_labels(section: Section | None) -> InstanceLabels:
    made = InstanceLabels(
        id=_texts(section, "id"),
        profile=_texts(section, "profile"),
        uuid=_texts(section, "uuid"),
        compute_instance_id=_texts(section, "compute_instance_id"),
        whole_card_profiles=frozenset(_texts(section, "whole_card_profiles")),
        memory_adds_up=section is None or section.flag("memory_adds_up", default=True),
    )
    if section is not None:
        section.finish()
    return made


def _workload_labels(section: Section | None) -> WorkloadLabels:
    made = WorkloadLabels(
        namespace=_texts(section, "namespace"),
        pod=_texts(section, "pod"),
        container=_texts(section, "container"),
        own_containers=frozenset(_texts(section, "own_containers")),
    )
    if section is not None:
        section.finish()
    return made


def _folder() -> Iterable[str]:
    return (one.name for one in files("rightslice.feeders.gauges").joinpath("mappings").iterdir())


def shipped_names() -> tuple[str, ...]:
    """List the mappings that come with us."""
    return tuple(sorted(name[: -len(".yaml")] for name in _folder() if name.endswith(".yaml")))


@cache
def shipped_mapping(name: str) -> GaugeMapping:
    """Read one of the mappings that come with us."""
    resource = files("rightslice.feeders.gauges").joinpath("mappings", f"{name}.yaml")
    with as_file(resource) as file:
        return load_mapping(file)


def first_label(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Give the value of the first spelling that a series has; empty for none."""
    return next((labels[name] for name in names if labels.get(name)), "")
