"""`rightslice recommend --now`: from a Prometheus, up to this moment, kept nowhere."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import answers, rightslice
from support.dcgm_history import Card, always, history, memory_fields
from support.prometheus import running_prometheus, write_blocks

pytestmark = pytest.mark.integration

UUID = "GPU-now"
MINUTES = 20 * 60


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fields = {
        **memory_fields(always(3.4)),
        "DCGM_FI_DEV_GPU_UTIL": always(4),
        "DCGM_FI_PROF_SM_ACTIVE": always(0.04),
    }
    card = Card(UUID, fields, pod="assistant-0", namespace="chat")
    end = int(time.time()) // 60 * 60
    lines = history([card], end - MINUTES * 60, MINUTES)
    with running_prometheus(write_blocks(tmp_path_factory.mktemp("now"), lines)) as url:
        yield url


def test_the_answer_has_the_hour_that_is_not_over(prometheus: str, tmp_path: Path) -> None:
    now = ("recommend", "--prometheus", prometheus, "--now", "--window", "24h", "-o", "json")

    card = answers(rightslice(*now))[UUID]

    assert card["workloads"] == ["chat/assistant-0"]
    # A minute of the twenty hours may still be to come.
    assert card["usage"]["observed_hours"] == pytest.approx(MINUTES / 60, abs=0.05)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        pytest.param(["--window", "24h"], "give --prometheus URL", id="no Prometheus"),
        pytest.param(
            ["--prometheus", "http://127.0.0.1:1", "--window", "3d"],
            "give --window 48h or less",
            id="a long window",
        ),
        pytest.param(
            ["--prometheus", "http://127.0.0.1:1"], "give --window 48h or less", id="no window"
        ),
        pytest.param(
            ["--prometheus", "http://127.0.0.1:1", "--window", "1h", "--ledger", "x.duckdb"],
            "leave out either --ledger or --now",
            id="a ledger",
        ),
        pytest.param(
            ["--api", "http://127.0.0.1:1", "--window", "1h"],
            "give --prometheus URL",
            id="a running service",
        ),
    ],
)
def test_flags_that_do_not_go_with_it_are_refused(flags: list[str], remedy: str) -> None:
    done = rightslice("recommend", "--now", *flags)

    assert done.returncode == 2
    assert remedy in done.stderr


def test_a_prometheus_that_holds_nothing_is_said_to(tmp_path: Path) -> None:
    with running_prometheus(tmp_path / "data") as url:
        done = rightslice("recommend", "--prometheus", url, "--now", "--window", "2h", "-o", "csv")

    assert done.returncode == 0
    assert "tells of no card by now" in done.stderr
