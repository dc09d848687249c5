"""Every PromQL expression that people are given: in rules and their texts, runbooks, dashboards."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightslice.contract.metrics import CONTRACT
from rightslice.contract.spec import Kind

ROOT = Path(__file__).resolve().parents[2]
# Grafana's variables, and what stands for them here.
VARIABLES = {"$__rate_interval": "5m", "$instance": ".+", "$uuid": ".+"}
# Prometheus tells `up` of each target; the others are dcgm-exporter's.
FOREIGN = {"up", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}
# Not in the contract: each second of a card's hour, put into its class.
CLASSED = "rightslice_gpu_owned_seconds"
LEVELS = {
    "instance_gpu",
    "instance_gpu_signal",
    "card",
    "card_signal",
    "card_class",
    "workload",
    "fleet",
    "node",
    "model",
    "namespace",
    "team",
    "fleet_class",
    "node_class",
    "model_class",
}


def _contract_names() -> set[str]:
    histograms = {spec.name for spec in CONTRACT if spec.kind is Kind.HISTOGRAM}
    parts = {f"{name}{tail}" for name in histograms for tail in ("_bucket", "_sum", "_count")}
    return {spec.name for spec in CONTRACT} - histograms | parts


def _rules() -> list[dict[str, Any]]:
    files = sorted((ROOT / "rules").glob("*.rules.yaml"))
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    return [
        rule for document in documents for group in document["groups"] for rule in group["rules"]
    ]


def _of_annotations() -> Iterator[tuple[str, str]]:
    """Give the queries that fill in the texts of alerts."""
    for rule in _rules():
        for text in rule.get("annotations", {}).values():
            for query in re.findall(r'printf "([^"]+)"', text):
                yield f"{rule['alert']}, text", query.replace("%q", '"x"')


def _of_runbooks() -> Iterator[tuple[str, str]]:
    for page in sorted((ROOT / "docs/runbooks").glob("*.md")):
        for block in re.findall(
            r"```promql\n(.+?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            yield page.name, block


def _of_dashboards() -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / "dashboards/json").glob("*.json")):
        for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                yield f"{file.name}, {panel['title']}, {target['refId']}", target["expr"]


RECORDED = {rule["record"] for rule in _rules() if "record" in rule}
EXPRESSIONS = [
    *((rule.get("alert") or rule["record"], rule["expr"]) for rule in _rules()),
    *_of_annotations(),
    *_of_runbooks(),
    *_of_dashboards(),
]
by_expression = pytest.mark.parametrize(
    "expr", [pytest.param(expr, id=place) for place, expr in EXPRESSIONS]
)


@by_expression
def test_an_expression_names_only_metrics_of_the_contract(expr: str) -> None:
    # A metric's name stands before a selector, a range or alone; ours are known by their prefix.
    names = {
        *re.findall(r"([a-zA-Z_:][\w:]*)\s*[{\[]", expr),
        *re.findall(r"\b(?:\w+:)?rightslice_[\w:]+", expr),
    }

    assert names
    assert names <= _contract_names() | RECORDED | FOREIGN


def test_prometheus_can_parse_all_expressions(tmp_path: Path) -> None:
    rules = [
        {"record": f"test:expression:{number}", "expr": _filled(expr)}
        for number, (_, expr) in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}), "utf-8")

    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(EXPRESSIONS)} rules found" in done.stdout


def _filled(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    assert not re.search(r"\$[a-zA-Z_{]", expr), f"a variable that is not known: {expr}"
    return expr


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_series_tells_its_level_metric_and_operation(name: str) -> None:
    level, metric, operation = name.split(":")

    assert level in LEVELS
    assert {metric, f"{metric}_total"} & {*_contract_names(), CLASSED}
    assert re.fullmatch(r"(increase|rate|last|count)(1|24)h", operation)
