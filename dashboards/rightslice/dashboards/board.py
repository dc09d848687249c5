"""What all dashboards share: variables, settings, and the way to Grafana's JSON."""

import json
from typing import Any

from grafanalib.core import Dashboard, Panel, Template, Templating, Time

from rightslice.contract.metrics import GPU_UP, NODE_INFO
from rightslice.dashboards.panels import DATASOURCE

# Grafana 11's; it migrates from here to what it runs. grafanalib writes 12, of Grafana 5.
SCHEMA_VERSION = 39
CROSSHAIR_SHARED = 1
REFRESH_ON_TIME_RANGE_CHANGE = 2
ALL = {"selected": True, "text": ["All"], "value": ["$__all"]}

# What grafanalib still writes and Grafana no longer reads.
LEGACY_KEYS = {
    "dashboard": {"__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"},
    "panel": {
        "cacheTimeout", "color", "columns", "editable", "error", "fontSize", "height",
        "hideTimeOverride", "mappings", "minSpan", "span",
    },
    "target": {"hide", "intervalFactor", "metric", "query", "step", "target"},
    "template": {"auto", "auto_count", "auto_min", "tagValuesQuery", "tagsQuery", "useTags"},
}  # fmt: skip


def variables() -> Templating:
    """Offer the data source, the nodes and the cards that there are."""
    return Templating(
        [
            Template(name="datasource", label="Data source", type="datasource", query="prometheus"),
            _choice("instance", "Node", f"label_values({NODE_INFO.name}, instance)"),
            _choice("uuid", "Card", f'label_values({GPU_UP.name}{{instance=~"$instance"}}, uuid)'),
        ]
    )


def _choice(name: str, label: str, query: str) -> Template:
    return Template(
        name=name,
        label=label,
        query=query,
        dataSource=DATASOURCE,
        includeAll=True,
        allValue=".+",
        multi=True,
        refresh=REFRESH_ON_TIME_RANGE_CHANGE,
    )


def board(title: str, uid: str, description: str, panels: list[Panel]) -> Dashboard:
    """Put panels on a dashboard that nobody edits by hand: its source is here."""
    return Dashboard(
        title=title,
        uid=uid,
        description=description,
        panels=panels,
        templating=variables(),
        tags=["rightslice"],
        editable=False,
        graphTooltip=CROSSHAIR_SHARED,
        refresh="1m",
        schemaVersion=SCHEMA_VERSION,
        time=Time("now-24h", "now"),
        timezone="browser",
    ).auto_panel_ids()


def rendered(dashboard: Dashboard) -> str:
    """Give the JSON text of a dashboard, the same each time."""
    document = json.loads(json.dumps(dashboard, default=lambda part: part.to_json_data()))
    _without(document, "dashboard")
    for panel in document["panels"]:
        _without(panel, "panel")
        defaults = panel["fieldConfig"]["defaults"]
        if not defaults["thresholds"]["steps"]:
            del defaults["thresholds"]
        for target in panel.get("targets", []):
            _without(target, "target")
    for template in document["templating"]["list"]:
        _without(template, "template")
        template["current"] = ALL if template["includeAll"] else {}
    return json.dumps(_without_nulls(document), indent=2, sort_keys=True) + "\n"


def _without(part: dict[str, Any], kind: str) -> None:
    for key in LEGACY_KEYS[kind] & part.keys():
        del part[key]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
