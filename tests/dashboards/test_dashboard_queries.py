"""The dashboards' queries against a real Prometheus that holds a day of one card."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from support.prometheus import running_prometheus, write_blocks

from rightslice.contract.metrics import CONTRACT
from rightslice.dashboards.__main__ import BOARDS
from rightslice.dashboards.board import rendered

pytestmark = pytest.mark.integration

MINUTES = 25 * 60
END_SECONDS = 1_700_000_040
VARIABLES = {"$__rate_interval": "5m", "$instance": ".+", "$uuid": ".+"}

NODE = 'job="rightslice-exporter",instance="node-1"'
CARD = f'{NODE},uuid="GPU-1"'
# Per series its value at the start, and what each minute adds. The card is held, and does nothing.
# No blanks between labels: promtool takes none.
SERIES: dict[str, tuple[float, float]] = {
    f"rightslice_collector_success{{{NODE},collector='nvml'}}": (1, 0),
    f"rightslice_collector_duration_seconds{{{NODE},collector='gpu_use'}}": (0.01, 0),
    f"rightslice_collector_failures_total{{{NODE},collector='gpu_use',reason='lost'}}": (0, 1),
    f"rightslice_rejected_samples_total{{{NODE},collector='gpu_use',reason='range'}}": (0, 1),
    f"rightslice_gpu_up{{{CARD}}}": (1, 0),
    f"rightslice_gpu_info{{{CARD},gpu='0',name='A100'}}": (1, 0),
    f"rightslice_gpu_memory_total_bytes{{{CARD}}}": (40e9, 0),
    f"rightslice_gpu_memory_used_bytes{{{CARD}}}": (9e9, 0),
    f"rightslice_gpu_memory_used_peak_bytes{{{CARD}}}": (9e9, 0),
    f"rightslice_gpu_observed_seconds_total{{{CARD},signal='allocation'}}": (0, 60),
    f"rightslice_gpu_observed_seconds_total{{{CARD},signal='busy'}}": (0, 60),
    f"rightslice_gpu_allocated_seconds_total{{{CARD}}}": (0, 60),
    f"rightslice_gpu_busy_seconds_total{{{CARD}}}": (0, 0.03),
    f"rightslice_gpu_unrequested_busy_seconds_total{{{CARD}}}": (0, 0),
}


def _history() -> Iterator[str]:
    for head, (first, per_minute) in SERIES.items():
        name = head.replace("'", '"')
        for minute in range(MINUTES + 1):
            seconds = END_SECONDS - 60 * (MINUTES - minute)
            yield f"{name} {first + per_minute * minute!r} {seconds}"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(write_blocks(tmp_path_factory.mktemp("board"), _history())) as url:
        yield url


def _answer(url: str, expr: str) -> list[dict[str, Any]]:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    query = urllib.parse.urlencode({"query": expr, "time": END_SECONDS})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as answer:
        rows: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return rows


def _panel(title: str) -> dict[str, Any]:
    panels: list[dict[str, Any]] = [
        panel for build in BOARDS.values() for panel in json.loads(rendered(build()))["panels"]
    ]
    (found,) = (panel for panel in panels if panel["title"] == title)
    return found


def _value(url: str, title: str) -> float:
    (target,) = _panel(title)["targets"]
    (row,) = _answer(url, target["expr"])
    return float(row["value"][1])


def test_no_query_comes_back_empty_or_without_a_number(prometheus: str) -> None:
    for build in BOARDS.values():
        for panel in json.loads(rendered(build()))["panels"]:
            for target in panel["targets"]:
                rows = _answer(prometheus, target["expr"])
                assert rows, f"{panel['title']}: {target['expr']}"
                assert all(row["value"][1] != "NaN" for row in rows), panel["title"]


@pytest.mark.parametrize(
    ("title", "value"),
    [
        pytest.param("Cards", 1, id="the card that answers"),
        pytest.param("Lost cards", 0, id="none is lost"),
        pytest.param("Held and idle for a day", 1, id="it was held and did nothing"),
        pytest.param("Observed time of a day", 1, id="and was watched all day"),
        pytest.param("Busy", 0.0005, id="0.03 s of each minute"),
    ],
)
def test_a_panel_shows_what_the_card_did(prometheus: str, title: str, value: float) -> None:
    assert _value(prometheus, title) == pytest.approx(value, abs=1e-6)


def test_a_row_of_the_idle_table_names_node_index_model_and_uuid(prometheus: str) -> None:
    answers = [
        _answer(prometheus, target["expr"])
        for target in _panel("Cards held and idle for a day")["targets"]
    ]

    assert [[row["metric"] for row in rows] for rows in answers] == [
        [{"instance": "node-1", "gpu": "0", "name": "A100", "uuid": "GPU-1"}]
    ] * len(answers)
    assert [float(rows[0]["value"][1]) for rows in answers] == pytest.approx([86400, 43.2, 9e9])


def test_the_history_has_only_metrics_of_the_contract() -> None:
    assert {head.partition("{")[0] for head in SERIES} <= {spec.name for spec in CONTRACT}
