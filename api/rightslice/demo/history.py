"""A week of a simulated node: the same exporter, scraper and ledger, on a faster clock."""

from collections.abc import Callable

from rightslice.exporter.collectors import load
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.simulate import dcgm
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import Scenario
from rightslice.feeders.targets.scraper import Scraper

NODE = "demo-node"
OUR_TARGET, DCGM_TARGET = "rightslice-exporter", "dcgm-exporter"
# On the fast clock the node is sampled every 20 s rather than every second, and scraped every
# two minutes: the code is the same, the answer too, and a week takes seconds.
SAMPLING_SECONDS = 20.0
SCRAPE_SECONDS = 120.0
FLUSH_SECONDS = 21_600.0
# What the ledger's hours are made of. The others would make the week several times as long.
LEDGER_COLLECTORS = ("gpu_activity", "gpu_info", "gpu_memory", "gpu_use")

Progress = Callable[[float], None]


def play(
    scenario: Scenario,
    scraper: Scraper,
    start_seconds: float,
    end_seconds: float,
    progress: Progress = lambda done_ratio: None,
) -> None:
    """Run a simulated node from start to end and feed the scraper, then write the ledger."""
    clock = ManualClock(start_seconds)
    with installed(scenario, clock.now_seconds):
        sampler = Sampler(
            Host(NODE, NOWHERE, clock.clock()),
            {name: load(name) for name in LEDGER_COLLECTORS},
            clock.clock(),
            Identity("demo", ""),
            SAMPLING_SECONDS,
        )
        next_scrape_seconds = start_seconds
        next_flush_seconds = start_seconds + FLUSH_SECONDS
        while clock.now_seconds() <= end_seconds:
            now_seconds = clock.now_seconds()
            sampler.sample()
            if now_seconds >= next_scrape_seconds:
                next_scrape_seconds += SCRAPE_SECONDS
                scraper.ingest(OUR_TARGET, sampler.page()[0].decode(), now_seconds)
                sampler.scraped()
                scraper.ingest(DCGM_TARGET, dcgm.page(scenario, NODE, now_seconds), now_seconds)
            if now_seconds >= next_flush_seconds:
                next_flush_seconds += FLUSH_SECONDS
                scraper.flush(now_seconds)
                progress((now_seconds - start_seconds) / (end_seconds - start_seconds))
            clock.advance(SAMPLING_SECONDS)
        sampler.close()
    scraper.flush(end_seconds)
    progress(1.0)
