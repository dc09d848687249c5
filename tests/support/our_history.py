"""Days of nodes with our exporter, stretched from an hour of a simulated one: text for servers."""

from collections.abc import Iterator
from dataclasses import dataclass

from rightslice.contract.metrics import CONTRACT
from rightslice.contract.spec import Kind
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.readings import Reading
from support.node_history import machine_pages

SCRAPE_SECONDS = 60
COUNTED = frozenset(spec.name for spec in CONTRACT if spec.kind is Kind.COUNTER) | {
    f"{spec.name}_{part}"
    for spec in CONTRACT
    if spec.kind is Kind.HISTOGRAM
    for part in ("bucket", "sum", "count")
}


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its value at the start, and what it grows by in a second."""

    name: str
    labels: dict[str, str]
    value: float
    growth_per_second: float


def node_series(scenario: str = "fleet", minutes: int = 15) -> list[Line]:
    """Watch a simulated node for a while, from its start on."""
    found = list(machine_pages(scenario, 1_700_000_000.0, minutes, 10.0))
    parser = PageParser()
    first, last = (parser.parse(page.text) for page in (found[1], found[-1]))
    span_seconds = found[-1].now_seconds - found[1].now_seconds
    before = {_key(reading): reading.value for reading in first}
    return [
        Line(
            reading.name,
            dict(reading.labels),
            reading.value,
            (reading.value - before.get(_key(reading), 0.0)) / span_seconds
            if reading.name in COUNTED
            else 0.0,
        )
        for reading in last
    ]


def _key(reading: Reading) -> tuple[str, frozenset[tuple[str, str]]]:
    return reading.name, frozenset(reading.labels.items())


def node_lines(
    series: list[Line],
    node: int,
    start_seconds: int,
    days: float,
    step_seconds: int = SCRAPE_SECONDS,
) -> Iterator[str]:
    """Write one node's series as OpenMetrics text, grouped by series."""
    # Nodes are scraped at different moments.
    offset_seconds = 7 + 11 * node % step_seconds
    count = round(days * 86_400 / step_seconds)
    stamps = [start_seconds + offset_seconds + index * step_seconds for index in range(count)]
    for line in series:
        labels = {
            name: f"{value}-{node}" if name in ("uuid", "node") and value else value
            for name, value in line.labels.items()
        }
        labels |= {"job": "rightslice", "instance": f"node-{node}:19400"}
        head = line.name + "{" + ",".join(f'{n}="{_quoted(v)}"' for n, v in labels.items()) + "}"
        is_whole = line.name.endswith(("_bucket", "_count"))
        for index, stamp in enumerate(stamps):
            value = line.value + line.growth_per_second * index * step_seconds
            yield f"{head} {int(value) if is_whole else f'{value:.10g}'} {stamp}"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def card_count(series: list[Line]) -> int:
    return sum(line.name == "rightslice_gpu_info" for line in series)
