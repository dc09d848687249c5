"""The ledger's rows of serving engines, from what they told in an hour."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rightslice.feeders.engines.mapping import Fact
from rightslice.feeders.engines.quantile import quantile
from rightslice.feeders.hours.facts import PART, Entity, Facts, FactTable
from rightslice.feeders.hours.spread import hour_start
from rightslice.ledger.rows import EngineHour

MODEL = "model"
RANK = 0.99


def engine_hours(
    table: FactTable, hours: Iterable[int], nested: frozenset[str]
) -> list[EngineHour]:
    """Give the hours of engines; `nested` are those of which each model counts a request anew."""
    return [
        _row(entity, hour, facts, is_nested=entity[-1] in nested)
        for hour, entity, facts in table.told(hours)
    ]


def _row(entity: Entity, hour: int, facts: Facts, *, is_nested: bool) -> EngineHour:
    kind, namespace, pod, container, engine = entity
    tokens = facts.values.get(Fact.KV_TOKENS)
    return EngineHour(
        kind=kind,
        namespace=namespace,
        pod=pod,
        container=container,
        hour=hour_start(hour),
        source=engine,
        engine=engine,
        model=", ".join(sorted(facts.parts(MODEL))),
        kv_cache_peak_ratio=facts.values.get(Fact.KV_CACHE),
        kv_cache_capacity_tokens=None if tokens is None else round(tokens),
        memory_share_ratio=facts.values.get(Fact.MEMORY_SHARE),
        running_peak=facts.values.get(Fact.RUNNING),
        waiting_peak=facts.values.get(Fact.WAITING),
        request_count=_count(facts.parts(Fact.REQUESTS), is_nested=is_nested),
        request_p99_seconds=_p99(facts, Fact.REQUEST_SECONDS, Fact.REQUEST_P99, is_nested),
        first_token_p99_seconds=_p99(
            facts, Fact.FIRST_TOKEN_SECONDS, Fact.FIRST_TOKEN_P99, is_nested
        ),
        preemption_count=_count(facts.parts(Fact.PREEMPTIONS), is_nested=is_nested),
    )


def _count(by_model: Mapping[str, float], *, is_nested: bool) -> float | None:
    if not by_model:
        return None
    return max(by_model.values()) if is_nested else sum(by_model.values())


def _p99(facts: Facts, histogram: Fact, gauge: Fact, is_nested: bool) -> float | None:
    """Give the quantile of the hour's requests; else the highest that the engine itself told."""
    by_model: dict[str, dict[float, float]] = defaultdict(dict)
    for name, amount in facts.parts(histogram).items():
        model, _, edge = name.rpartition(PART)
        by_model[model][float(edge)] = amount
    if not by_model:
        return facts.values.get(gauge)
    if is_nested:
        return quantile(max(by_model.values(), key=lambda bins: max(bins.values())), RANK)
    together: dict[float, float] = defaultdict(float)
    for bins in by_model.values():
        for upper_seconds, count in bins.items():
            together[upper_seconds] += count
    return quantile(together, RANK)
