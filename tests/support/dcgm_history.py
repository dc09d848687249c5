"""Weeks of dcgm-exporter's gauges, as OpenMetrics text with exact quantiles."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

# Prime to any number of minutes used here, so that a step walks through a whole grid.
STRIDE = 7919
GIB_MIB = 1024.0


def grid(index: int, count: int) -> float:
    """Give numbers evenly over [0, 1) in an order without pattern; every one of them once."""
    return (index * STRIDE % count) / count


@dataclass(frozen=True, slots=True)
class Card:
    """One card's history: `fields` maps a DCGM field to its value at sample `index` of `count`.

    `seen` says at which samples the exporter answered.
    """

    uuid: str
    fields: Mapping[str, Callable[[int, int], float]]
    model: str = "NVIDIA A100-SXM4-40GB"
    node: str = "node-1"
    pod: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    seen: Callable[[int, int], bool] = lambda index, count: True


def history(
    cards: list[Card], start_seconds: int, count: int, step_seconds: int = 60
) -> Iterator[str]:
    """Give `count` samples of each card's fields, grouped by metric as the format wants."""
    names = sorted({name for card in cards for name in card.fields})
    for name in names:
        yield f"# TYPE {name} gauge"
        for number, card in enumerate(cards):
            value = card.fields.get(name)
            if value is None:
                continue
            head = f"{name}{{{_labels(card, number)}}}"
            for index in range(count):
                if card.seen(index, count):
                    stamp = start_seconds + index * step_seconds
                    yield f"{head} {value(index, count):.6g} {stamp}"


def _labels(card: Card, number: int) -> str:
    labels = {
        "UUID": card.uuid,
        "gpu": str(number),
        "modelName": card.model,
        "Hostname": card.node,
        "job": "dcgm",
        "instance": f"{card.node}:9400",
    }
    if card.pod:
        labels |= {"pod": card.pod, "namespace": card.namespace, "container": "main"}
    labels |= card.labels
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def memory_fields(
    used_gib: Callable[[int, int], float], total_gib: float = 40.0, reserved_mib: float = 434.0
) -> dict[str, Callable[[int, int], float]]:
    """Make the three memory fields of a card from what is used of it, in whole MiB."""
    total_mib = total_gib * GIB_MIB

    def used_mib(index: int, count: int) -> float:
        return round(used_gib(index, count) * GIB_MIB)

    return {
        "DCGM_FI_DEV_FB_USED": used_mib,
        "DCGM_FI_DEV_FB_FREE": lambda i, n: total_mib - reserved_mib - used_mib(i, n),
        "DCGM_FI_DEV_FB_RESERVED": lambda i, n: reserved_mib,
    }


# Of a history's samples this share lies above the 95th percentile, a little less than a twentieth:
# the first sample of a history covers no time, and must not tip the rank.
ABOVE_RATIO = 0.045


def up_to(p95: float, most: float) -> Callable[[int, int], float]:
    """Give values whose 95th percentile is `p95`, the highest of which come near `most`."""

    def value(index: int, count: int) -> float:
        rank = grid(index, count)
        if rank >= 1 - ABOVE_RATIO:
            return p95 + (most - p95) * rank
        return p95 * (0.2 + 0.8 * rank / 0.95)

    return value


def between(low: float, high: float) -> Callable[[int, int], float]:
    """Give values evenly between two ends."""
    return lambda index, count: low + (high - low) * grid(index, count)


def always(value: float) -> Callable[[int, int], float]:
    return lambda index, count: value
