"""The dashboards' queries against a real Prometheus that holds a day of some nodes."""

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

NODE, MIG_NODE, LOST_NODE, RELEASED_NODE, DEAD_NODE, BARE_NODE = (
    f'job="rightslice-exporter",instance="{name}"'
    for name in ("node-1", "node-mig", "node-lost", "node-released", "node-dead", "node-bare")
)
CARD = f'{NODE},uuid="GPU-1"'
MIG_CARD = f'{MIG_NODE},uuid="GPU-2"'
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
    f"rightslice_gpus_expected{{{NODE}}}": (1, 0),
    # Held as well; with MIG nothing tells of kernels.
    f"rightslice_gpu_up{{{MIG_CARD}}}": (1, 0),
    f"rightslice_gpu_info{{{MIG_CARD},gpu='0',name='A100'}}": (1, 0),
    f"rightslice_gpu_observed_seconds_total{{{MIG_CARD},signal='allocation'}}": (0, 60),
    f"rightslice_gpu_allocated_seconds_total{{{MIG_CARD}}}": (0, 60),
    f"rightslice_gpus_expected{{{MIG_NODE}}}": (1, 0),
    # Of four cards one answers, one is lost, two never came.
    f"rightslice_gpu_up{{{LOST_NODE},uuid='GPU-3'}}": (1, 0),
    f"rightslice_gpu_up{{{LOST_NODE},uuid='GPU-4'}}": (0, 0),
    f"rightslice_gpus_expected{{{LOST_NODE}}}": (4, 0),
    f"rightslice_nvml_released{{{LOST_NODE}}}": (0, 0),
    # Nothing is known, and nothing is missing.
    f"rightslice_gpus_expected{{{RELEASED_NODE}}}": (8, 0),
    f"rightslice_nvml_released{{{RELEASED_NODE}}}": (1, 0),
    # NVML never opened.
    f"rightslice_gpus_expected{{{DEAD_NODE}}}": (2, 0),
    f"rightslice_nvml_released{{{DEAD_NODE}}}": (0, 0),
    f"rightslice_gpus_expected{{{BARE_NODE}}}": (0, 0),
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


def _answer(url: str, expr: str, **chosen: str) -> list[dict[str, Any]]:
    """Evaluate a query at the end of the history, all nodes and cards on show unless `chosen`."""
    for name, value in (VARIABLES | {f"${name}": value for name, value in chosen.items()}).items():
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


def _value(url: str, title: str, legend: str = "", **chosen: str) -> float | None:
    """Give the one number of a panel, or of its series called `legend`; None for no data."""
    (target,) = (t for t in _panel(title)["targets"] if t["legendFormat"] == legend or not legend)
    rows = _answer(url, target["expr"], **chosen)
    assert len(rows) <= 1
    return float(rows[0]["value"][1]) if rows else None


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
    assert _value(prometheus, title, instance="node-1") == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    ("node", "value"),
    [
        pytest.param("node-lost", 3, id="one that is lost and two that never came"),
        pytest.param("node-dead", 2, id="NVML never opened"),
        pytest.param("node-mig", 0, id="all are there"),
        pytest.param("node-released", None, id="released: no data"),
        pytest.param("node-bare", 0, id="a node without a card"),
        pytest.param(".+", 5, id="all nodes"),
    ],
)
def test_lost_cards_are_those_that_went_and_those_that_never_came(
    prometheus: str, node: str, value: float | None
) -> None:
    assert _value(prometheus, "Lost cards", instance=node) == value


def test_cards_that_never_came_are_counted_against_all_cards_of_the_node(prometheus: str) -> None:
    assert _value(prometheus, "Lost cards", instance="node-lost", uuid="GPU-3") == 2


@pytest.mark.parametrize(
    ("node", "value"),
    [
        pytest.param("node-mig", None, id="its kernels cannot be seen: unknown, not 0"),
        pytest.param("node-1", 1, id="its kernels were watched"),
        pytest.param(".+", 1, id="of those whose kernels were watched"),
    ],
)
def test_a_card_with_mig_is_not_called_idle_and_not_called_in_use(
    prometheus: str, node: str, value: float | None
) -> None:
    assert _value(prometheus, "Held and idle for a day", instance=node) == value


@pytest.mark.parametrize(
    ("legend", "value"),
    [
        pytest.param("known", 4, id="of all nodes"),
        pytest.param("watched", 1, id="not the one with MIG"),
        pytest.param("held", 1, id="not the one with MIG, whose kernels would be missing in busy"),
        pytest.param("busy", 0.0005, id="0.03 s of each minute"),
    ],
)
def test_held_and_busy_are_told_of_the_same_cards(
    prometheus: str, legend: str, value: float
) -> None:
    found = _value(prometheus, "Cards held and busy", legend)

    assert found == pytest.approx(value, abs=1e-6)


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
