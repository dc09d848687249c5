"""House panels: each takes its unit from the metric contract, and says what it shows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grafanalib.core import GridPos, Stat, Table, Target, TimeSeries

from rightslice.contract.spec import MetricSpec, Unit

# An object, never a string: Grafana lost or split string references more than once.
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

GRAFANA_UNIT: dict[Unit, str] = {
    Unit.NONE: "short",
    Unit.SECONDS: "s",
    Unit.BYTES: "bytes",
    Unit.RATIO: "percentunit",
    Unit.WATTS: "watt",
    Unit.JOULES: "joule",
    Unit.CELSIUS: "celsius",
}
# Of a counter per second. Seconds per second are a share of the time.
GRAFANA_RATE_UNIT: dict[Unit, str] = {
    Unit.NONE: "cps",
    Unit.SECONDS: "percentunit",
    Unit.BYTES: "Bps",
    Unit.JOULES: "watt",
}


def unit(spec: MetricSpec) -> str:
    """Give Grafana's name of a metric's unit."""
    return GRAFANA_UNIT[spec.unit]


def rate_unit(spec: MetricSpec) -> str:
    """Give Grafana's name of the unit of a counter's rate."""
    return GRAFANA_RATE_UNIT[spec.unit]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression, and what its series (in a table: its column) are called."""

    expr: str
    name: str


def series(spec: MetricSpec, tail: str = "", **labels: str) -> str:
    """Select a metric's series of the nodes, and where it has cards of the cards, on show.

    `tail` follows the name: `_bucket` of a histogram.
    """
    matchers = ['instance=~"$instance"']
    if "uuid" in spec.labels:
        matchers.append('uuid=~"$uuid"')
    matchers += [f'{label}="{value}"' for label, value in labels.items()]
    return f"{spec.name}{tail}{{{', '.join(matchers)}}}"


def timeseries(
    title: str, description: str, unit: str, queries: Iterable[Query], at: GridPos
) -> TimeSeries:
    """Show how numbers went over the time range; a gap means that nothing is known."""
    return TimeSeries(
        title=title,
        description=description,
        dataSource=DATASOURCE,
        unit=unit,
        targets=_targets(queries),
        axisSoftMin=0,
        fillOpacity=5,
        legendDisplayMode="table",
        legendCalcs=["lastNotNull", "max"],
        tooltipMode="multi",
        tooltipSort="desc",
        extraJson={"options": {"legend": {"showLegend": True}}},
        maxDataPoints=None,
        gridPos=at,
    )


def stat(title: str, description: str, unit: str, query: Query, at: GridPos) -> Stat:
    """Show one number as it is now; "no data" is not 0."""
    return Stat(
        title=title,
        description=description,
        dataSource=DATASOURCE,
        format=unit,
        targets=_targets([query], instant=True),
        graphMode="none",
        noValue="no data",
        reduceCalc="lastNotNull",
        maxDataPoints=None,
        gridPos=at,
    )


def table(
    title: str,
    description: str,
    columns: Mapping[Query, str],
    at: GridPos,
    *,
    labels: Mapping[str, str],
) -> Table:
    """Show one row per set of labels and one column, with its unit, per query.

    `labels` are those on show, in order, with their headings; the queries return no others.
    """
    targets = _targets(columns, instant=True, format="table")
    values = {
        f"Value #{target.refId}": query for target, query in zip(targets, columns, strict=True)
    }
    headings = dict(labels) | {field: query.name for field, query in values.items()}
    return Table(
        title=title,
        description=description,
        dataSource=DATASOURCE,
        unit=GRAFANA_UNIT[Unit.NONE],
        targets=targets,
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {field: index for index, field in enumerate(headings)},
                    "renameByName": headings,
                },
            },
        ],
        overrides=[_column_unit(query.name, columns[query]) for query in values.values()],
        filterable=True,
        maxDataPoints=None,
        gridPos=at,
    )


def _column_unit(heading: str, unit: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": heading},
        "properties": [{"id": "unit", "value": unit}],
    }


def _targets(queries: Iterable[Query], *, instant: bool = False, **more: str) -> list[Target]:
    return [
        Target(
            expr=query.expr,
            legendFormat=query.name,
            refId=chr(ord("A") + index),
            instant=instant,
            datasource=DATASOURCE,
            **more,
        )
        for index, query in enumerate(queries)
    ]
