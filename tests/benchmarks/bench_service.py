"""What feeding and asking the ledger costs: our page parser beside the library's, 1,000 cards.

A plain script: `./run bench`. Figures of one run, on one machine, side by side.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from prometheus_client.parser import text_string_to_metric_families
from support.intervals import every

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.api.fleet import Fleet
from rightslice.catalogue.price_book import load_price_book
from rightslice.contract.histogram import BIN_COUNT
from rightslice.exporter.simulate.dcgm import page
from rightslice.exporter.simulate.scenario import load_scenario
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import CardHour, WorkloadHour

CARDS, DAYS = 1_000, 28
END = datetime(2026, 3, 30, tzinfo=UTC)
BINS = (60.0,) + (0.0,) * (BIN_COUNT - 1)


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Time a piece of work; the best of some runs."""
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def bench_pages() -> None:
    text = page(load_scenario("fleet"), "node", END.timestamp())
    lines = sum(not line.startswith("#") for line in text.splitlines())
    parser, mapper = PageParser(), GaugeMapper(shipped_mapping("dcgm"))
    parser.parse(text)
    ours = seconds(lambda: parser.parse(text), 20)
    theirs = seconds(lambda: list(text_string_to_metric_families(text)), 20)
    readings, clock = parser.parse(text), [END.timestamp()]

    def feed() -> None:
        clock[0] += 60
        mapper.feed(clock[0], readings, every(60.0))
        mapper.settle()

    fed = seconds(feed, 20)
    print(f"parse a page          ours {1e6 * ours / lines:6.2f} us/line")
    print(
        f"                   library {1e6 * theirs / lines:6.2f} us/line  ({theirs / ours:.1f} x)"
    )
    print(f"feed dcgm readings         {1e6 * fed / lines:6.2f} us/reading")


def day(number: int) -> Batch:
    """One day of 1,000 cards."""
    start = END - timedelta(days=DAYS - number)
    cards = [
        CardHour(
            f"GPU-{card}",
            start + timedelta(hours=hour),
            "dcgm",
            observed_seconds=3600,
            allocation_observed_seconds=3600,
            allocated_seconds=3600,
            busy_observed_seconds=3600,
            busy_seconds=500,
            memory_total_bytes=40 << 30,
            memory_used_peak_bytes=3 << 30,
            memory_bins=BINS,
            busy_bins=BINS,
            sm_active_bins=BINS,
            busy_signal="busy",
            memory_interval_seconds=60,
            busy_interval_seconds=60,
            sm_active_interval_seconds=60,
        )
        for card in range(CARDS)
        for hour in range(24)
    ]
    return Batch(
        cards,
        [
            WorkloadHour("pod", "ns", f"pod-{row.uuid}", "c", row.uuid, row.hour, "dcgm", 3600)
            for row in cards
        ],
        [
            CardAttributes(f"GPU-{card}", start, f"node-{card // 8}", "NVIDIA A100-SXM4-40GB")
            for card in range(CARDS)
        ],
    )


def bench_ledger() -> None:
    ledger = Ledger.open()
    written = 0.0
    for number in range(DAYS):
        batch = day(number)
        written += seconds(lambda batch=batch: ledger.replace_hours(batch))  # type: ignore[misc]
    window = timedelta(days=DAYS)
    asked = seconds(lambda: ledger.card_usage(END - window, END), 3)
    fleet = Fleet(ledger, load_price_book(), DEFAULT_POLICY, window, lambda: END)
    answered = seconds(fleet.answers)
    rows = CARDS * DAYS * 24
    print(f"write {rows:,} card hours   {written:6.1f} s  ({1e6 * written / rows:.0f} us each)")
    print(f"sum them by card             {asked:6.2f} s")
    print(f"answer for {CARDS:,} cards       {answered:6.2f} s")


if __name__ == "__main__":
    bench_pages()
    bench_ledger()
