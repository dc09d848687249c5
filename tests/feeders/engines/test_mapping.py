"""Mapping files of engines: what ships is sound, and a mistake is told with its place."""

from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.engines.mapping import (
    Fact,
    load_engine_mapping,
    shipped_engine_mapping,
    shipped_engine_names,
)

MINIMAL = """\
name: gateway
metrics:
  waiting:
    - {metric: gateway_queue}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "gateway.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_four_engines_ship_each_under_its_own_name() -> None:
    assert shipped_engine_names() == ("sglang", "tgi", "triton", "vllm")
    assert [shipped_engine_mapping(name).name for name in shipped_engine_names()] == list(
        shipped_engine_names()
    )


def test_a_histogram_is_known_by_its_buckets() -> None:
    names = shipped_engine_mapping("vllm").series_names

    assert "vllm:e2e_request_latency_seconds_bucket" in names
    assert "vllm:request_success_total" in names


def test_a_metric_and_a_name_are_enough(tmp_path: Path) -> None:
    (metric,) = load_engine_mapping(written(tmp_path, MINIMAL)).metrics

    assert (metric.fact, metric.name, metric.scale) == (Fact.WAITING, "gateway_queue", 1.0)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("name: gateway", "name: My-Gateway", "line 1: name must be", id="name"),
        pytest.param("metrics:", "metric:", "metrics is missing", id="no metrics"),
        pytest.param("  waiting:", "  wating:", "not a known key", id="misspelt fact"),
        pytest.param("gateway_queue}", "gateway_queue, scale: 0}", "scale must be", id="scale"),
        pytest.param("gateway_queue}", "gateway_queue, unit: s}", "not a known key", id="key"),
        pytest.param("metric: gateway_queue", "scale: 2", "metric is missing", id="no metric"),
        pytest.param(
            "waiting:\n    - {metric: gateway_queue}",
            "request_seconds:\n    - {metric: gateway_seconds_bucket}",
            "line 4: metrics.request_seconds[0].metric must be the histogram's own name",
            id="bucket",
        ),
        pytest.param(
            "waiting:\n    - {metric: gateway_queue}",
            "requests:\n    - {metric: gateway_requests, label: count}",
            "label is for what does not grow",
            id="label of a counter",
        ),
        pytest.param(
            "  waiting:\n    - {metric: gateway_queue}", "  waiting: []", "empty", id="[]"
        ),
    ],
)
def test_a_mistake_is_told_with_file_line_and_remedy(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    file = written(tmp_path, MINIMAL.replace(old, new))

    with pytest.raises(DocumentError) as caught:
        load_engine_mapping(file)

    text = str(caught.value)
    # Paths of keys start at the list that holds them.
    assert complaint.replace("metrics.request", "request") in text.replace(
        "metrics.request", "request"
    )
    assert text.startswith(f"{file}, line ")
