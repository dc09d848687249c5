"""The same history out of a real VictoriaMetrics gives the same ledger as out of a Prometheus."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.dcgm_history import Card, between, history, memory_fields, up_to
from support.ledger_content import content
from support.our_history import card_count, node_lines, node_series
from support.prometheus import running_prometheus, write_blocks
from support.victoria import running_victoria

from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

END = int(time.time()) // 3600 * 3600 - 7200
# Around the days lies what the first and the last interval need.
AROUND_SECONDS = 1_200


def ours(cards: int, days: float) -> Iterator[str]:
    series = node_series("fleet")
    for node in range(-(-cards // card_count(series))):
        start = round(END - days * 86_400) - AROUND_SECONDS
        yield from node_lines(series, node, start, days + 2 * AROUND_SECONDS / 86_400)


def dcgm(cards: int, days: float) -> Iterator[str]:
    fields = {
        **memory_fields(between(2.0, 3.4)),
        "DCGM_FI_DEV_GPU_UTIL": between(12, 15),
        "DCGM_FI_PROF_SM_ACTIVE": up_to(0.041, 0.06),
    }
    found = [
        Card(f"GPU-{number}", fields, node=f"node-{number // 8}", pod=f"p-{number}")
        for number in range(cards)
    ]
    start = round(END - days * 86_400) - AROUND_SECONDS + 7
    return history(found, start, round(days * 1440) + 40)


def ledger_from(url: str, days: float) -> dict[str, list[tuple[Any, ...]]]:
    client = PrometheusClient(url)
    ledger = Ledger.open()
    end = datetime.fromtimestamp(END, UTC)
    pull(client, ledger, end - timedelta(days=days), end, choose_sources())
    client.close()
    found = content(ledger)
    ledger.close()
    return found


@pytest.mark.parametrize(
    ("lines", "cards", "days"),
    [
        pytest.param(ours, 18, 3, id="ours"),  # three nodes of six
        pytest.param(dcgm, 100, 7, id="dcgm"),
    ],
)
def test_both_servers_give_the_same_ledger_to_the_last_second(
    tmp_path: Path, lines: Callable[[int, float], Iterator[str]], cards: int, days: float
) -> None:
    with running_prometheus(write_blocks(tmp_path, lines(cards, days))) as url:
        from_prometheus = ledger_from(url, days)
    with running_victoria(tmp_path, lines(cards, days)) as url:
        from_victoria = ledger_from(url, days)

    assert from_victoria == from_prometheus
    rows = from_prometheus["cards"]
    assert len(rows) == cards * round(days * 24)
    assert {row[3] for row in rows} == {Decimal(3600)}
