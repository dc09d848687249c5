"""A simulated node's pages over hours, for an embedded scraper and for a Prometheus."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.machine import simulated_machine
from rightslice.exporter.simulate.scenario import Scenario, load_scenario

SAMPLING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape."""

    now_seconds: float
    text: str


def pages(
    scenario: str, start_seconds: float, hours: float, restart_after_hours: float | None = None
) -> Iterator[Page]:
    """Scrape a simulated node each minute; the exporter may be restarted once on the way."""
    clock = ManualClock(start_seconds)
    end_seconds = start_seconds + hours * 3600
    restart_seconds = (
        end_seconds + 1
        if restart_after_hours is None
        else start_seconds + restart_after_hours * 3600
    )
    with installed(load_scenario(scenario), clock.now_seconds):
        while clock.now_seconds() < end_seconds:
            sampler = Sampler(
                Host("node-1", NOWHERE, clock.clock()),
                {name: load(name) for name in ENABLED},
                clock.clock(),
                Identity("test", ""),
                SAMPLING_SECONDS,
            )
            until_seconds = (
                restart_seconds if clock.now_seconds() < restart_seconds else end_seconds
            )
            while clock.now_seconds() < min(until_seconds, end_seconds):
                sampler.sample()
                if clock.now_seconds() % 60 < SAMPLING_SECONDS:
                    yield Page(clock.now_seconds(), sampler.page()[0].decode())
                clock.advance(SAMPLING_SECONDS)
            sampler.close()


def machine_pages(
    scenario: str | Scenario, start_seconds: float, minutes: int, step_seconds: float = 1.0
) -> Iterator[Page]:
    """Scrape a whole simulated node each minute: cards, processes, orchestrator and network."""
    clock = ManualClock(start_seconds)
    found = load_scenario(scenario) if isinstance(scenario, str) else scenario
    with ExitStack() as stack:
        machine = stack.enter_context(simulated_machine(found, clock.clock()))
        host = Host(
            "node-1",
            machine.paths,
            clock.clock(),
            network_options=machine.network.options,
            network_calls=machine.network.calls,
        )
        stack.callback(host.attribution.close)
        sampler = Sampler(
            host,
            {name: load(name) for name in ENABLED},
            clock.clock(),
            Identity("test", ""),
            step_seconds,
        )
        stack.callback(sampler.close)
        for _ in range(round(minutes * 60 / step_seconds) + 1):
            sampler.sample()
            if clock.now_seconds() % 60 < step_seconds:
                text = sampler.page()[0].decode()
                sampler.scraped()
                yield Page(clock.now_seconds(), text)
            clock.advance(step_seconds)


def openmetrics(
    found: list[Page], instance: str = "node-1:19400", moved: dict[float, str] | None = None
) -> Iterator[str]:
    """Write pages as a Prometheus would have stored them, grouped by series.

    `moved` gives the instance from a time on.
    """
    series: dict[str, list[str]] = {}
    for page in found:
        for since_seconds, name in (moved or {}).items():
            instance = name if page.now_seconds >= since_seconds else instance
        for line in page.text.splitlines():
            if line.startswith("#"):
                continue
            head, _, value = line.rpartition(" ")
            name, brace, rest = head.partition("{")
            labels = f'job="rightslice",instance="{instance}"' + (f",{rest[:-1]}" if brace else "")
            stored = series.setdefault(f"{name}{{{labels}}}", [])
            stored.append(f"{value} {page.now_seconds:.3f}")
    for head, values in sorted(series.items()):
        for value in values:
            yield f"{head} {value}"
