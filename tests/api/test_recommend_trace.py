"""A real trace of a serving system, as dcgm-exporter would have told it.

The trace may not be published; its folder comes from the environment. Its duty cycle is taken as
engine activity, its cards as 80 GB ones: the publisher does not name the model.
"""

import csv
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli import rightslice
from support.prometheus import running_prometheus, write_blocks

pytestmark = [pytest.mark.shared, pytest.mark.integration]

FOLDER = "traces/alibaba-gentd26-gpu"
DUTY, MEMORY = "pod_gpu_duty_cycle_anon.csv.gz", "pod_gpu_memory_used_bytes_anon.csv.gz"
CARD_MIB = 81920
POD_COUNT = 144
MIB = 1024**2


def rows(file: Path) -> Iterator[tuple[str, float, float]]:
    """Give (pod, seconds, value)."""
    with gzip.open(file, "rt", encoding="utf-8") as text:
        for row in csv.DictReader(text):
            yield row["container_ip"], float(row["timestamp_anon"]), float(row["value"])


def labels(pod: str) -> str:
    return (
        f'UUID="GPU-{pod}",gpu="0",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-{pod[:6]}",'
        f'pod="sd-{pod}",namespace="serving",container="main",job="dcgm",instance="{pod[:6]}"'
    )


def openmetrics(folder: Path) -> Iterator[str]:
    """Write the trace, moved in time so that it ends with an hour that is over for sure."""
    memory = list(rows(folder / MEMORY))
    shift = int(time.time() - 3600) // 3600 * 3600 - max(seconds for _, seconds, _ in memory)
    for pod, seconds, duty_percent in rows(folder / DUTY):
        stamp = f"{seconds + shift:.0f}"
        yield f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels(pod)}}} {duty_percent / 100:.6g} {stamp}"
    for pod, seconds, used_bytes in memory:
        used_mib = round(used_bytes / MIB)
        yield f"DCGM_FI_DEV_FB_USED{{{labels(pod)}}} {used_mib} {seconds + shift:.0f}"
    for pod, seconds, used_bytes in memory:
        free_mib = CARD_MIB - round(used_bytes / MIB)
        yield f"DCGM_FI_DEV_FB_FREE{{{labels(pod)}}} {free_mib} {seconds + shift:.0f}"


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from conftest import shared_folder

    shared = shared_folder()
    assert shared is not None
    data = write_blocks(tmp_path_factory.mktemp("trace"), openmetrics(shared / FOLDER))
    with running_prometheus(data) as url:
        done = rightslice("recommend", "--prometheus", url, "--window", "2d", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_pod_of_the_trace_gets_advice_or_a_reason(answer: Any) -> None:
    summary, found = answer["summary"], answer["recommendations"]

    assert len(found) == POD_COUNT
    assert summary["advised_count"] + sum(summary["no_advice"].values()) == POD_COUNT
    assert all((row["headline"] is None) == (row["reason"] is not None) for row in found)


def test_most_pods_were_seen_long_enough_and_the_rest_say_why_not(answer: Any) -> None:
    summary = answer["summary"]

    assert summary["advised_count"] >= 90
    assert set(summary["no_advice"]) <= {
        "gone",
        "low_compute_coverage",
        "low_coverage",
        "too_little_history",
        "unobserved",
    }


def test_less_than_a_day_of_history_keeps_the_largest_headroom(answer: Any) -> None:
    advised = [row for row in answer["recommendations"] if row["needs"] is not None]

    assert {row["needs"]["memory_headroom_ratio"] for row in advised} == {0.3}


def test_a_servers_price_stays_a_range_and_an_estimate(answer: Any) -> None:
    price = answer["recommendations"][0]["present_price_per_month"]

    assert price == {
        "low": "5625.00",
        "high": "7250.00",
        "currency": "CNY",
        "is_estimate": True,
    }


def test_loaded_models_without_requests_are_parked_not_free(answer: Any) -> None:
    classes = {row["usage"]["idle_class"] for row in answer["recommendations"]}

    assert "unallocated" not in classes
