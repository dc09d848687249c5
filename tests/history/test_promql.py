"""What only a Prometheus that is asked each time does; the rest is in test_history."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.dcgm_history import Card, between, history, memory_fields
from support.prometheus import free_port, running_prometheus, write_blocks

from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.scraper import Scraper
from rightslice.history.promql import LONGEST_WINDOW, PromqlHistory
from rightslice.ledger.ledger import Ledger

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTES = 200
FIRST_SECONDS = int(START.timestamp()) + 7
NOW = datetime.fromtimestamp(FIRST_SECONDS + (MINUTES - 1) * 60, UTC)


def gauges() -> list[str]:
    """Two cards of dcgm-exporter's, one of them held by a pod, that nobody saw for ten minutes."""
    fields = {
        **memory_fields(between(2, 20)),
        "DCGM_FI_DEV_GPU_UTIL": between(0, 90),
        "DCGM_FI_PROF_SM_ACTIVE": between(0, 0.6),
    }
    cards = [
        Card("GPU-held", fields, pod="p-0", namespace="chat"),
        Card("GPU-free", fields, seen=lambda index, count: not 85 <= index < 95),
    ]
    return list(history(cards, FIRST_SECONDS, MINUTES))


def scraped(lines: list[str]) -> Ledger:
    """Fill a ledger from the pages that the lines were scraped from."""
    pages: dict[float, list[str]] = defaultdict(list)
    for line in lines:
        if not line.startswith("#"):
            sample, _, stamp = line.rpartition(" ")
            pages[float(stamp)].append(sample)
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for seconds, samples in sorted(pages.items()):
        scraper.ingest("node-1", "\n".join(samples) + "\n", seconds)
    scraper.flush(NOW.timestamp())
    return ledger


@pytest.mark.integration
def test_gauges_up_to_now_are_what_a_scraper_made_of_them(tmp_path: Path) -> None:
    lines = gauges()
    ledger = scraped(lines)
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        client = PrometheusClient(url)
        asked = PromqlHistory(client, choose_sources(), lambda: NOW).card_usage(START, NOW)
        client.close()
    kept = ledger.card_usage(START, NOW)
    ledger.close()

    assert [card.uuid for card in asked] == ["GPU-free", "GPU-held"]
    for mine, theirs in zip(asked, kept, strict=True):
        assert mine.owned_seconds == theirs.owned_seconds
        for name in ("observed_seconds", "busy_seconds", "idle_seconds", "unknown_seconds"):
            assert float(getattr(mine, name)) == pytest.approx(
                float(getattr(theirs, name)), abs=0.01
            )
        assert mine.memory_seconds == pytest.approx(theirs.memory_seconds, abs=0.01)
        assert mine.sm_active_bin_seconds == pytest.approx(theirs.sm_active_bin_seconds, abs=0.01)
        assert mine.holders == theirs.holders


def test_a_long_window_is_refused_with_what_to_do() -> None:
    client = PrometheusClient("http://127.0.0.1:1")

    with pytest.raises(SourceError, match=r"49 h are too long .* 48 h are the most; .* a ledger"):
        PromqlHistory(client, choose_sources(), lambda: NOW).card_usage(
            NOW - LONGEST_WINDOW - HOUR, NOW
        )
    client.close()


def test_what_lies_after_the_present_does_not_make_a_window_long() -> None:
    client = PrometheusClient("http://127.0.0.1:1")
    asked = PromqlHistory(client, choose_sources(), lambda: NOW)

    # Nothing has begun in it, so nobody is asked.
    assert asked.card_usage(NOW + 30 * HOUR, NOW + 300 * HOUR) == []
    client.close()


@pytest.mark.integration
def test_a_server_that_is_not_there_is_told_as_such() -> None:
    client = PrometheusClient(f"http://127.0.0.1:{free_port()}")

    with pytest.raises(SourceError, match="cannot be reached"):
        PromqlHistory(client, choose_sources(), lambda: NOW).card_usage(START, NOW)
    client.close()
