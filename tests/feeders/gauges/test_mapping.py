"""Mapping files: what ships is sound, and a mistake is told with its place."""

from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.gauges.mapping import Field, load_mapping, shipped_mapping, shipped_names
from rightslice.ledger.rows import SOURCE_DCGM

MINIMAL = """\
name: acme
metrics:
  memory_used_bytes:
    - {metric: acme_used, highest: 100}
labels:
  uuid: {names: [serial]}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "acme.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_four_mappings_ship_each_under_its_own_name() -> None:
    assert shipped_names() == (
        "amd_device_metrics_exporter",
        "ascend_npu_exporter",
        "dcgm",
        "nvidia_gpu_exporter",
    )
    assert [shipped_mapping(name).name for name in shipped_names()] == list(shipped_names())


def test_dcgm_keeps_its_name_in_the_ledger() -> None:
    assert shipped_mapping("dcgm").name == SOURCE_DCGM


def test_every_spelling_of_a_metric_is_asked_for() -> None:
    names = shipped_mapping("amd_device_metrics_exporter").series_names

    assert {"gpu_used_vram", "GPU_USED_VRAM", "amd_gpu_used_vram"} <= set(names)


def test_a_metric_a_label_and_a_name_are_enough(tmp_path: Path) -> None:
    mapping = load_mapping(written(tmp_path, MINIMAL))

    assert [metric.field for metric in mapping.metrics] == [Field.MEMORY_USED]
    assert mapping.metrics[0].scale == 1
    assert mapping.prefixes == ("",)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        pytest.param("name: acme", "name: Acme!", "line 1: name must be", id="name"),
        pytest.param("name: acme", "name: rightslice", "line 1: name must be", id="our name"),
        pytest.param("highest: 100", "highest: 0", "highest must be above 0", id="highest"),
        pytest.param(", highest: 100", "", "highest is missing", id="no highest"),
        pytest.param("highest: 100", "highest: 1, scale: -1", "scale must be above", id="scale"),
        pytest.param("memory_used", "memory_usde", "not a known key", id="misspelt field"),
        pytest.param("memory_used_bytes", "power_watts", "tell neither", id="nothing to use"),
        pytest.param("names: [serial]", "prefix: GPU-", "needs names or composed_of", id="uuid"),
        pytest.param("  uuid: {names: [serial]}", "  node: [h]", "needs names or", id="no uuid"),
        pytest.param("labels:", "lables:", "labels is missing", id="misspelt section"),
        pytest.param("highest: 100", "highest: 1, signal: x", "for busy_ratio only", id="signal"),
        pytest.param("name: acme", "name: acme\nblanks: [none]", "must be numbers", id="blanks"),
        pytest.param("name: acme", "name: acme\nextra: 1", "not a known key", id="unknown key"),
        pytest.param(
            "    - {metric: acme_used, highest: 100}",
            "    - {metric: acme_used, highest: 1}\n    - {metric: ACME_USED, highest: 1}",
            "name ACME_USED twice",
            id="twice",
        ),
    ],
)
def test_a_mistake_is_told_with_file_line_and_remedy(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    file = written(tmp_path, MINIMAL.replace(old, new))

    with pytest.raises(DocumentError, match=complaint) as raised:
        load_mapping(file)

    assert f"{file}, line" in str(raised.value)
