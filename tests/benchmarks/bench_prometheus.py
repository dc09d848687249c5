"""What filling the ledger from a real Prometheus costs, ours and dcgm-exporter's metrics.

A plain script: `./run bench`, smaller with --quick. Figures of one run, on one machine which the
server shares, scaled to 1,000 cards and 28 days.
"""

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.dcgm_history import Card, between, history, memory_fields, up_to
from support.our_history import card_count, node_lines, node_series
from support.prometheus import running_prometheus, write_blocks

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.api.fleet import Fleet
from rightslice.catalogue.price_book import load_price_book
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.ledger.ledger import Ledger

START = datetime(2026, 3, 2, tzinfo=UTC)
FIRST = int(START.timestamp()) - 1_200
AROUND_DAYS = 2_400 / 86_400
CARD_DAYS = 1_000 * 28


def dcgm_lines(cards: int, days: float, step_seconds: int) -> Iterator[str]:
    fields = {
        **memory_fields(between(2.0, 3.4)),
        "DCGM_FI_DEV_GPU_UTIL": between(12, 15),
        "DCGM_FI_PROF_SM_ACTIVE": up_to(0.041, 0.06),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": up_to(0.05, 0.07),
    }
    found = [
        Card(f"GPU-{number}", fields, node=f"node-{number // 8}", pod=f"p-{number}")
        for number in range(cards)
    ]
    count = round((days + AROUND_DAYS) * 86_400 / step_seconds)
    return history(found, FIRST + 7, count, step_seconds)


def bench(name: str, lines: Iterable[str], cards: int, days: float) -> None:
    """Pull a history into a fresh ledger, and answer from it."""
    window = timedelta(days=days)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_prometheus(write_blocks(Path(folder), lines)) as url,
    ):
        client, ledger = PrometheusClient(url), Ledger.open()
        started = time.perf_counter()
        pull(client, ledger, START, START + window, choose_sources())
        pulled = time.perf_counter() - started
        client.close()
        fleet = Fleet(ledger, load_price_book(), DEFAULT_POLICY, window, lambda: START + window)
        fleet.answers()
        answered = time.perf_counter() - started - pulled
        ledger.close()
    traffic, scale = client.traffic, CARD_DAYS / (cards * days)
    print(
        f"{name}: {cards} cards, {days:g} days   {pulled:.1f} s, of which the server "
        f"{traffic.busy_seconds:.1f} s; {traffic.request_count} requests, "
        f"{traffic.answer_bytes / 1e6:.1f} MB; answered in {answered:.1f} s"
    )
    print(
        f"    1,000 cards, 28 days: {scale * pulled / 60:.1f} min, "
        f"{scale * traffic.answer_bytes / 1e9:.2f} GB   100 cards, 28 days: "
        f"{scale / 10 * pulled + answered:.0f} s to advice"
    )


def main(*, is_quick: bool) -> None:
    series = node_series("fleet")
    nodes = 4 if is_quick else 20
    lines = (
        line for node in range(nodes) for line in node_lines(series, node, FIRST, 1 + AROUND_DAYS)
    )
    bench("ours, each 60 s", lines, nodes * card_count(series), 1)
    cards = 40 if is_quick else 200
    for step_seconds in (60, 30):
        bench(f"dcgm, each {step_seconds} s", dcgm_lines(cards, 1, step_seconds), cards, 1)


if __name__ == "__main__":
    main(is_quick="--quick" in sys.argv[1:])
