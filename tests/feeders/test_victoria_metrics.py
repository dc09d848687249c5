"""The same history out of a real VictoriaMetrics gives the same hours as out of a Prometheus."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.dcgm_history import Card, between, history, memory_fields, up_to
from support.prometheus import running_prometheus, write_blocks
from support.victoria import running_victoria

from rightslice.feeders.prometheus import pull
from rightslice.feeders.prometheus_client import PrometheusClient
from rightslice.ledger.ledger import Ledger
from rightslice.profile.usage import CardUsage

pytestmark = pytest.mark.integration

MINUTES = 2 * 1440
END = int(time.time()) // 3600 * 3600 - 7200


def lines() -> list[str]:
    fields = {
        **memory_fields(between(2.0, 3.4)),
        "DCGM_FI_DEV_GPU_UTIL": between(12, 15),
        "DCGM_FI_PROF_SM_ACTIVE": up_to(0.041, 0.06),
    }
    return list(history([Card("GPU-1", fields, pod="p")], END - MINUTES * 60 + 7, MINUTES))


def usage_from(url: str) -> CardUsage:
    client = PrometheusClient(url)
    ledger = Ledger.open()
    end = datetime.fromtimestamp(END, UTC)
    pull(client, ledger, end - timedelta(days=2), end)
    client.close()
    (card,) = ledger.card_usage(end - timedelta(days=2), end)
    ledger.close()
    return card


def test_both_servers_give_the_same_hours(tmp_path: Path) -> None:
    with running_prometheus(write_blocks(tmp_path, lines())) as url:
        from_prometheus = usage_from(url)
    with running_victoria(tmp_path, lines()) as url:
        from_victoria = usage_from(url)

    assert from_victoria == from_prometheus
    assert from_victoria.hour_count == 48
