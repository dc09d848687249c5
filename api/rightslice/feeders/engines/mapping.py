"""What a mapping file says of a serving engine: which metric tells what of it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from rightslice.catalogue.located_yaml import Section, read_document

NAME = re.compile(r"[a-z][a-z0-9_]*")
FOLDER = "mappings"


class Fact(StrEnum):
    """What a metric can tell, in base units."""

    KV_CACHE = "kv_cache_ratio"
    KV_TOKENS = "kv_cache_capacity_tokens"
    KV_BLOCKS = "kv_cache_blocks"
    KV_BLOCKS_USED = "kv_cache_blocks_used"
    KV_BLOCK_TOKENS = "kv_cache_block_tokens"
    MEMORY_SHARE = "memory_share_ratio"
    RUNNING = "running"
    WAITING = "waiting"
    REQUEST_P99 = "request_p99_seconds"
    FIRST_TOKEN_P99 = "first_token_p99_seconds"  # noqa: S105  # no secret: a model's output
    REQUESTS = "requests"
    PREEMPTIONS = "preemptions"
    REQUEST_SECONDS = "request_seconds"
    FIRST_TOKEN_SECONDS = "first_token_seconds"  # noqa: S105


COUNTERS = frozenset((Fact.REQUESTS, Fact.PREEMPTIONS))
HISTOGRAMS = frozenset((Fact.REQUEST_SECONDS, Fact.FIRST_TOKEN_SECONDS))
GROWING = COUNTERS | HISTOGRAMS
RATIOS = frozenset((Fact.KV_CACHE, Fact.MEMORY_SHARE))
# Of an engine's several parts, such as its data-parallel ones, these are added; of the others the
# highest counts.
ADDED = frozenset((Fact.KV_TOKENS, Fact.KV_BLOCKS, Fact.KV_BLOCKS_USED, Fact.RUNNING, Fact.WAITING))
BUCKET = "_bucket"
# Above a plain ratio, for engines that count what they are about to take in.
HIGHEST_RATIO = 1.5
HIGHEST = 1e15


@dataclass(frozen=True, slots=True)
class EngineMetric:
    """One metric of a fact, of which only series with the labels of `where` count.

    `scale` turns its unit into the base unit. With `label` the value stands in that label.
    """

    fact: Fact
    name: str
    scale: float
    where: tuple[tuple[str, str], ...]
    label: str

    @property
    def series_name(self) -> str:
        return self.name + BUCKET if self.fact in HISTOGRAMS else self.name

    def counts(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.where)


@dataclass(frozen=True, slots=True)
class EngineMapping:
    """How to read one engine. `name` is its engine, and its source, in the ledger.

    Metrics of one fact stand in the order in which they are believed. Series that differ in a label
    of `copies` tell the same of several cards. With `is_nested`, requests pass several models, each
    of which counts them.
    """

    name: str
    metrics: tuple[EngineMetric, ...]
    model: tuple[str, ...]
    copies: frozenset[str]
    is_nested: bool

    @property
    def series_names(self) -> frozenset[str]:
        return frozenset(metric.series_name for metric in self.metrics)


def load_engine_mapping(file: Path) -> EngineMapping:
    """Read a mapping file. Raises DocumentError, which names file, line, key and remedy."""
    document = read_document(file)
    name = document.text("name")
    if not NAME.fullmatch(name):
        raise document.error("name", f"must be lower-case letters, digits and _; got {name!r}")
    section = document.section("metrics")
    if section is None:
        raise document.error("metrics", "is missing; say which metric tells what")
    metrics = tuple(_metric(fact, entry) for fact in Fact for entry in section.sections(fact))
    section.finish()
    if not metrics:
        raise document.error("metrics", f"is empty; known here: {', '.join(Fact)}")
    mapping = EngineMapping(
        name=name,
        metrics=metrics,
        model=document.texts("model") if document.has("model") else (),
        copies=frozenset(document.texts("copies") if document.has("copies") else ()),
        is_nested=document.flag("nested", default=False),
    )
    document.finish()
    return mapping


def _metric(fact: Fact, entry: Section) -> EngineMetric:
    scale = entry.number("scale", Decimal(1))
    if scale <= 0:
        raise entry.error("scale", f"must be above 0, got {scale}")
    name = entry.text("metric")
    if fact in HISTOGRAMS and name.endswith(BUCKET):
        raise entry.error("metric", f"must be the histogram's own name, without {BUCKET}")
    where = entry.section("where")
    told = tuple((key, where.text(key)) for key in where.keys()) if where else ()  # noqa: SIM118
    label = entry.text("label", "")
    if label and fact in GROWING:
        raise entry.error("label", "is for what does not grow; leave it out")
    entry.finish()
    return EngineMetric(fact, name, float(scale), told, label)


def shipped_engine_names() -> tuple[str, ...]:
    """List the mappings that come with us."""
    folder: Iterable[str] = (
        one.name for one in files("rightslice.feeders.engines").joinpath(FOLDER).iterdir()
    )
    return tuple(sorted(name[: -len(".yaml")] for name in folder if name.endswith(".yaml")))


@cache
def shipped_engine_mapping(name: str) -> EngineMapping:
    """Read one of the mappings that come with us."""
    with as_file(files("rightslice.feeders.engines").joinpath(FOLDER, f"{name}.yaml")) as file:
        return load_engine_mapping(file)


def shipped_engine_mappings() -> tuple[EngineMapping, ...]:
    """Read all mappings that come with us."""
    return tuple(map(shipped_engine_mapping, shipped_engine_names()))
