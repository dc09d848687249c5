"""Label values of any kind stand in PromQL as themselves, as a real Prometheus reads them."""

from pathlib import Path

import pytest
from support.prometheus import running_prometheus, write_blocks

from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.selectors import any_of

VALUES = ("hall–2", "room 🙂", "a.b", "(x)|y", 'say "hi"', "back\\slash", "线上/0", "$^*+?[]{}")


def test_only_what_means_more_than_itself_is_escaped() -> None:
    assert any_of(["hall–2", "a.b"]) == '"hall–2|a\\\\.b"'


@pytest.mark.integration
def test_any_value_is_matched_and_no_other(tmp_path: Path) -> None:
    def written(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"')

    lines = [f'site_up{{site="{written(value)}"}} 1 1772445600' for value in (*VALUES, "axb")]
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        client = PrometheusClient(url)
        found = client.raw(f"site_up{{site=~{any_of(VALUES)}}}", 1772445000, 1772446000)
        client.close()

    assert sorted(one.labels["site"] for one in found) == sorted(VALUES)
