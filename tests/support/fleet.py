"""A small ledger with one card of each kind, without any feeder."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fastapi import FastAPI

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.api.app import create_app
from rightslice.api.fleet import Fleet
from rightslice.catalogue.price_book import load_price_book
from rightslice.contract.histogram import BIN_COUNT, bin_index
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import CardHour, WorkloadHour

END = datetime(2026, 3, 30, tzinfo=UTC)
HOURS = 28 * 24
GIB = 1024**3
HAND_WARMER, PRE_ALLOCATED, STRANGE = "GPU-hand", "GPU-pool", "GPU-strange"
A100 = "NVIDIA A100-SXM4-40GB"


def bins(ratio: float, count: float = 60.0) -> tuple[float, ...]:
    made = [0.0] * BIN_COUNT
    made[bin_index(ratio)] = count
    return tuple(made)


def hours(uuid: str, used_gib: float, sm_active: float, total_gib: float = 40) -> list[CardHour]:
    """Give four weeks of one card at a steady level."""
    return [
        CardHour(
            uuid,
            END - timedelta(hours=number + 1),
            "dcgm",
            observed_seconds=3600,
            allocation_observed_seconds=3600,
            allocated_seconds=3600,
            busy_observed_seconds=3600,
            busy_seconds=3600 * sm_active,
            memory_total_bytes=int(total_gib * GIB),
            memory_used_peak_bytes=int(used_gib * GIB),
            memory_bins=bins(used_gib / total_gib),
            busy_bins=bins(sm_active),
            sm_active_bins=bins(sm_active),
            busy_signal="busy",
            memory_interval_seconds=60,
            busy_interval_seconds=60,
            sm_active_interval_seconds=60,
        )
        for number in range(HOURS)
    ]


def small_ledger(namespace: str = "chat") -> Ledger:
    """Fill a ledger in memory."""
    ledger = Ledger.open()
    rows = hours(HAND_WARMER, 3.4, 0.04) + hours(PRE_ALLOCATED, 36.0, 0.3)
    rows += hours(STRANGE, 3.0, 0.3, total_gib=11)
    since = END - timedelta(days=28)
    ledger.replace_hours(
        Batch(
            rows,
            [
                WorkloadHour("pod", namespace, "assistant-0", "c", row.uuid, row.hour, "dcgm", 3600)
                for row in rows
                if row.uuid == HAND_WARMER
            ],
            [
                CardAttributes(HAND_WARMER, since, "node-1", A100),
                CardAttributes(PRE_ALLOCATED, since, "node-2", A100),
                CardAttributes(STRANGE, since, "node-2", "nvidia-A100"),
            ],
        )
    )
    return ledger


def small_fleet(ledger: Ledger | None = None) -> Fleet:
    """Make a fleet whose clock stands at the end of the ledger."""
    return Fleet(
        ledger or small_ledger(),
        load_price_book(),
        DEFAULT_POLICY,
        timedelta(days=28),
        now=lambda: END,
    )


def small_app(
    fleet: Fleet | None = None,
    monotonic_seconds: Callable[[], float] = time.monotonic,
    scrape: ScrapeLoop | None = None,
) -> FastAPI:
    """Make the service over a fleet whose history is a ledger."""
    fleet = fleet or small_fleet()
    assert isinstance(fleet.history, Ledger)
    return create_app(fleet, fleet.history, monotonic_seconds, scrape)
